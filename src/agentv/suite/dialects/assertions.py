"""Turns `assertions` and `assert` of other dialects into lists of evaluators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.suite.dialects import trajectories
from agentv.suite.dialects.includes import IncludeError, included
from agentv.suite.dialects.kinds import KINDS, Entry, with_config
from agentv.suite.dialects.parts import Part
from agentv.suite.dialects.tables import (
    AGGREGATORS,
    BUILT_IN,
    COMMON_OPTIONS,
    FILE,
    IGNORED_OPTIONS,
    LOCAL_FOLDERS,
    LOCAL_SUFFIXES,
    NAMED_BY_VALUE,
    OPTIONS,
    TEXT_TYPES,
    TRAJECTORIES,
    TRIMMED,
    TYPES,
    UNSUPPORTED_OPTIONS,
    UNSUPPORTED_TYPES,
    unsupported,
)
from agentv.suite.files import SuiteFiles, upward
from agentv.suite.yaml import NodePath

LONGEST_NAME = 30
_KNOWN = BUILT_IN | TYPES.keys() | TEXT_TYPES.keys()
_NOT = re.compile(r"not[-_](?=\w)")


@dataclass(slots=True)
class Assertions:
    """Reads the lists of one suite."""

    files: SuiteFiles
    fill: Callable[[Any], Any] = lambda value: value
    """Inserts the variables of the environment into an entry of an included file."""
    taken: set[str] = field(default_factory=set)
    """The names of the suite's own evaluators."""
    pass_line: float | None = None
    """The threshold of the case whose list is read, if it has one."""
    rubric_prompt: str | None = None
    """The prompt of judges that have none."""

    def listed(
        self,
        entries: Any,
        at: NodePath,
        written: NodePath,
        part: Part,
        *,
        taken: set[str],
        pass_line: float | None = None,
        first: int = 0,
    ) -> Any:
        """The list in our form; a value that is not a list stays as it is.

        `taken` are the names that are used already, `pass_line` is the threshold of the case, and `first` the index of
        the first entry.
        """
        if not isinstance(entries, list):
            return entries
        self.pass_line = pass_line
        evaluators: list[Any] = []
        for raw, place in self._expanded(entries, written, part):
            node: NodePath = (*at, first + len(evaluators))
            part.move(node, place)
            if isinstance(raw, _Criteria):
                evaluators.append(self._criteria(raw, node, part, taken))
            elif isinstance(raw, dict) and isinstance(raw.get("type"), str):
                evaluators.append(self._evaluator(Entry(raw, node, place, part), taken))
            else:
                evaluators.append(raw)  # it is reported when it is read
        return evaluators

    def _expanded(self, entries: Sequence[Any], written: NodePath, part: Part) -> Iterator[tuple[Any, NodePath]]:
        """The entries and their places: with those of included files, and all strings together at the first one."""
        flat: list[tuple[Any, NodePath]] = []
        for index, entry in enumerate(entries):
            place: NodePath = (*written, index)
            if not isinstance(entry, dict) or entry.keys() != {"include"}:
                flat.append((entry, place))
                continue
            try:
                flat.extend((self.fill(item), place) for item in included(entry["include"], self.files))
            except IncludeError as error:
                part.refuse((*place, "include"), str(error), at_key=False)
        texts = [(entry.strip(), place) for entry, place in flat if isinstance(entry, str) and entry.strip()]
        for entry, place in flat:
            if not isinstance(entry, str):
                yield entry, place
            elif texts and place is texts[0][1]:
                yield _Criteria(texts), place

    def _criteria(self, criteria: _Criteria, at: NodePath, part: Part, taken: set[str]) -> dict[str, Any]:
        """Strings as one rubric. Each counts as much as another entry of the list."""
        for number, (_, place) in enumerate(criteria.texts):
            part.move((*at, "rubrics", number), place)
        texts = [text for text, _ in criteria.texts]
        name = _unique("rubrics", taken)
        if self.rubric_prompt is not None:
            return {
                "name": name,
                "type": "llm_judge",
                "rubrics": texts,
                "weight": float(len(texts)),
                "prompt": self.rubric_prompt,
            }
        return {"name": name, "type": "rubric", "rubrics": texts, "weight": float(len(texts))}

    def _evaluator(self, entry: Entry, taken: set[str]) -> dict[str, Any]:
        named = entry.raw["type"].strip()
        plain = _NOT.sub("", named, count=1)
        kind = plain.replace("-", "_")
        if kind in UNSUPPORTED_TYPES:
            advice = UNSUPPORTED_TYPES[kind]
            entry.part.refuse((*entry.written, "type"), unsupported(plain, advice), at_key=False)
            return {"name": _unique(plain, taken), "type": "is_json"}  # the suite is refused; nothing is judged by it
        raw = entry.raw
        if kind in TRAJECTORIES:
            raw, kind = trajectories.rewritten(kind, entry), "tool_trajectory"
        elif kind not in _KNOWN and (path := self._local(plain)) is not None:
            raw, kind = {**raw, "command": ["bun", "run", str(path)]}, "code_judge"
        ours, match = TEXT_TYPES.get(kind, (TYPES.get(kind, kind), None))
        if ours == "code_judge":
            raw = with_config(raw)
        result = self._options(raw, ours, entry)
        name = result.pop("name", None)
        name = name if isinstance(name, str) and name.strip() else _derived(plain, entry.raw)
        result = {"name": _unique(name, taken), "type": ours, **result}
        if plain != named:
            result["negate"] = not raw.get("negate", False)
        if match is not None:
            result |= {"match": match, "value": [value] if isinstance(value := raw.get("value"), str) else value}
        if ours in TRIMMED:
            result.setdefault("trim", True)
        if ours == "llm_judge" and self.rubric_prompt is not None:
            result.setdefault("prompt", self.rubric_prompt)
        _require(result, self.pass_line)
        if ours == "composite":
            return self._composite(result, entry)
        return KINDS[ours](result, entry) if ours in KINDS else result

    def _options(self, raw: Mapping[str, Any], kind: str, entry: Entry) -> dict[str, Any]:
        """The options with our names."""
        entry.part.refuse_unsupported(raw, UNSUPPORTED_OPTIONS, entry.written)
        left_out = {"type", "id", *IGNORED_OPTIONS.get(kind, ()), *UNSUPPORTED_OPTIONS}
        names = {**COMMON_OPTIONS, **OPTIONS.get(kind, {})}
        known = {key: value for key, value in raw.items() if key not in left_out}
        return entry.part.renamed(known, names, entry.at, entry.written)

    def _composite(self, result: dict[str, Any], entry: Entry) -> dict[str, Any]:
        node: NodePath = (*entry.at, "evaluators")
        members = Assertions(self.files, self.fill, rubric_prompt=self.rubric_prompt)
        place = entry.part.moved.get(node, (*entry.written, "evaluators"))
        result["evaluators"] = members.listed(result.get("evaluators"), node, place, entry.part, taken=set())
        aggregator = result.get("aggregator")
        if not isinstance(aggregator, dict) or not isinstance(aggregator.get("type"), str):
            return result
        kind = aggregator["type"].replace("-", "_")
        aggregator = {**aggregator, "type": AGGREGATORS.get(kind, kind)}
        if (line := aggregator.pop("threshold", None)) is not None:
            result.setdefault("threshold", line)
            entry.move(("threshold",), ("aggregator", "threshold"))
        if (path := aggregator.pop("path", None)) is not None:
            aggregator["script"] = ["sh", "-c", path] if isinstance(path, str) else path
            entry.move(("aggregator", "script"), ("aggregator", "path"))
        if isinstance(aggregator.get("prompt"), str):
            aggregator["prompt"] = aggregator["prompt"].removeprefix(FILE)
        return {**result, "aggregator": aggregator}

    def _local(self, kind: str) -> Path | None:
        """The script of a type that the project defines."""
        if "/" in kind or "\\" in kind or kind.startswith("."):
            return None
        for folder in upward(self.files.directory, self.files.root):
            for inner in LOCAL_FOLDERS:
                for suffix in LOCAL_SUFFIXES:
                    path = folder / ".agentv" / inner / f"{kind}{suffix}"
                    if path.is_file():
                        return path
        return None


@dataclass(frozen=True, slots=True)
class _Criteria:
    """The strings of a list, with their places."""

    texts: list[tuple[str, NodePath]]


def _derived(kind: str, raw: Mapping[str, Any]) -> str:
    """The name that AgentV gives to an entry without one."""
    value = raw.get("skill", raw.get("value"))
    if isinstance(value, list) and kind.endswith(("-any", "-all")):
        return f"{kind}-{len(value)}"
    if isinstance(value, str) and kind.replace("-", "_") in NAMED_BY_VALUE:
        return f"{kind}-{value[:LONGEST_NAME] if kind == 'regex' else value}"
    return kind


def _unique(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken."""
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{name}-{number}"
    taken.add(chosen)
    return chosen


def _require(result: dict[str, Any], pass_line: float | None) -> None:
    """The gate: `required` may be the minimum score, and is otherwise the threshold of the case."""
    required = result.get("required")
    if isinstance(required, int | float) and not isinstance(required, bool):
        result["required"] = True
        result.setdefault("threshold", required)
    elif required is True and pass_line is not None:
        result.setdefault("threshold", pass_line)
