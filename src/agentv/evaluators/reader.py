"""Turn the evaluator entries of a suite into `Evaluator` objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentv.evaluators.base import Evaluator
from agentv.evaluators.registry import evaluator_class, evaluator_types
from agentv.suite.cases import TURNS, with_criteria
from agentv.suite.evaluator import TurnChecks
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings
from agentv.suite.validation import show, validate_partly
from agentv.suite.variables import CaseValues
from agentv.suite.yaml import NodePath
from agentv.templates import has_template
from agentv.text import all_of, did_you_mean, one_of

if TYPE_CHECKING:
    from agentv.suite.search import ProgramSearch

_FIXED = ("name", "type")
DEFAULT_TYPE = "llm_judge"
"""The evaluator type for cases without evaluators."""
RUBRICS_TYPE = "rubric"
"""The evaluator type for the `rubrics` of a case."""


@dataclass(frozen=True, slots=True)
class EvaluatorReader:
    """Reads the evaluators of a suite. Problems are added to `findings`, and the result is then None."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Suite options for evaluators that inherit them (`Evaluator.INHERITS`)."""
    search: ProgramSearch | None = None
    """Searches for the programs of evaluators; None to accept those that are not found."""

    def with_defaults(self, options: Mapping[str, Any]) -> EvaluatorReader:
        """Return a reader with these defaults."""
        return replace(self, defaults=options)

    def without_search(self) -> EvaluatorReader:
        """Return a reader that does not search for programs: they were found when the suite was validated."""
        return replace(self, search=None)

    def is_templated(self, entry: Any) -> bool:
        """Return whether an entry has templates in its options, so that it must be read for each case."""
        if not isinstance(entry, dict):
            return False
        try:
            kind = evaluator_class(str(entry.get("type")))
        except Exception:  # `read` reports it
            return False
        if kind is None:
            return False
        own = (value for option, value in entry.items() if option not in (*_FIXED, *kind.TEMPLATES))
        return any(map(_has_template, own)) or any(map(self.is_templated, kind.children_of(entry)))

    def read(
        self, entry: Any, findings: Findings, at: NodePath, files: SuiteFiles, values: CaseValues | None = None
    ) -> Evaluator | None:
        """Read an entry of a list of evaluators. `name` defaults to the type. `values` are inserted into templates."""
        if not isinstance(entry, dict):
            words = ", or a criterion in several words" if isinstance(entry, str) else ""
            findings.add(at, f"an evaluator must be a mapping with `type`{words}, got {show(entry)}")
            return None
        kind = _kind(entry, findings, at)
        return None if kind is None else self.read_as(kind, entry, findings, at, files, values=values)

    def read_rubrics(
        self, name: str, rubrics: Any, findings: Findings, at: NodePath, files: SuiteFiles
    ) -> Evaluator | None:
        """Return the evaluator for the `rubrics` of the case at `at`."""
        return self.read({"name": name, "type": RUBRICS_TYPE, "rubrics": rubrics}, findings, at, files)

    def read_turns(
        self, turns: Sequence[TurnChecks], aggregation: str, findings: Findings, at: NodePath, files: SuiteFiles
    ) -> Evaluator | None:
        """Return the evaluator of the turns of a case."""
        from agentv.evaluators.turns import Turns  # noqa: PLC0415 - only conversations need it

        members = [self._of_turn(turn, findings, (*at, "turns", number), files) for number, turn in enumerate(turns)]
        if any(each is None for each in members):
            return None
        return Turns.model_validate({"name": TURNS, "turns": members, "aggregation": aggregation})

    def _of_turn(self, turn: TurnChecks, findings: Findings, at: NodePath, files: SuiteFiles) -> list[Evaluator] | None:
        problems = len(findings)
        members: dict[str, Evaluator] = {}
        for index, entry in with_criteria(turn.evaluators):
            place = (*at, "evaluators", index)
            member = self.read(entry, findings, place, files, turn.values)
            if member is None:
                continue
            if member.name in members:
                findings.add(place, f"the turn has two evaluators named '{member.name}': rename one")
            if member.needs_reference and not turn.has_reference:
                why = "has nothing to compare the answer with: set its `value`, or `reference_answer` of the turn"
                findings.add(place, f"'{member.name}' {why}")
            members[member.name] = member
        return list(members.values()) if len(findings) == problems else None

    def read_default(self, findings: Findings, at: NodePath, files: SuiteFiles) -> Evaluator | None:
        """Return the evaluator for cases without evaluators."""
        return self.read({"type": DEFAULT_TYPE}, findings, at, files)

    def read_as(
        self,
        kind: type[Evaluator],
        entry: dict[str, Any],
        findings: Findings,
        at: NodePath,
        files: SuiteFiles,
        *,
        values: CaseValues | None = None,
    ) -> Evaluator | None:
        """Read an entry as an evaluator of the class `kind`."""
        rejected: list[str] = []
        children = _Children(self, findings, at, files, values)
        if values is not None and any(map(_has_template, entry.values())):
            before = len(findings)
            entry = {
                option: value
                if option in _FIXED or option in kind.TEMPLATES
                else values.filled(value, findings, (*at, option), typed=True)
                for option, value in entry.items()
            }
            if len(findings) > before:
                return None

        def complain(option: str, message: str) -> None:
            rejected.append(option)
            findings.add((*at, option), message, at_key=True)

        own = kind.normalize(entry, complain)
        options = {"name": entry["type"], **kind.inherited(self.defaults, own), **own}
        spelled = {option: alias for alias, option in kind.ALIASES.items() if alias in entry and alias not in rejected}
        evaluator, wrong = validate_partly(kind, kind.read_children(options, children), findings, at, spelled=spelled)
        if evaluator is None:
            return None
        try:
            evaluator = evaluator.load_files(files.find)
        except ValueError as error:
            option = next((name for name in kind.FILES if isinstance(entry.get(name), str | list)), None)
            findings.add((*at, option) if option else at, f"`{option}`: {error}" if option else str(error))
            return None
        if wrong or rejected or children.wrong:
            return None
        missing = {} if self.search is None else evaluator.not_found(files.directory, self.search)
        for node, message in missing.items():
            findings.add((*at, *node), message)
        for path in evaluator.depends_on(files.directory):
            with suppress(ValueError):  # an unreadable script file is reported when the script runs
                files.fingerprints.note_once(path)
        return evaluator


