"""What a walk over YAML gives: nodes with their places, entries, and what tags and merges may say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yaml.events import ScalarEvent

from agentv.suite.scalars import WrittenBool, not_finite, resolve_plain
from agentv.suite.yaml_problems import problem_at

Path = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
SCALAR_TYPES: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}


class Mark(NamedTuple):
    """Where a node stands, from 1: its value, and its key (for an entry of a mapping)."""

    line: int
    column: int
    key_line: int
    key_column: int


class Anchor(NamedTuple):
    """What an alias stands for."""

    value: Any
    size: int
    height: int
    odd: bool
    path: Path


STREAM_BEGINS: Any = object()


@dataclass(slots=True)
class StreamItem:
    """One item of the streamed list, or one entry of the root mapping (`index` is None).

    The streamed list announces itself with an entry whose value is `STREAM_BEGINS`.
    """

    key: str
    value: Any
    index: int | None = None
    line: int = 0
    written: dict[Path, str] = field(default_factory=dict)
    """Booleans in the value that were not written `true` or `false`, by node."""
    not_finite: list[Path] = field(default_factory=list)
    """Nodes in the value that are no finite number: JSON cannot hold them."""


def entry(item: StreamItem, streamed: str) -> Iterator[StreamItem]:
    """The entry itself; a streamed list that was read whole (it is an alias, or has an anchor) item by item."""
    if item.key != streamed or not isinstance(item.value, list):
        yield item
        return
    yield StreamItem(item.key, STREAM_BEGINS, None, item.line)
    for index, value in enumerate(item.value):
        single = StreamItem(item.key, value, index, item.line)
        single.written = {node[1:]: raw for node, raw in item.written.items() if node[0] == index}
        single.not_finite = [node[1:] for node in item.not_finite if node[0] == index]
        yield single


def settled(item: StreamItem) -> StreamItem:
    """The item with plain values; how the odd ones were written is kept beside them."""
    item.value = _settle(item.value, (), item)
    return item


def _settle(value: Any, path: Path, item: StreamItem) -> Any:
    if isinstance(value, dict):
        return {key: _settle(each, (*path, key), item) for key, each in value.items()}
    if isinstance(value, list):
        return [_settle(each, (*path, index), item) for index, each in enumerate(value)]
    if isinstance(value, WrittenBool):
        item.written[path] = value.raw
        return value.value
    if not_finite(value):
        item.not_finite.append(path)
    return value


def is_odd(value: Any) -> bool:
    return isinstance(value, WrittenBool) or not_finite(value)


def tagged(event: Any, text: str) -> Any:
    check_tag(event, "str", *SCALAR_TYPES)
    name = event.tag.removeprefix(_TAG)
    if name in ("!", "str"):
        return text
    value = resolve_plain(text)
    if not isinstance(value, SCALAR_TYPES[name]) or (name == "int" and isinstance(value, bool)):
        raise problem_at(event, f"{text[:40]!r} does not fit the tag !!{name}")
    return value


def check_tag(event: Any, *allowed: str) -> None:
    if event.tag not in (None, "!") and event.tag.removeprefix(_TAG) not in allowed:
        shown = event.tag.replace(_TAG, "!!")[:80]
        raise problem_at(event, f"the tag `{shown}` is not allowed here; write plain YAML values")


def is_merge(key_event: Any) -> bool:
    return type(key_event) is ScalarEvent and key_event.implicit[0]


def merge_sources(value: Any, event: Any, path: Path) -> list[tuple[dict[str, Any], Path]]:
    sources = [(each, (*path, i)) for i, each in enumerate(value)] if isinstance(value, list) else [(value, path)]
    if not all(isinstance(source, dict) for source, _ in sources):
        raise problem_at(event, "`<<` merges mappings: give it an alias of a mapping, or a list of them")
    return sources
