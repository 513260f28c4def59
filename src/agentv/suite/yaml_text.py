"""Plain values -> YAML text in block style, written so that it reads back as the same values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentv.suite.yaml_events import resolve_plain

_PLAIN = re.compile(r"[A-Za-z][\w.,/()?!%+-]*(?: [\w.,/()?!%+-]+)*")
_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false", "null", "nan", "inf"}
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
LONGEST_PLAIN = 120


def yaml_lines(value: Any, indent: int = 0) -> list[str]:
    """The lines of a mapping or a list, each indented by `indent` spaces."""
    pad = " " * indent
    if isinstance(value, Mapping):
        return [line for key, item in value.items() for line in _entry(f"{pad}{scalar(str(key))}:", item, indent)]
    return [line for item in value for line in _item(pad, item, indent)]


def scalar(value: Any) -> str:
    """A scalar on one line."""
    if not isinstance(value, str):
        return json.dumps(value, allow_nan=False)
    plain = _PLAIN.fullmatch(value) and value.isascii() and len(value) <= LONGEST_PLAIN
    return value if plain and value.lower() not in _WORDS and resolve_plain(value) == value else quoted(value)


def quoted(value: str) -> str:
    """A text in double quotes; JSON's escapes are YAML's too."""
    return _ODD.sub(lambda odd: f"\\u{ord(odd[0]):04x}", json.dumps(value, ensure_ascii=False))


def flow(value: Any) -> str:
    """A value on one line, in flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return quoted(value) if isinstance(value, str) and not value.isalnum() else scalar(value)


def _entry(head: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple):
        if not value:
            yield f"{head} {'{}' if isinstance(value, Mapping) else '[]'}"
            return
        yield head
        yield from yaml_lines(value, indent + 2)
    elif isinstance(value, str) and _as_block(value):
        yield from _block(head, value, indent + 2)
    else:
        yield f"{head} {scalar(value)}"


def _item(pad: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        first, *rest = yaml_lines(value, indent + 2)
        yield f"{pad}- {first[indent + 2 :]}"
        yield from rest
    else:
        yield from _entry(f"{pad}-", value, indent)


def _as_block(text: str) -> bool:
    """Whether a text may stand as a literal block: several lines, nothing a block would lose."""
    return "\n" in text.strip("\n") and not _ODD.search(text) and text[0] not in " \t\n" and not text.endswith("\n\n")


def _block(head: str, text: str, indent: int) -> Iterator[str]:
    yield f"{head} |" if text.endswith("\n") else f"{head} |-"
    for line in text.removesuffix("\n").split("\n"):
        yield f"{' ' * indent}{line}" if line else ""
