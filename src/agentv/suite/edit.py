"""Edit a suite file in place: add rubrics to its cases and keep every other character, including comments."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, MappingStartEvent, SequenceStartEvent

from agentv import jsonio
from agentv.errors import Problem, SuiteError, UsageError
from agentv.suite.evaluator import ReadsEvaluators
from agentv.suite.loader import load_suite
from agentv.suite.sniff import CASE_KEYS, JSON_LINES
from agentv.suite.yaml import YamlProblem, YamlWalk
from agentv.suite.yaml_scalars import as_written, resolve_plain

Rubrics = Sequence[Mapping[str, Any]]

OUTCOMES = ("expected_outcome", "outcome")
BY_HAND = "rubrics cannot be inserted because of how the file is written; add them by hand"
LONGEST_PLAIN = 120

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LINE = re.compile(r"[^\r\n\x85\u2028\u2029]*(?:\r\n|[\r\n\x85\u2028\u2029]|\Z)")
_PLAIN = re.compile(r"[A-Za-z][\w.,/()?!%+-]*(?: [\w.,/()?!%+-]+)*")
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false", "null", "nan", "inf"}
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class NoPlaceError(ValueError):
    """Rubrics cannot be added to a case; the message explains why."""


@dataclass(slots=True)
class SuiteFile:
    """The text of a suite file, and the positions of its cases."""

    path: Path
    """The file itself, with symbolic links resolved."""
    text: str
    _yaml: SuiteText | None = None
    _numbers: dict[str, int] = field(default_factory=dict)
    """Case id -> index in the list of cases, or line index in JSON Lines."""

    @classmethod
    def read(cls, path: Path) -> SuiteFile:
        """Read a suite that was loaded without problems."""
        real = path.resolve()
        # Decoded from bytes, because universal newlines would change line endings.
        file = cls(real, real.read_bytes().decode("utf-8"))
        if real.suffix == JSON_LINES:
            for number, line in enumerate(file.text.split("\n")):
                if line.strip().lstrip("\ufeff"):
                    file._note(jsonio.read(line.strip().lstrip("\ufeff")), number)
        else:
            file._yaml = SuiteText(file.text)
            document = YamlWalk(file.text).document()
            cases = next((document[key] for key in CASE_KEYS if key in document), None)
            for index, case in enumerate(cases if isinstance(cases, list) else ()):
                file._note(case, index)
        return file

    def _note(self, case: Any, number: int) -> None:
        if isinstance(case, Mapping) and "id" in case:
            self._numbers[str(as_written(case["id"]))] = number

    def obstacle(self, case_id: str) -> str | None:
        """Why rubrics cannot be added to a case; None if they can."""
        if case_id not in self._numbers:
            return f"it is in another file that {self.path.name} refers to: run this command on that {JSON_LINES} file"
        if self._yaml is not None:
            place = self._yaml.places.get(self._numbers[case_id])
            return str(place) if isinstance(place, NoPlaceError) else None
        return None

    def with_rubrics(self, added: Mapping[str, Rubrics]) -> tuple[str, dict[str, str]]:
        """The text with rubrics added to these cases, and the reasons for those cases where that was not possible."""
        try:
            return self._with(added), {}
        except NoPlaceError:
            pass
        # The rubrics are already paid for: a case that cannot take its own must not lose those of the others.
        problems: dict[str, str] = {}
        for case_id, rubrics in added.items():
            try:
                self._with({case_id: rubrics})
            except NoPlaceError as error:
                problems[case_id] = str(error)
        rest = {case_id: rubrics for case_id, rubrics in added.items() if case_id not in problems}
        try:
            return self._with(rest), problems
        except NoPlaceError as error:
            return self.text, dict.fromkeys(added, str(error))

    def _with(self, added: Mapping[str, Rubrics]) -> str:
        by_number = {self._numbers[case_id]: rubrics for case_id, rubrics in added.items()}
        return self._lines_with(by_number) if self._yaml is None else self._yaml.with_rubrics(by_number)

    def _lines_with(self, by_number: Mapping[int, Rubrics]) -> str:
        lines = self.text.split("\n")
        for number, rubrics in by_number.items():
            lines[number] = json_line_with_rubrics(lines[number], rubrics)
        return "\n".join(lines)

    def refuse_read_only(self) -> None:
        """UsageError if the file is read-only. Checked before a model is called."""
        if not self.path.stat().st_mode & 0o222 or not os.access(self.path, os.W_OK):
            raise UsageError(
                f"{self.path} is read-only.", next_step="Make it writable, or use --stdout. No model was called."
            )

    def replace_with(self, new: str, evaluators: ReadsEvaluators) -> None:
        """Validate the new text as a suite and write it atomically, unless the file has changed in the meantime."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.stem}-", suffix=self.path.suffix)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(new.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            self._refuse_problems(temporary, evaluators)
            temporary.chmod(self.path.stat().st_mode & 0o7777)
            if self.path.read_bytes() != self.text.encode("utf-8"):
                raise UsageError(
                    f"{self.path} was changed while the model was called.",
                    next_step="Nothing was written. Run the command again.",
                )
            temporary.replace(self.path)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}.") from None
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()

    def _refuse_problems(self, path: Path, evaluators: ReadsEvaluators) -> None:
        try:
            load_suite(path, evaluators)
        except SuiteError as error:
            problems = [Problem(self.path, p.line, p.column, p.message, p.source) for p in error.problems]
            raise SuiteError(
                problems, next_step="The suite would have these errors with the new rubrics. Nothing was written."
            ) from None


