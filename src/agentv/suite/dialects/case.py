"""One case of a suite of another dialect, in our form."""

from __future__ import annotations

from typing import Any

from agentv.suite.dialects import content
from agentv.suite.dialects.assertions import Assertions
from agentv.suite.dialects.heads import Head
from agentv.suite.dialects.parts import Part
from agentv.suite.dialects.tables import (
    CASE_NAMES,
    CASE_VALUES,
    CONVERSATION,
    CRITERIA,
    IGNORED_CASE,
    IGNORED_EXECUTION,
    LISTS,
    UNSUPPORTED_CASE,
    our_type,
    unsupported,
)
from agentv.suite.yaml import NodePath


class CaseBuilder:
    """Builds one case in our form from what is written at `at`."""

    def __init__(
        self, raw: dict[str, Any], at: NodePath, part: Part, head: Head, assertions: Assertions, *, is_v5: bool
    ) -> None:
        self.raw, self.at, self.part, self.head = raw, at, part, head
        self._assertions, self._is_v5 = assertions, is_v5
        execution = raw.get("execution")
        self.execution: dict[str, Any] = execution if isinstance(execution, dict) else {}
        self.fields = content.merged_fields(head.variables, raw.get("vars"))
        self.result: dict[str, Any] = {}

    @property
    def inherits(self) -> bool:
        """Whether the input and the evaluators of the suite apply to the case."""
        return self.execution.get("skip_defaults") is not True

    def build(self) -> dict[str, Any]:
        """The case. Features that do not exist here are reported, and left out."""
        self.part.refuse_unsupported(self.raw, UNSUPPORTED_CASE, self.at)
        left_out = {*IGNORED_CASE, *UNSUPPORTED_CASE, *CASE_VALUES, *LISTS}
        left_out |= self.part.misspelled(self.raw.keys() - left_out, CASE_NAMES, self.at)
        if self.raw.get("mode") is not None:  # already reported; the rest of a conversation is not another problem
            left_out |= CONVERSATION
        if not self.head.has_prompts:
            left_out.add("vars")  # they are inserted here
        self.result.update({key: value for key, value in self.raw.items() if key not in left_out})
        if self.head.metadata:
            self.result["metadata"] = content.merged_metadata(self.head.metadata, self.raw.get("metadata", {}))
        if isinstance(named := self.result.get("evaluator"), str):
            self.result["evaluator"] = our_type(named)
        self._read_execution()
        self._read_criteria()
        self._read_input()
        self._read_expected()
        self._read_evaluators()
        return self.result

    def _filled(self, value: Any) -> Any:
        """A value with the variables of the case. In version 5, only prompts and assertions have them."""
        return value if self._is_v5 else content.with_fields(value, self.fields)

    def _read_execution(self) -> None:
        """`execution`, and what is beside it in version 5."""
        at, part = self.at, self.part
        own = {
            key: value
            for key, value in self.execution.items()
            if key not in IGNORED_EXECUTION and key not in (*LISTS, "skip_defaults", "targets")
        }
        for node, named in (
            ((*at, "provider"), self.raw.get("provider")),
            ((*at, "providers"), self.raw.get("providers")),
            ((*at, "execution", "targets"), self.execution.get("targets")),
        ):
            if named is None:
                continue
            only = named[0] if isinstance(named, list) and len(named) == 1 else named
            if isinstance(only, str):
                own["target"] = only
                part.move((*at, "execution", "target"), node if only is named else (*node, 0))
            else:
                part.refuse(
                    node, unsupported(str(node[-1]), "name one target for a case, or list several in the suite")
                )
        if own:
            self.result["execution"] = own
        elif not isinstance(self.raw.get("execution"), dict | None):
            self.result["execution"] = self.raw["execution"]

    def _read_criteria(self) -> None:
        for key in CRITERIA:
            if self.raw.get(key) is None:
                continue
            if "expected_outcome" in self.result:
                self.part.refuse((*self.at, key), f"`{key}` is another name of what a good answer does: keep one")
            self.result["expected_outcome"] = self._filled(self.raw[key])
            self.part.move((*self.at, "expected_outcome"), (*self.at, key))

    def _read_input(self) -> None:
        """The messages of the suite, then those of the case."""
        at, part = self.at, self.part
        place: NodePath = (*at, "input")
        asked = self.raw.get("input")
        if asked is None and "input" in self.fields and not self.head.has_prompts:
            asked, place = self.fields["input"], (*at, "vars", "input")
        if asked is None:
            asked, place = self.raw.get("input_messages"), (*at, "input_messages")
        asked = self._filled(asked)
        before = content.with_fields(self.head.messages, self.fields) if self.inherits else []
        files = self.raw.get("input_files", self.head.files if self.inherits else None)
        part.move((*at, "input"), place)
        if asked is None and not before:
            return
        own = [] if asked is None else content.as_messages(asked, "user")
        if not isinstance(own, list) or (isinstance(asked, str) and not before and not files):
            self.result["input"] = asked
            return
        if files:
            own = content.with_files(own, content.with_fields(files, self.fields))
        self.result["input"] = [*before, *own]
        for index in range(len(before)):
            part.move((*at, "input", index), ("input", index) if self.head.is_list else ("input",))
        for index in range(len(own)):
            node = (*place, index) if isinstance(asked, list) else place
            part.move((*at, "input", len(before) + index), node)

    def _read_expected(self) -> None:
        """The expected output: a reference answer if it is a string, and expected messages."""
        at, part = self.at, self.part
        expected, place = self.raw.get("expected_output"), (*at, "expected_output")
        if expected is None and "expected_output" in self.fields:
            expected, place = self.fields["expected_output"], (*at, "vars", "expected_output")
        expected = self._filled(expected)
        if expected is None or expected == "":
            return
        if isinstance(expected, int | float):
            expected = str(expected)
        if "expected_messages" in self.raw:
            part.refuse(place, f"`{place[-1]}` and `expected_messages` mean the same: keep one")
            return
        if isinstance(expected, str):
            self.result.setdefault("reference_answer", expected)
            part.move((*at, "reference_answer"), place)
        messages = content.as_messages(expected, "assistant")
        self.result["expected_messages"] = messages
        part.move((*at, "expected_messages"), place)
        if not isinstance(expected, list) or len(expected) != len(messages):
            part.move((*at, "expected_messages", 0), place)

    def _read_evaluators(self) -> None:
        """The first list that is present, in AgentV's order."""
        at, part = self.at, self.part
        places: list[tuple[NodePath, Any]] = [((*at, key), self.raw[key]) for key in LISTS[:2] if key in self.raw]
        places += [((*at, "execution", key), self.execution[key]) for key in LISTS if key in self.execution]
        places += [((*at, key), self.raw[key]) for key in LISTS[2:] if key in self.raw]
        places = [(place, entries) for place, entries in places if entries is not None]
        if len(places) > 1:
            part.refuse(places[1][0], f"`{places[1][0][-1]}` and `{places[0][0][-1]}` mean the same: keep one")
        node: NodePath = (*at, "evaluators")
        if places:
            part.move(node, places[0][0])
        taken = set(self._assertions.taken) if self.inherits else set[str]()
        evaluators: Any = []
        for place, entries in (*places[:1], *(self.head.templated if self.inherits else ())):
            filled = content.with_fields(entries, self.fields) if self._fills_assertions else entries
            read = self._assertions.listed(
                filled, node, place, part, taken=taken, pass_line=self._pass_line, first=len(evaluators)
            )
            if not isinstance(read, list):
                self.result["evaluators"] = read
                return
            evaluators += read
        if places or evaluators:
            self.result["evaluators"] = evaluators

    @property
    def _fills_assertions(self) -> bool:
        """Whether the variables of the case are inserted here; with prompts, that is done where those are."""
        return self._is_v5 and not self.head.has_prompts

    @property
    def _pass_line(self) -> float | None:
        """The threshold of the case, if it or the suite sets one."""
        line = self.raw.get("threshold", self.execution.get("threshold", self.head.threshold))
        return line if isinstance(line, int | float) and not isinstance(line, bool) else None
