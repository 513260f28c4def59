"""One case of a suite file -> `EvalCase`, with every mistake told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentv.messages import Message
from agentv.suite.case import EvalCase, Rubric
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings
from agentv.suite.messages import MessageReader, answer_of, question_of
from agentv.suite.models import CaseExecutionModel, CaseModel, RubricModel
from agentv.suite.validation import show, validate_partly
from agentv.suite.yaml import NodePath
from agentv.text import did_you_mean

DEFAULT_EVALUATOR = "llm_judge"
_NO_EXECUTION = CaseExecutionModel.model_construct()  # not built: most suites never need it
_INPUTS = ("input", "input_messages")


class ReadEvaluator(Protocol):
    """Turns one entry of an evaluator list into an evaluator; None when mistakes went into `findings`."""

    def __call__(self, raw: Any, findings: Findings, at: NodePath, files: SuiteFiles) -> Any | None: ...


@dataclass(slots=True)
class Defaults:
    """The evaluators of cases that say nothing about theirs."""

    listed: tuple[Any, ...] = ()
    are_listed: bool = False
    """Also when the list has mistakes and nothing came of it."""
    fallback: tuple[Any, ...] | None = None
    """Of a suite without a list; None until one is needed."""


@dataclass(slots=True)
class CaseReader:
    """Reads the cases of one suite."""

    files: SuiteFiles
    read_evaluator: ReadEvaluator
    defaults: Defaults

    def read(self, raw: Any, line: int, at: NodePath, findings: Findings) -> EvalCase | None:
        """The case, or None when nothing can be made of it; mistakes go into `findings` either way.

        A case whose `id` is wrong has an empty one.
        """
        if not isinstance(raw, dict):
            findings.add(at, f"a case is a mapping with `id` and `input`, got {show(raw)}")
            return None
        model, wrong = validate_partly(CaseModel, raw, findings, at, instead={"id": "?"})
        if model is None:
            return None
        if not model.id.strip() and "id" not in wrong:
            findings.add((*at, "id"), "`id`: must not be blank")
        _refuse_both(raw, ("outcome", "expected_outcome"), at, findings)
        _refuse_both(raw, _INPUTS, at, findings)
        reader = MessageReader(self.files, findings)
        messages = _input(model, raw, wrong, at, reader)
        comparing = MessageReader(self.files, findings, with_texts=True)
        expected = comparing.read(model.expected_messages or (), (*at, "expected_messages"))
        if "expected_messages" in wrong:
            comparing.check_parts(raw.get("expected_messages"), (*at, "expected_messages"))
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
            metadata=model.metadata or {},
            conversation_id=model.conversation_id,
            attachments=tuple(reader.files),
            guideline_files=self.files.guidelines_among(reader.files),
            line=line,
        )

    # -- evaluators

    def _evaluators(self, model: CaseModel, raw: dict[str, Any], at: NodePath, findings: Findings) -> tuple[Any, ...]:
        own, added, node = _lists(model, at, findings)
        if own is None and added is None and not model.rubrics and self.defaults.are_listed:
            return self.defaults.listed
        found: list[tuple[Any, NodePath, Any]] = []
        if model.rubrics:
            rubric = {"name": "rubric", "type": "rubric", "rubrics": raw["rubrics"]}
            found.append((self.read_evaluator(rubric, findings, at, self.files), (*at, "rubrics"), rubric))
        if own is None:
            found.extend((evaluator, at, None) for evaluator in self.defaults.listed)
        for name, entries in (("evaluators", own), ("evaluators+", added)):
            for index, item in enumerate(entries or ()):
                place = (*node, name, index)
                found.append((self.read_evaluator(item, findings, place, self.files), place, item))
        if not found and not (own is None and self.defaults.are_listed):
            return self._fallback(model, at, findings)
        return unique(found, findings, "the case")

    def _fallback(self, model: CaseModel, at: NodePath, findings: Findings) -> tuple[Any, ...]:
        if model.evaluator is not None:
            return self._of_type(model.evaluator, findings, (*at, "evaluator"))
        if self.defaults.fallback is None:
            found = self._of_type(DEFAULT_EVALUATOR, findings, at)
            self.defaults.fallback = found or None
            return found
        return self.defaults.fallback

    def _of_type(self, type_name: str, findings: Findings, at: NodePath) -> tuple[Any, ...]:
        found = self.read_evaluator({"type": type_name}, findings, at, self.files)
        return () if found is None else (found,)


def unique(found: Iterable[tuple[Any, NodePath, Any]], findings: Findings, whose: str) -> tuple[Any, ...]:
    """The evaluators that could be read; two of one name are a mistake, also when one of them has others."""
    evaluators: dict[str, Any] = {}
    for evaluator, node, raw in found:
        name = _name(raw) if evaluator is None else evaluator.name
        if name and name in evaluators:
            findings.add((*node, "name"), f"{whose} has two evaluators named {show(name)}: give each its own `name`")
        evaluators[name] = evaluator
    return tuple(evaluator for evaluator in evaluators.values() if evaluator is not None)


def _name(raw: Any) -> str:
    """What an entry with mistakes is called; empty when that is one of them."""
    name = raw.get("name", raw.get("type")) if isinstance(raw, dict) else None
    return name if isinstance(name, str) else ""


def _lists(model: CaseModel, at: NodePath, findings: Findings) -> tuple[list[Any] | None, list[Any] | None, NodePath]:
    """The case's own list, what it adds, and the node that holds them."""
    inner = model.execution or _NO_EXECUTION
    if inner.evaluators is None and inner.evaluators_add is None:
        return model.evaluators, model.evaluators_add, at
    for name, given in (("evaluators", model.evaluators), ("evaluators+", model.evaluators_add)):
        if given is not None:
            message = f"`{name}` is here, and evaluators are under `execution` too: keep one"
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
            reader.findings.add((*at, "input"), "`input`: must not be empty")
        return (Message("user", model.input),)
    key = "input" if model.input is not None else "input_messages"
    if given := model.input or model.input_messages:
        return reader.read(given, (*at, key))
    if not any(key in _INPUTS or did_you_mean(key, _INPUTS) for key in wrong):
        hint = "; `question` is not read: did you mean `input`?" if model.question is not None else ""
        name = "the case" if "id" in wrong else f"the case {show(model.id)}"
        empty = next(((*at, key) for key in _INPUTS if key in raw), at)
        reader.findings.add(empty, f"{name} has no input: add `input: ...`{hint}")
    return ()


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