# -- where rubrics go


@dataclass(frozen=True, slots=True)
class InsertionPoint:
    """Where to insert the rubrics of a case, and in which style."""

    offset: int
    column: int
    """The indentation of the keys of the case; -1 for flow style."""
    quoted: bool = False
    """Whether the keys are in double quotes, as in JSON."""


class SuiteText:
    """The text of a YAML suite, and where rubrics can be added to its cases."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.places: dict[int, InsertionPoint | NoPlaceError] = {}
        self._starts = [0]
        for line in _LINE.finditer(text):
            self._starts.append(line.end())
        self._events = iter(yaml.parse(text, Loader=_Parser))
        self._find()

    @property
    def line_end(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def with_rubrics(self, additions: Mapping[int, Rubrics]) -> str:
        """The text with rubrics added, by the index of the case. NoPlaceError if anything else in it would change."""
        pieces, end = [], len(self.text)
        for index in sorted(additions, reverse=True):
            place = self.places.get(index, NoPlaceError("its position in the file was not found"))
            if isinstance(place, NoPlaceError):
                raise place
            pieces += [self.text[place.offset : end], self._written(additions[index], place)]
            end = place.offset
        new = "".join(reversed([*pieces, self.text[:end]]))
        self._check(new, additions)
        return new

    def _written(self, rubrics: Rubrics, place: InsertionPoint) -> str:
        if place.column < 0 and place.quoted:
            return f', "rubrics": {json.dumps(list(rubrics), ensure_ascii=False)}'
        if place.column < 0:
            return f", rubrics: {flow(list(rubrics))}"
        lines = yaml_lines({"rubrics": list(rubrics)}, place.column)
        before = self.text[: place.offset]
        start = "" if not before or before[-1] in "\r\n\x85\u2028\u2029" else self.line_end
        return start + "".join(line + self.line_end for line in lines)

    def _check(self, new: str, additions: Mapping[int, Rubrics]) -> None:
        expected = YamlWalk(self.text).document()
        try:
            actual = YamlWalk(new).document()
        except YamlProblem:
            raise NoPlaceError(BY_HAND) from None
        for index, rubrics in additions.items():
            cases = next(expected[key] for key in CASE_KEYS if key in expected)
            cases[index] = {**cases[index], "rubrics": [dict(item) for item in rubrics]}
        if expected != actual:
            raise NoPlaceError(BY_HAND)

    # -- events

    def _find(self) -> None:
        event = next(self._events)
        while not isinstance(event, CollectionStartEvent):
            event = next(self._events)
        while not isinstance(key := next(self._events), CollectionEndEvent):
            value = next(self._events)
            if getattr(key, "value", None) in CASE_KEYS and isinstance(value, SequenceStartEvent):
                self._cases()
                return
            self._skip(value)

    def _cases(self) -> None:
        index = 0
        while not isinstance(event := next(self._events), CollectionEndEvent):
            if isinstance(event, MappingStartEvent):
                self.places[index] = self._case(event)
            else:
                self.places[index] = NoPlaceError("it is an alias of another case; add the rubrics there")
                self._skip(event)
            index += 1

    def _case(self, case: MappingStartEvent) -> InsertionPoint | NoPlaceError:
        """The position after its outcome, or after its id if the outcome is written elsewhere."""
        points: dict[str, InsertionPoint] = {}
        keys: set[Any] = set()
        while not isinstance(key := next(self._events), CollectionEndEvent):
            value = next(self._events)
            end = self._skip(value)
            keys.add(getattr(key, "value", None))
            if self._is_explicit(key):
                continue  # an explicit `? key`: the key that follows would have to be explicit too
            if not isinstance(value, CollectionStartEvent) and isinstance(getattr(key, "value", None), str):
                points[key.value] = self._after(key, value, end, flow_style=bool(case.flow_style))
        if case.anchor:
            return NoPlaceError(f"other cases are based on it (&{case.anchor}); add its rubrics by hand")
        if "rubrics" in keys:
            return NoPlaceError("it has an empty `rubrics:`; remove that line")
        place = next((points[key] for key in (*OUTCOMES, "id") if key in points), None)
        return place or NoPlaceError("neither its outcome nor its id is written as `key: value` in the case itself")

    def _is_explicit(self, key: Any) -> bool:
        start = self._starts[key.start_mark.line]
        return self.text[start : start + key.start_mark.column].rstrip().endswith("?")

    def _skip(self, event: Any) -> Any:
        """Skip a node and return where it ends."""
        depth, end = 0, event.end_mark
        while True:
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            end = event.end_mark
            if depth == 0:
                return end
            event = next(self._events)

    def _after(self, key: Any, value: Any, end: Any, *, flow_style: bool) -> InsertionPoint:
        if flow_style:
            return InsertionPoint(self._starts[end.line] + end.column, -1, quoted=key.style == '"')
        column = key.start_mark.column
        if isinstance(value, AliasEvent) or value.style not in ("|", ">"):
            return InsertionPoint(self._starts[min(end.line + 1, len(self._starts) - 1)], column)
        line = min(end.line if end.column == 0 else end.line + 1, len(self._starts) - 1)
        offset = self._starts[line]
        if not value.value.endswith("\n\n"):  # blank lines that are not part of the text stay below
            while line > 0 and not self.text[self._starts[line - 1] : offset].strip():
                line, offset = line - 1, self._starts[line - 1]
        return InsertionPoint(offset, column)


def json_line_with_rubrics(line: str, rubrics: Rubrics) -> str:
    """The line of a JSON case with rubrics as its last entry and everything else unchanged."""
    brace = line.rindex("}")
    comma = "" if line[:brace].rstrip().endswith("{") else ", "
    new = f"{line[:brace].rstrip()}{comma}{json.dumps('rubrics')}: {json.dumps(list(rubrics), ensure_ascii=False)}"
    new += line[brace:]
    if jsonio.read(new.strip()) != {**jsonio.read(line.strip()), "rubrics": [dict(item) for item in rubrics]}:
        raise NoPlaceError("rubrics cannot be inserted because of how its line is written; add them by hand")
    return new


# -- values as YAML


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
    """A string in double quotes. YAML understands the escapes of JSON."""
    return _ODD.sub(lambda odd: f"\\u{ord(odd[0]):04x}", json.dumps(value, ensure_ascii=False))


def flow(value: Any) -> str:
    """A value on one line, in flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return quoted(value) if isinstance(value, str) and not _WORD.fullmatch(value) else scalar(value)


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
    """Whether text can be written as a literal block: it has several lines, and a block would not change it."""
    return "\n" in text.strip("\n") and not _ODD.search(text) and text[0] not in " \t\n" and not text.endswith("\n\n")


def _block(head: str, text: str, indent: int) -> Iterator[str]:
    yield f"{head} |" if text.endswith("\n") else f"{head} |-"
    for line in text.removesuffix("\n").split("\n"):
        yield f"{' ' * indent}{line}" if line else ""
