"""Read one case of a suite file into an `EvalCase`, and report every problem in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from agentv.messages import Message
from agentv.suite.evaluator import EvaluatorLike, ReadsEvaluators, TurnChecks
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import AllFindings, Findings
from agentv.suite.messages import MessageReader, answer_of, question_of
from agentv.suite.models import CaseExecutionModel, CaseModel, TrialsModel, UserModel
from agentv.suite.suite import CaseTurn, EvalCase, Rubric, SimulatedUser, TrialSettings
from agentv.suite.validation import show, validate_partly
from agentv.suite.variables import CASE_TEMPLATES, CaseValues, merged
from agentv.suite.yaml import NodePath
from agentv.templates import TemplateError
from agentv.text import did_you_mean

if TYPE_CHECKING:
    from agentv.suite.dialects.reading import Reading
    from agentv.suite.prompts import Place, Prompt

TURNS = "turns"
"""The name of the evaluator that runs the evaluators of the turns of a case."""
CRITERIA = "criteria"
"""The name of the rubric made from strings in a list of evaluators."""
MORE_CRITERIA = "more_criteria"
"""The same for `evaluators+`, which are added to a list that may have its own."""
RUBRICS = "rubric"
"""The name of the evaluator that grades an answer by the `rubrics` of its case."""
_NO_EXECUTION = CaseExecutionModel.model_construct()  # does not build the validator, which most suites never need
_INPUTS = ("input", "input_messages")
_NO_VARIABLES: Mapping[str, Any] = {}
_NO_VALUES = CaseValues()
_SET_VALUE = "set `value` of the evaluator, or `reference_answer` of the case"


class OtherDialectError(Exception):
    """A case shows that the suite is written in another dialect, so it must be read again."""


@dataclass(slots=True)
class Defaults:
    """The evaluators of cases that do not list their own, and those that apply to every case."""

    listed: tuple[EvaluatorLike, ...] = ()
    """The list of the suite, then `added`."""
    are_listed: bool = False
    """Whether the suite has a list. True even if it has errors and none of its evaluators could be read."""
    fallback: tuple[EvaluatorLike, ...] | None = None
    """The evaluators if the suite has no list; None until they are needed."""
    added: tuple[EvaluatorLike, ...] = ()
    """Evaluators of the caller, which apply to every case."""
    by_default: tuple[EvaluatorLike, ...] | None = None
    """`fallback`, if nothing in the suite names it."""
    parts: tuple[ListedEvaluator, ...] = ()
    """The list of the suite, if some of its entries must be read for each case because they have templates."""
    are_added: bool = False
    """Whether the list of the suite is added to that of a case, as in other dialects."""

    @property
    def of_suite(self) -> tuple[EvaluatorLike, ...]:
        return self.listed[: len(self.listed) - len(self.added)]

    def without_list(self) -> Defaults:
        """For a case that does not take the list of the suite."""
        return Defaults(self.added, fallback=self.fallback, added=self.added, by_default=self.by_default)


@dataclass(slots=True)
class CaseReader:
    """Reads the cases of one suite."""

    files: SuiteFiles
    evaluators: ReadsEvaluators
    defaults: Defaults
    tags: tuple[str, ...] = ()
    """The tags of the suite."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The variables of the suite."""
    prompts: tuple[Prompt, ...] = ()
    has_prompts: bool = False
    """Whether the suite has prompts, even if all of them are invalid."""
    reported: set[Any] = field(default_factory=set)
    """Problems of the suite that cases have shown. Each is reported once, not for every case."""
    found: AllFindings = field(default_factory=AllFindings)
    """The problems of the suite and of all its files."""
    suite: Path = Path()
    """The suite file."""
    has_templates: bool = False
    """Whether strings are templates even in cases without variables, because the suite has variables or prompts."""
    reading: Reading | None = None
    """Turns cases of another dialect into our form."""
    foreign: frozenset[str] = frozenset()
    """Keys of cases that show that the suite is in another dialect."""

    def read(
        self,
        raw: Any,
        line: int,
        at: NodePath,
        findings: Findings,
        variables: Mapping[str, Any] | None = None,
        *,
        is_data: bool = False,
    ) -> Iterator[EvalCase]:
        """The case, once for each prompt; nothing if it cannot be used. Problems go into `findings` either way.

        The id is empty if the `id` in the file is invalid. `variables` are those of the file that contains the case.
        With `is_data`, the values of the case are not templates.
        """
        if not isinstance(raw, dict):
            is_path = isinstance(raw, str) and PurePath(raw).suffix
            advice = "; to read cases from a file, write `{file: PATH}`" if is_path else ""
            findings.add(at, f"a case must be a mapping with `id` and `input`, got {show(raw)}{advice}")
            return
        if not (is_data or self.foreign.isdisjoint(raw)):
            raise OtherDialectError
        inherits = True
        if self.reading is not None:
            raw, inherits = self.reading.case(raw, at, findings, is_data=is_data)
        own = raw.get("vars")
        known, values = _NO_VARIABLES, _NO_VALUES
        if own or variables or self.has_templates:
            known = merged(self.variables, variables, own if isinstance(own, dict) else None)
            values = CaseValues({**known, "vars": known} if known else {}, strict=bool(known) or self.has_templates)
        if values.strict and not is_data:
            raw = {
                key: _filled_turns(values, value, findings, (*at, key))
                if key == "turns"
                else values.filled(value, findings, (*at, key))
                if key in CASE_TEMPLATES
                else value
                for key, value in raw.items()
            }
        case = self._case(raw, line, at, findings, known, strict=values.strict, inherits=inherits)
        if case is None or not self.prompts:
            if case is not None:
                yield case
            return
        values = values.plus(**_fields(case))
        # The input of a dataset is also a variable.
        written = next((raw[key] for key in (*_INPUTS, "question") if raw.get(key)), None)
        must_use = written is not None and written not in known.values()
        for prompt in self.prompts:
            if case.turns and prompt.has_user:
                why = f"prompt '{prompt.id}' has a user message, but the turns of the case have their own"
                findings.add((*at, "turns"), f"{why}: use `system_prompt`")
                continue
            reader = MessageReader(self.files, findings)
            messages = prompt.asked(
                values,
                case.input_messages,
                reader,
                at,
                must_use=must_use,
                needs_input=case.user is None,
                reported=self.reported,
                case_id=case.id,
                report=self._report_prompt,
            )
            attachments = (*reader.files, *(() if prompt.has_user else case.attachments))
            yield replace(
                case,
                prompt=prompt.id,
                question=question_of(messages),
                input_messages=messages,
                attachments=attachments,
                guideline_files=self.files.guidelines_among(attachments),
            )

    def _report_prompt(self, place: Place, problem: str, line: int) -> None:
        place.report(self.found, self.suite, problem, line)

    def _case(
        self,
        raw: dict[str, Any],
        line: int,
        at: NodePath,
        findings: Findings,
        variables: Mapping[str, Any],
        *,
        strict: bool,
        inherits: bool = True,
    ) -> EvalCase | None:
        model, wrong = validate_partly(CaseModel, raw, findings, at, instead={"id": "?"})
        if model is None:
            return None
        if not model.id.strip() and "id" not in wrong:
            findings.add((*at, "id"), "`id` must not be blank")
        _refuse_both(raw, ("outcome", "expected_outcome"), at, findings)
        _refuse_both(raw, _INPUTS, at, findings)
        reader = MessageReader(self.files, findings)
        turns = _turns(model, at, reader)
        if turns or model.user is not None or model.aggregation is not None or "turns" in wrong:
            _refuse_input(raw, model, at, findings)
        is_optional = self.has_prompts or bool(turns) or model.user is not None or "turns" in wrong
        messages = _input(model, raw, wrong, at, reader, is_optional=is_optional)
        if turns:
            messages = tuple(message for turn in turns for message in turn.messages)
        expected_reader = MessageReader(self.files, findings, include_text=True)
        expected = expected_reader.read(model.expected_messages or (), (*at, "expected_messages"))
        if "expected_messages" in wrong:
            expected_reader.check_parts(raw.get("expected_messages"), (*at, "expected_messages"))
        execution = model.execution or _NO_EXECUTION
        case = EvalCase(
            id="" if "id" in wrong else model.id,
            question=question_of(messages),
            input_messages=messages,
            expected_outcome=model.expected_outcome if model.expected_outcome is not None else model.outcome,
            expected_messages=expected,
            reference_answer=model.reference_answer if model.reference_answer is not None else answer_of(expected),
            rubrics=Rubric.listed(model.rubrics) if model.rubrics else (),
            turns=turns,
            user=_user(model.user),
            vars=variables,
            target=execution.target,
            threshold=model.threshold if model.threshold is not None else execution.threshold,
            trials=trial_settings(execution.trials),
            metadata=model.metadata or {},
            tags=self.tags if model.tags is None else joined_tags(self.tags, model.tags, (*at, "tags"), findings),
            conversation_id=model.conversation_id,
            attachments=tuple(reader.files),
            guideline_files=self.files.guidelines_among(reader.files),
            line=line,
        )
        evaluators = self._evaluators(model, raw, at, findings, case, strict=strict, inherits=inherits)
        for evaluator in evaluators:
            if case.reference_answer is None and evaluator.needs_reference:
                findings.add(at, f"{show(evaluator.name)} has nothing to compare the answer with: {_SET_VALUE}")
            if strict and not (used := evaluator.variables_used()) <= variables.keys():
                missing = TemplateError("not defined", name=min(used - variables.keys()))
                explained = CaseValues(variables, strict).explained(missing)
                findings.add(at, f"the prompt of {show(evaluator.name)}: {explained}")
        object.__setattr__(case, "evaluators", evaluators)  # they needed the other fields; a copy takes much longer
        return case

    # -- evaluators

    def _evaluators(
        self,
        model: CaseModel,
        raw: dict[str, Any],
        at: NodePath,
        findings: Findings,
        case: EvalCase,
        *,
        strict: bool,
        inherits: bool,
    ) -> tuple[EvaluatorLike, ...]:
        own, added, node = _lists(model, at, findings)
        defaults = self.defaults if inherits else self.defaults.without_list()
        plain = own is None and added is None and not model.rubrics and model.turns is None
        if plain and defaults.are_listed and not defaults.parts:
            return defaults.listed
        values = CaseValues({**case.vars, "vars": case.vars} if case.vars else {}, strict).plus(**_fields(case))
        listed: list[ListedEvaluator] = []
        if model.rubrics:
            rubric = self.evaluators.read_rubrics(RUBRICS, raw["rubrics"], findings, at, self.files)
            listed.append(ListedEvaluator(rubric, (*at, "rubrics"), RUBRICS))
        if any(turn.evaluators for turn in model.turns or ()):
            own_values = CaseValues({**case.vars, "vars": case.vars} if case.vars else {}, strict)
            judging = [
                TurnChecks(
                    turn.evaluators or [],
                    turn.reference_answer is not None,
                    own_values.plus(
                        **{
                            **_fields(case),
                            "input": question_of(case.turns[number].messages),
                            "reference_answer": turn.reference_answer,
                            "expected_outcome": turn.expected_outcome,
                        }
                    ),
                )
                for number, turn in enumerate(model.turns or ())
            ]
            aggregation = model.aggregation or "mean"
            judged = self.evaluators.read_turns(judging, aggregation, findings, at, self.files)
            listed.append(ListedEvaluator(judged, (*at, "turns"), TURNS))
        if own is None and not defaults.are_added:
            listed.extend(self._of_suite(defaults, at, findings, values, case.id))
        for name, entries in (("evaluators", own), ("evaluators+", added)):
            for index, entry in with_criteria(entries or (), CRITERIA if entries is own else MORE_CRITERIA):
                place = (*node, name, index)
                evaluator = self.evaluators.read(entry, findings, place, self.files, values)
                listed.append(ListedEvaluator(evaluator, place, name_of(evaluator, entry)))
        if defaults.are_added:
            listed.extend(self._of_suite(defaults, at, findings, values, case.id))
        if not listed and not (own is None and defaults.are_listed):
            fallback = self._fallback(model, at, findings)
            if not self.defaults.added:
                return fallback
            listed.extend(ListedEvaluator(evaluator, at, evaluator.name) for evaluator in fallback)
        listed.extend(ListedEvaluator(each, at, each.name, of_caller=True) for each in self.defaults.added)
        return unique(listed, findings, "the case")

    def _of_suite(
        self, defaults: Defaults, at: NodePath, findings: Findings, values: CaseValues, case_id: str
    ) -> list[ListedEvaluator]:
        """The list of the suite, for a case."""
        if defaults.parts:
            return [self._for_case(part, findings, values, case_id) for part in defaults.parts]
        return [ListedEvaluator(evaluator, at, evaluator.name) for evaluator in defaults.of_suite]

    def _for_case(self, part: ListedEvaluator, findings: Findings, values: CaseValues, case_id: str) -> ListedEvaluator:
        """An evaluator of the suite, with the values of a case if it has templates."""
        if part.entry is None:
            return part
        own = Findings(findings.path)
        evaluator = self.evaluators.read(part.entry, own, part.node, self.files, values)
        of_suite = self.found.of(self.suite)
        for node, problem, at_key, line in own.by_node():
            if (node, problem) not in self.reported:
                self.reported.add((node, problem))
                of_suite.add(node, f"for case {show(case_id)}: {problem}", at_key=at_key, line=line)
        return part._replace(evaluator=evaluator)

    def _fallback(self, model: CaseModel, at: NodePath, findings: Findings) -> tuple[EvaluatorLike, ...]:
        if model.evaluator is not None:
            entry = {"type": model.evaluator}
            evaluator = self.evaluators.read(entry, findings, (*at, "evaluator"), self.files)
            return () if evaluator is None else (evaluator,)
        if self.defaults.fallback is None:
            if self.defaults.added:
                return ()
            evaluator = self.evaluators.read_default(findings, at, self.files)
            if evaluator is None:
                return ()
            self.defaults.fallback = self.defaults.by_default = (evaluator,)
        return self.defaults.fallback


