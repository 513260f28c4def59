"""One case of a suite file -> `EvalCase`, with every mistake told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.messages import Message
from agentv.suite.case import EvalCase, Rubric
from agentv.suite.files import SuiteFiles, digest
from agentv.suite.findings import Findings
from agentv.suite.messages import answer_of, build_messages, question_of
from agentv.suite.models import CaseModel, MessageModel, RubricModel, SuiteModel
from agentv.suite.validation import show, validate
from agentv.suite.yaml_events import Path as NodePath

if TYPE_CHECKING:
    from agentv.suite.loader import ReadEvaluator

DEFAULT_EVALUATOR = "llm_judge"


class CaseReader:
    """Reads the cases of one suite; `digests` collects the files they refer to."""

    def __init__(
        self,
        head: SuiteModel,
        defaults: tuple[Any, ...],
        files: SuiteFiles,
        read_evaluator: ReadEvaluator,
        digests: dict[str, str] | None,
    ) -> None:
        self.head = head
        self.defaults = defaults
        self.files = files
        self.read_evaluator = read_evaluator
        self.digests = digests

    def read(self, raw: Any, line: int, at: NodePath, findings: Findings) -> EvalCase | None:
        """The case, or None when it cannot be made; mistakes go into `findings` either way."""
        if not isinstance(raw, dict):
            findings.add(at, f"a case is a mapping with `id` and `input`, got {show(raw)}")
            return None
        model = validate(CaseModel, raw, findings, at)
        if model is None:
            return None
        messages, input_files = self._input(model, at, findings)
        expected, _ = self._messages(model.expected_messages, (*at, "expected_messages"), findings)
        if model.expected_outcome is not None and model.outcome is not None:
            findings.add((*at, "outcome"), "`outcome` and `expected_outcome` mean the same: keep one", at_key=True)
        execution = model.execution
        return EvalCase(
            id=model.id,
            question=question_of(messages),
            input_messages=messages,
            expected_outcome=model.expected_outcome if model.expected_outcome is not None else model.outcome,
            expected_messages=expected,
            reference_answer=model.reference_answer if model.reference_answer is not None else answer_of(expected),
            rubrics=_rubrics(model.rubrics),
            evaluators=self._evaluators(model, raw, at, findings),
            target=execution.target if execution else None,
            threshold=model.threshold if model.threshold is not None else (execution.threshold if execution else None),
            metadata=model.metadata,
            conversation_id=model.conversation_id,
            input_files=input_files,
            line=line,
        )

    # -- messages

    def _input(
        self, model: CaseModel, at: NodePath, findings: Findings
    ) -> tuple[tuple[Message, ...], tuple[Path, ...]]:
        if model.input is not None and model.input_messages is not None:
            findings.add((*at, "input"), "`input` and `input_messages` mean the same: keep one", at_key=True)
        if isinstance(model.input, str):
            if not model.input.strip():
                findings.add((*at, "input"), "`input`: must not be empty")
            return (Message("user", model.input),), ()
        key = "input" if model.input is not None else "input_messages"
        given = model.input if model.input is not None else model.input_messages
        if not given:
            hint = "; `question` is not read: did you mean `input`?" if model.question is not None else ""
            findings.add(at, f"the case '{model.id}' has no input: add `input: ...`{hint}")
            return (), ()
        return self._messages(given, (*at, key), findings)

    def _messages(
        self, models: Sequence[MessageModel], at: NodePath, findings: Findings
    ) -> tuple[tuple[Message, ...], tuple[Path, ...]]:
        def complain(node: NodePath, message: str) -> None:
            findings.add((*at, *node), message)

        return build_messages(models, self._find_file, complain)

    def _find_file(self, reference: str) -> Path:
        path = self.files.resolve(reference)
        if self.digests is not None and str(path) not in self.digests:
            self.files.read_text(path)
            self.digests[str(path)] = digest(path)
        return path

    # -- evaluators

    def _evaluators(self, model: CaseModel, raw: dict[str, Any], at: NodePath, findings: Findings) -> tuple[Any, ...]:
        own, added, node = self._lists(model, at, findings)
        if own is None and added is None and not model.rubrics and self.defaults:
            return self.defaults
        found: list[Any] = []
        if model.rubrics:
            rubric = {"name": "rubric", "type": "rubric", "rubrics": raw["rubrics"]}
            found.append(self.read_evaluator(rubric, findings, (*at, "rubrics"), self.files))
        if own is None:
            found.extend(self.defaults)
        for name, entries in (("evaluators", own), ("evaluators+", added)):
            for index, item in enumerate(entries or ()):
                found.append(self.read_evaluator(item, findings, (*node, name, index), self.files))
        if not found:
            default = {"type": model.evaluator or self.head.evaluator or DEFAULT_EVALUATOR}
            found.append(self.read_evaluator(default, findings, at, self.files))
        evaluators = tuple(evaluator for evaluator in found if evaluator is not None)
        for name, count in Counter(evaluator.name for evaluator in evaluators).items():
            if count > 1:
                findings.add(at, f"{count} evaluators of the case '{model.id}' are named '{name}': give each a `name`")
        return evaluators

    def _lists(
        self, model: CaseModel, at: NodePath, findings: Findings
    ) -> tuple[list[Any] | None, list[Any] | None, NodePath]:
        inner = model.execution
        if inner is None or (inner.evaluators is None and inner.evaluators_add is None):
            return model.evaluators, model.evaluators_add, at
        if model.evaluators is not None or model.evaluators_add is not None:
            findings.add((*at, "evaluators"), "evaluators are listed here and under `execution`: keep one", at_key=True)
        return inner.evaluators, inner.evaluators_add, (*at, "execution")


def _rubrics(items: Sequence[str | RubricModel]) -> tuple[Rubric, ...]:
    rubrics: list[Rubric] = []
    for number, item in enumerate(items, 1):
        model = RubricModel(description=item) if isinstance(item, str) else item
        rubrics.append(Rubric(model.id or f"rubric-{number}", model.description, model.weight, model.required))
    return tuple(rubrics)
