"""Read one case of a suite file into an `EvalCase`, and report every problem in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentv.messages import Message
from agentv.suite.evaluator import EvaluatorLike, ReadsEvaluators
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings
from agentv.suite.messages import MessageReader, answer_of, question_of
from agentv.suite.models import CaseExecutionModel, CaseModel, RubricModel, TrialsModel
from agentv.suite.suite import EvalCase, Rubric, TrialSettings
from agentv.suite.validation import show, validate_partly
from agentv.suite.yaml import NodePath
from agentv.text import did_you_mean

RUBRICS = "rubric"
"""The name of the evaluator that grades an answer by the `rubrics` of its case."""
_NO_EXECUTION = CaseExecutionModel.model_construct()  # does not build the validator, which most suites never need
_INPUTS = ("input", "input_messages")


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

    @property
    def of_suite(self) -> tuple[EvaluatorLike, ...]:
        return self.listed[: len(self.listed) - len(self.added)]


@dataclass(slots=True)
class CaseReader:
    """Reads the cases of one suite."""

    files: SuiteFiles
    evaluators: ReadsEvaluators
    defaults: Defaults
    tags: tuple[str, ...] = ()
    """The tags of the suite."""

    def read(self, raw: Any, line: int, at: NodePath, findings: Findings) -> EvalCase | None:
        """The case, or None if none of it can be used; problems go into `findings` either way.

        The id of the result is empty if the `id` in the file is invalid.
        """
        if not isinstance(raw, dict):
            findings.add(at, f"a case must be a mapping with `id` and `input`, got {show(raw)}")
            return None
        model, wrong = validate_partly(CaseModel, raw, findings, at, instead={"id": "?"})
        if model is None:
            return None
        if not model.id.strip() and "id" not in wrong:
            findings.add((*at, "id"), "`id` must not be blank")
        _refuse_both(raw, ("outcome", "expected_outcome"), at, findings)
        _refuse_both(raw, _INPUTS, at, findings)
        reader = MessageReader(self.files, findings)
        messages = _input(model, raw, wrong, at, reader)
        expected_reader = MessageReader(self.files, findings, include_text=True)
        expected = expected_reader.read(model.expected_messages or (), (*at, "expected_messages"))
        if "expected_messages" in wrong:
            expected_reader.check_parts(raw.get("expected_messages"), (*at, "expected_messages"))
        execution = model.execution or _NO_EXECUTION
        return EvalCase(
            id="" if "id" in wrong else model.id,
            question=question_of(messages),
            input_messages=messages,
            expected_outcome=model.expected_outcome if model.expected_outcome is not None else model.outcome,
            expected_messages=expected,
            reference_answer=model.reference_answer if model.reference_answer is not None else answer_of(expected),
            rubrics=_rubrics(model.rubrics or ()),
            evaluators=self._evaluators(model, raw, at, findings),
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

    # -- evaluators

    def _evaluators(
        self, model: CaseModel, raw: dict[str, Any], at: NodePath, findings: Findings
    ) -> tuple[EvaluatorLike, ...]:
        own, added, node = _lists(model, at, findings)
        if own is None and added is None and not model.rubrics and self.defaults.are_listed:
            return self.defaults.listed
        listed: list[ListedEvaluator] = []
        if model.rubrics:
            rubric = self.evaluators.read_rubrics(RUBRICS, raw["rubrics"], findings, at, self.files)
            listed.append(ListedEvaluator(rubric, (*at, "rubrics"), RUBRICS))
        if own is None:
            listed.extend(ListedEvaluator(evaluator, at, evaluator.name) for evaluator in self.defaults.of_suite)
        for name, entries in (("evaluators", own), ("evaluators+", added)):
            for index, entry in enumerate(entries or ()):
                place = (*node, name, index)
                evaluator = self.evaluators.read(entry, findings, place, self.files)
                listed.append(ListedEvaluator(evaluator, place, name_of(evaluator, entry)))
        if not listed and not (own is None and self.defaults.are_listed):
            fallback = self._fallback(model, at, findings)
            if not self.defaults.added:
                return fallback
            listed.extend(ListedEvaluator(evaluator, at, evaluator.name) for evaluator in fallback)
        listed.extend(ListedEvaluator(each, at, each.name, of_caller=True) for each in self.defaults.added)
        return unique(listed, findings, "the case")

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


def name_of(evaluator: EvaluatorLike | None, entry: Any) -> str:
    """The name of a listed evaluator; empty if the entry is invalid and has no usable name."""
    if evaluator is not None:
        return evaluator.name
    name = entry.get("name", entry.get("type")) if isinstance(entry, dict) else None
    return name if isinstance(name, str) else ""


def unique(listed: Iterable[ListedEvaluator], findings: Findings, whose: str) -> tuple[EvaluatorLike, ...]:
    """The evaluators that could be read. Duplicate names are reported even for entries that could not be read."""
    evaluators: dict[str, EvaluatorLike | None] = {}
    for evaluator, node, name, of_caller in listed:
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


def _input(
    model: CaseModel, raw: dict[str, Any], wrong: set[str], at: NodePath, reader: MessageReader
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


def _rubrics(items: Sequence[str | RubricModel]) -> tuple[Rubric, ...]:
    rubrics: list[Rubric] = []
    for number, item in enumerate(items, 1):
        if isinstance(item, str):
            rubrics.append(Rubric(f"rubric-{number}", item))
        else:
            rubrics.append(Rubric(item.id or f"rubric-{number}", item.description, item.weight, item.required))
    return tuple(rubrics)