class ListedEvaluator(NamedTuple):
    """An entry of a list of evaluators: the evaluator (None if the entry is invalid), its node and its name."""

    evaluator: EvaluatorLike | None
    node: NodePath
    name: str
    of_caller: bool = False
    """Whether it was passed to `evaluate`, and is not in the file."""
    entry: Any = None
    """The entry, if it must be read for each case."""


def with_criteria(entries: Sequence[Any], name: str = CRITERIA) -> list[tuple[int, Any]]:
    """The entries of a list of evaluators with their positions. Strings are the criteria of one rubric, except for
    single words, which are more likely types without `type:`."""
    places = [index for index, entry in enumerate(entries) if isinstance(entry, str) and " " in entry.strip()]
    if not places:
        return list(enumerate(entries))
    rubric = {"name": name, "type": RUBRICS, "rubrics": [entries[index] for index in places]}
    return [
        (index, rubric if index == places[0] else entry)
        for index, entry in enumerate(entries)
        if index not in places[1:]
    ]


def name_of(evaluator: EvaluatorLike | None, entry: Any) -> str:
    """The name of a listed evaluator; empty if the entry is invalid and has no usable name."""
    if evaluator is not None:
        return evaluator.name
    name = entry.get("name", entry.get("type")) if isinstance(entry, dict) else None
    return name if isinstance(name, str) else ""


