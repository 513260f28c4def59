"""The variables available to a suite: the process environment, then the `.env` files near the suite."""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agentv.errors import ConfigError, Problem
from agentv.suite.files import search_root, upward

_PLACEHOLDER = re.compile(r"\$\{\{\s*([A-Za-z0-9_]+)\s*(?::-(.*?))?\s*\}\}", re.DOTALL)
_log = logging.getLogger(__name__)
MARK = "\0"
"""A character that cannot occur in a configuration."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables by name, and which of them are set in a `.env` file."""

    values: Mapping[str, str]
    dotenv_names: frozenset[str] = frozenset()
    dotenv_files: tuple[Path, ...] = field(default=(), compare=False)

    def get(self, name: str) -> str | None:
        """The value, or None if the variable is unset or empty."""
        return self.values.get(name) or None

    @classmethod
    def near(cls, start: Path, *, caller: Mapping[str, str] | None = None, cwd: Path | None = None) -> Environment:
        """The caller's variables, then every `.env` from `start` upward and in the working directory; nearest first."""
        values = dict(os.environ if caller is None else caller)
        names: set[str] = set()
        files = dotenv_files(start, cwd or Path.cwd())
        for path in files:
            for name, value in _read_dotenv(path).items():
                names.add(name)
                values.setdefault(name, value)
        return cls(values, frozenset(names), files)


def search_folders(start: Path, working_directory: Path) -> list[Path]:
    """`start` and its parents up to the repository root, then the working directory."""
    folders = list(upward(start, search_root(start, working_directory)))
    return folders if working_directory in folders else [*folders, working_directory]


def dotenv_files(start: Path, working_directory: Path) -> tuple[Path, ...]:
    """The `.env` files that apply to `start`, nearest first."""
    return tuple(path for f in search_folders(start, working_directory) if (path := f / ".env").is_file())


def _read_dotenv(path: Path) -> dict[str, str]:
    from dotenv import dotenv_values  # noqa: PLC0415 - only imported if there is a .env
    from dotenv.parser import parse_stream  # noqa: PLC0415

    try:
        statements = list(parse_stream(io.StringIO(path.read_text("utf-8-sig"))))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError([Problem(path, 1, 1, f"cannot read the .env file: {reason}")]) from None
    for statement in statements:
        if statement.error:
            _warn_skipped(path, statement.original.line)
    readable = "".join(statement.original.string for statement in statements if not statement.error)
    values = dotenv_values(stream=io.StringIO(readable))
    return {name: value for name, value in values.items() if value is not None}


@cache
def _warn_skipped(path: Path, line: int) -> None:
    """Warn once, however often the file is read. The line itself is not shown: it may contain a secret."""
    _log.warning("%s:%d: not a `NAME=value` line, skipped; remove it or comment it out with #", path, line)


def interpolate(
    value: Any, environment: Environment, missing: list[str], escape: Callable[[str], str] | None = None
) -> Any:
    """The value with every `${{ NAME }}` and `${{ NAME:-fallback }}` filled in. Unset names are added to `missing`.

    `escape` is applied to the values of variables before they are inserted.
    """
    if isinstance(value, str):
        if "${{" not in value:
            return value
        return _PLACEHOLDER.sub(lambda match: _fill(match, environment, missing, escape), value)
    if isinstance(value, Mapping):
        return {key: interpolate(item, environment, missing, escape) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolate(item, environment, missing, escape) for item in value]
    return value


def _fill(
    match: re.Match[str], environment: Environment, missing: list[str], escape: Callable[[str], str] | None
) -> str:
    name, fallback = match.group(1), match.group(2)
    value = environment.get(name)
    if value is not None:
        return value if escape is None else escape(value)
    if fallback is None:
        missing.append(name)
        return ""
    return fallback


def variables_in(value: Any) -> set[str]:
    """The names of all variables that a value reads through `${{ }}`."""
    if isinstance(value, str):
        return {match.group(1) for match in _PLACEHOLDER.finditer(value)}
    if isinstance(value, Mapping):
        return {name for item in value.values() for name in variables_in(item)}
    if isinstance(value, list):
        return {name for item in value for name in variables_in(item)}
    return set()


def has_unreadable(value: Any) -> bool:
    """Whether a value contains a malformed `${{ }}`: one without a variable name, or one in the fallback of another."""
    if isinstance(value, str):
        return "${{" in _PLACEHOLDER.sub(lambda match: match.group(2) or "", value)
    if isinstance(value, Mapping):
        return any(map(has_unreadable, value.values()))
    return isinstance(value, list) and any(map(has_unreadable, value))


def marked(text: str) -> str:
    """The text with every `${{ NAME }}` replaced by NAME between two marks."""
    return _PLACEHOLDER.sub(lambda match: f"{MARK}{match.group(1)}{MARK}", text)