class _Children:
    """Reads nested evaluators. Sets `wrong` when one of them has problems."""

    def __init__(
        self, reader: EvaluatorReader, findings: Findings, at: NodePath, files: SuiteFiles, values: CaseValues | None
    ) -> None:
        self.reader, self.findings, self.at, self.files, self.values = reader, findings, at, files, values
        self.wrong = False

    def __call__(self, entry: Any, node: NodePath, kind: type[Evaluator] | None) -> Evaluator | None:
        place = (*self.at, *node)
        if kind is None:
            evaluator = self.reader.read(entry, self.findings, place, self.files, self.values)
        else:
            evaluator = self.reader.read_as(kind, entry, self.findings, place, self.files, values=self.values)
        self.wrong = self.wrong or evaluator is None
        return evaluator

    def complain(self, node: NodePath, message: str) -> None:
        self.wrong = True
        self.findings.add((*self.at, *node), message)


def _has_template(value: Any) -> bool:
    if isinstance(value, str):
        return has_template(value)
    if isinstance(value, dict | list):
        return any(map(_has_template, value.values() if isinstance(value, dict) else value))
    return False


def _kind(raw: dict[str, Any], findings: Findings, at: NodePath) -> type[Evaluator] | None:
    """Return the class for `type`."""
    type_name = raw.get("type")
    try:
        kind = evaluator_class(type_name) if isinstance(type_name, str) else None
    except Exception as error:
        findings.add((*at, "type"), f"the evaluator type {show(type_name)} cannot be loaded: {error}")
        return None
    if kind is not None:
        return kind
    types = evaluator_types()
    if "type" not in raw:
        near = next((key for key in raw if did_you_mean(key, ["type"])), None)
        hint = f" (did you mean `type` by `{near}`?)" if near else ""
        findings.add(at, f"`type` is missing{hint}; it must be {one_of(types)}")
    else:
        near_type = did_you_mean(str(type_name), types)
        findings.add((*at, "type"), f"unknown evaluator type {show(type_name)}{near_type}; available: {all_of(types)}")
    return None