def unique(listed: Iterable[ListedEvaluator], findings: Findings, whose: str) -> tuple[EvaluatorLike, ...]:
    """The evaluators that could be read. Duplicate names are reported even for entries that could not be read."""
    evaluators: dict[str, EvaluatorLike | None] = {}
    for evaluator, node, name, of_caller, _ in listed:
        if name and name in evaluators:
            remedy = "rename this one, or the one passed to `evaluate`" if of_caller else "give each its own `name`"
            findings.add((*node, "name"), f"{whose} has two evaluators named {show(name)}: {remedy}")
        evaluators[name] = evaluator
    return tuple(evaluator for evaluator in evaluators.values() if evaluator is not None)


def joined_tags(
    inherited: tuple[str, ...], tags: str | Sequence[str], at: NodePath, findings: Findings
) -> tuple[str, ...]:
    """The tags of a suite and of one of its cases, without spaces around them and without duplicates."""
    own = [tags] if isinstance(tags, str) else tags
    for index, tag in enumerate(own):
        if not tag.strip():
            findings.add(at if isinstance(tags, str) else (*at, index), "a tag must not be blank")
    return tuple(dict.fromkeys((*inherited, *(tag.strip() for tag in own))))


def _lists(model: CaseModel, at: NodePath, findings: Findings) -> tuple[list[Any] | None, list[Any] | None, NodePath]:
    """The case's own list, the list it adds, and the node that contains them."""
    inner = model.execution or _NO_EXECUTION
    if inner.evaluators is None and inner.evaluators_add is None:
        return model.evaluators, model.evaluators_add, at
    for name, entries in (("evaluators", model.evaluators), ("evaluators+", model.evaluators_add)):
        if entries is not None:
            message = f"`{name}` conflicts with the evaluators under `execution`: keep one of them"
            findings.add((*at, name), message, at_key=True)
    return inner.evaluators, inner.evaluators_add, (*at, "execution")


