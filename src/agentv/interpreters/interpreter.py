"""Which interpreter `python` means: one that exists on this machine, or one of an environment of agentv."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentv.interpreters.errors import InterpreterError
from agentv.interpreters.requirements import Packages


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter for scripts."""

    executable: str
    """Its absolute path."""
    packages: Packages | None = None
    """What is installed in its environment, which then belongs to agentv; None for an interpreter of the user."""
    problem: str | None = None
    """Why there is no such interpreter."""

    @property
    def name(self) -> str:
        """Its name in the record of a run."""
        return self.executable if self.packages is None else self.packages.name


@dataclass(frozen=True, slots=True)
class PreparedInterpreter:
    """An interpreter that can be used, and what it consists of."""

    interpreter: Interpreter
    version: str
    packages: Mapping[str, str] = field(default_factory=dict)
    """The versions of all installed packages by name."""
    search_path: tuple[str, ...] = ()
    """Directories that its scripts also import from: that of the SDK, unless the SDK is installed."""

    def to_dict(self) -> dict[str, object]:
        """As recorded in `run.json`."""
        packages = self.interpreter.packages
        listed = (
            {} if packages is None else {"requirements": list(packages.requirements), "files": list(packages.files)}
        )
        return {
            "executable": self.interpreter.executable,
            "version": self.version,
            **listed,
            "packages": dict(self.packages),
        }


class NoInterpreterError(InterpreterError):
    """No interpreter has this name. The message says where it was searched for."""


def locate(name: str, folders: Sequence[Path], path: str | None) -> str:
    """The absolute path of an interpreter: a program on PATH, or a path relative to the first folder that has it.

    Links are not followed: the interpreter of a virtual environment is a link, and its place decides what it imports.
    """
    text = name.strip()
    if "/" not in text and not text.startswith("~"):
        found = shutil.which(text, path=path if path is not None else os.environ.get("PATH", os.defpath))
        if found is not None:
            return os.path.abspath(found)  # noqa: PTH100 - does not follow links
        if not any((folder / text).is_dir() for folder in folders):
            raise NoInterpreterError(
                f"there is no program '{text}' on PATH; a relative path must contain a slash, like `.venv/bin/python`, "
                f"and a requirement must be in a list: `[{text}]`"
            )
    written = Path(text).expanduser()
    places = [Path(os.path.abspath(folder / written)) for folder in folders]  # noqa: PTH100
    for place in places:
        if place.is_dir():
            inner = next((each for each in ("bin/python", "python") if (place / each).is_file()), None)
            hint = "" if inner is None else f"; write `{text.rstrip('/')}/{inner}`"
            raise NoInterpreterError(f"'{text}' is a directory, not an interpreter{hint}")
        if place.exists():
            return str(place)
    around = "" if written.is_absolute() else f" in {folders[0]}{' or the directories above it' if places[1:] else ''}"
    raise NoInterpreterError(f"there is no file '{text}'{around}; relative paths start at `cwd`")
