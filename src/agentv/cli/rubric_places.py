"""Rubrics into the text of a suite: every other character of the file stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, MappingStartEvent, SequenceStartEvent

from agentv.suite.json_lines import parse_json
from agentv.suite.loader import CASES
from agentv.suite.yaml_events import YamlProblem, YamlWalk
from agentv.suite.yaml_text import flow, yaml_lines

Rubrics = Sequence[Mapping[str, Any]]

_LINE = re.compile(r"[^\r\n\x85\u2028\u2029]*(?:\r\n|[\r\n\x85\u2028\u2029]|\Z)")
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
OUTCOMES = ("expected_outcome", "outcome")


BY_HAND = "the file is written in a way that rubrics cannot be put into; write them by hand"


class NoPlaceError(ValueError):
    """A case into which nothing can be written; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rubrics of a case go: before a character, in block or flow style."""

    offset: int
    column: int
    """How far the keys of the case are indented; -1 for flow style."""
    quoted: bool = False
    """Whether keys are in double quotes, as in JSON."""


class SuiteText:
    """The text of a YAML suite, and where its cases stand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.places: dict[int, Place | NoPlaceError] = {}
        self._starts = [0]
        for line in _LINE.finditer(text):
            self._starts.append(line.end())
        self._events = iter(yaml.parse(text, Loader=_Parser))
        self._find()

    @property
    def line_end(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def with_rubrics(self, additions: Mapping[int, Rubrics]) -> str:
        """The text with rubrics added, by the index of the case; nothing else in it means anything different."""
        pieces, end = [], len(self.text)
        for index in sorted(additions, reverse=True):
            place = self.places.get(index, NoPlaceError("its place in the file was not found"))
            if isinstance(place, NoPlaceError):
                raise place
            pieces += [self.text[place.offset : end], self._written(additions[index], place)]
            end = place.offset
        new = "".join(reversed([*pieces, self.text[:end]]))
        self._check(new, additions)
        return new

    def _written(self, rubrics: Rubrics, place: Place) -> str:
        if place.column < 0 and place.quoted:
            return f', "rubrics": {json.dumps(list(rubrics), ensure_ascii=False)}'
        if place.column < 0:
            return f", rubrics: {flow(list(rubrics))}"
        lines = yaml_lines({"rubrics": list(rubrics)}, place.column)
        before = self.text[: place.offset]
        start = "" if not before or before[-1] in "\r\n\x85\u2028\u2029" else self.line_end
        return start + "".join(line + self.line_end for line in lines)

    def _check(self, new: str, additions: Mapping[int, Rubrics]) -> None:
        wanted = YamlWalk(self.text).document()
        try:
            got = YamlWalk(new).document()
        except YamlProblem:
            raise NoPlaceError(BY_HAND) from None
        for index, rubrics in additions.items():
            wanted[CASES][index] = {**wanted[CASES][index], "rubrics": [dict(item) for item in rubrics]}
        if wanted != got:
            raise NoPlaceError(BY_HAND)

    # -- events

    def _find(self) -> None:
        event = next(self._events)
        while not isinstance(event, CollectionStartEvent):
            event = next(self._events)
        while not isinstance(key := next(self._events), CollectionEndEvent):
            value = next(self._events)
            if getattr(key, "value", None) == CASES and isinstance(value, SequenceStartEvent):
                self._cases()
                return
            self._skip(value)

    def _cases(self) -> None:
        index = 0
        while not isinstance(event := next(self._events), CollectionEndEvent):
            if isinstance(event, MappingStartEvent):
                self.places[index] = self._case(event)
            else:
                self.places[index] = NoPlaceError("it is an alias of another case; write its rubrics there")
                self._skip(event)
            index += 1

    def _case(self, case: MappingStartEvent) -> Place | NoPlaceError:
        """After the value of its outcome; after its id when the outcome comes from elsewhere."""
        found: dict[str, Place] = {}
        keys: set[Any] = set()
        while not isinstance(key := next(self._events), CollectionEndEvent):
            value = next(self._events)
            end = self._skip(value)
            keys.add(getattr(key, "value", None))
            if self._is_explicit(key):
                continue  # `? key` on a line of its own: what follows would need one, too
            if not isinstance(value, CollectionStartEvent) and isinstance(getattr(key, "value", None), str):
                found[key.value] = self._after(key, value, end, flow_style=bool(case.flow_style))
        if case.anchor:
            return NoPlaceError(f"other cases are made from it (&{case.anchor}); write its rubrics by hand")
        if "rubrics" in keys:
            return NoPlaceError("it has a `rubrics:` with nothing in it; take that line out")
        place = next((found[key] for key in (*OUTCOMES, "id") if key in found), None)
        return place or NoPlaceError("neither its outcome nor its id is written in the case itself, as `key: value`")

    def _is_explicit(self, key: Any) -> bool:
        start = self._starts[key.start_mark.line]
        return self.text[start : start + key.start_mark.column].rstrip().endswith("?")

    def _skip(self, event: Any) -> Any:
        """Past a node; where it ends."""
        depth, end = 0, event.end_mark
        while True:
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            end = event.end_mark
            if depth == 0:
                return end
            event = next(self._events)

    def _after(self, key: Any, value: Any, end: Any, *, flow_style: bool) -> Place:
        if flow_style:
            return Place(self._starts[end.line] + end.column, -1, quoted=key.style == '"')
        column = key.start_mark.column
        if isinstance(value, AliasEvent) or value.style not in ("|", ">"):
            return Place(self._starts[min(end.line + 1, len(self._starts) - 1)], column)
        line = min(end.line if end.column == 0 else end.line + 1, len(self._starts) - 1)
        offset = self._starts[line]
        if not value.value.endswith("\n\n"):  # blank lines that are no part of the text stay below
            while line > 0 and not self.text[self._starts[line - 1] : offset].strip():
                line, offset = line - 1, self._starts[line - 1]
        return Place(offset, column)


def json_line_with_rubrics(line: str, rubrics: Rubrics) -> str:
    """One JSON case with rubrics as its last entry; the rest of the line as it is."""
    brace = line.rindex("}")
    comma = "" if line[:brace].rstrip().endswith("{") else ", "
    new = f"{line[:brace].rstrip()}{comma}{json.dumps('rubrics')}: {json.dumps(list(rubrics), ensure_ascii=False)}"
    new += line[brace:]
    if parse_json(new.strip()) != {**parse_json(line.strip()), "rubrics": [dict(item) for item in rubrics]}:
        raise NoPlaceError("its line is written in a way that rubrics cannot be put into; write them by hand")
    return new