def _filled_turns(values: CaseValues, turns: Any, findings: Findings, at: NodePath) -> Any:
    """The turns with their templates rendered, except in evaluators, which are read with the values of their turn."""
    if not isinstance(turns, list):
        return turns
    return [
        {
            key: item if key == "evaluators" else values.filled(item, findings, (*at, number, key))
            for key, item in turn.items()
        }
        if isinstance(turn, dict)
        else turn
        for number, turn in enumerate(turns)
    ]


def _turns(model: CaseModel, at: NodePath, reader: MessageReader) -> tuple[CaseTurn, ...]:
    turns: list[CaseTurn] = []
    for number, turn in enumerate(model.turns or ()):
        node: NodePath = (*at, "turns", number, "input")
        if isinstance(turn.input, str):
            if not turn.input.strip():
                reader.findings.add(node, "`input` must not be empty")
            messages: tuple[Message, ...] = (Message("user", turn.input),)
        else:
            messages = reader.read(turn.input, node)
            if not messages or messages[-1].role != "user":
                reader.findings.add(node, "the last message of a turn must be one of the user")
        turns.append(CaseTurn(messages, turn.expected_outcome, turn.reference_answer))
    return tuple(turns)


def _user(model: UserModel | None) -> SimulatedUser | None:
    return None if model is None else SimulatedUser(model.target, model.persona, model.max_turns, model.stop_when)


def _refuse_input(raw: dict[str, Any], model: CaseModel, at: NodePath, findings: Findings) -> None:
    if "turns" in raw and "user" in raw:
        findings.add((*at, "user"), "`turns` and `user` exclude each other: keep one", at_key=True)
    for key in _INPUTS:
        if "turns" in raw and raw.get(key) is not None:
            findings.add((*at, key), f"`{key}` and `turns` exclude each other: keep one", at_key=True)
    if model.aggregation is not None and model.turns is None:
        findings.add((*at, "aggregation"), "`aggregation` can only be used with `turns`", at_key=True)


def _fields(case: EvalCase) -> dict[str, Any]:
    """The fields of a case that templates can use (`variables.FIELDS`)."""
    return {
        "input": case.question or None,
        "reference_answer": case.reference_answer,
        "expected_outcome": case.expected_outcome,
        "metadata": case.metadata or None,
        "id": case.id,
    }


def _input(
    model: CaseModel, raw: dict[str, Any], wrong: set[str], at: NodePath, reader: MessageReader, *, is_optional: bool
) -> tuple[Message, ...]:
    for key in _INPUTS:
        if key in wrong:
            reader.check_parts(raw.get(key), (*at, key))
    if isinstance(model.input, str):
        if not model.input.strip():
            reader.findings.add((*at, "input"), "`input` must not be empty")
        return (Message("user", model.input),)
    key = "input" if model.input is not None else "input_messages"
    if messages := model.input or model.input_messages:
        return reader.read(messages, (*at, key))
    if not any(key in _INPUTS or did_you_mean(key, _INPUTS) for key in wrong):
        if isinstance(model.question, str) and model.question.strip():
            return (Message("user", model.question),)
        if is_optional and not any(key in raw for key in _INPUTS):
            return ()
        name = "the case" if "id" in wrong else f"case {show(model.id)}"
        empty = next(((*at, key) for key in _INPUTS if key in raw), at)
        reader.findings.add(empty, f"{name} has no input: add `input: ...`")
    return ()


def trial_settings(model: TrialsModel | None) -> TrialSettings | None:
    return None if model is None else TrialSettings(model.count, model.pass_if, model.stop_early)


def _refuse_both(raw: dict[str, Any], names: tuple[str, str], at: NodePath, findings: Findings) -> None:
    first, second = names
    if raw.get(first) is not None and raw.get(second) is not None:
        findings.add((*at, first), f"`{first}` and `{second}` mean the same: keep one", at_key=True)
