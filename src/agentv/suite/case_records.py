"""Cases as lines of `cases.jsonl`: what is asked and expected, the evaluators as resolved, and a hash of all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.codec import encode
from agentv.evidence import CaseLine, case_line
from agentv.jsonio import dump_line
from agentv.results import DEFAULT_THRESHOLD
from agentv.suite.evaluator import EvaluatorLike
from agentv.suite.files import SuiteFiles
from agentv.suite.suite import EvalCase
from agentv.text import short_path


@dataclass(slots=True)
class CaseEncoder:
    """Turns the cases of one suite into lines of `cases.jsonl`."""

    suite: str
    threshold: float | None
    """The threshold of the suite."""
    files: SuiteFiles
    cwd: Path
    option: float | None = None
    """`--threshold`, which overrides the threshold of the suite. It is recorded, but not part of the hash."""
    _evaluators: tuple[EvaluatorLike, ...] = ()
    _encoded: str = "[]"
    """The evaluators of the previous case, and their encoding: most cases of a suite share their evaluators."""
    _files: dict[Path, str] = field(default_factory=dict)

    def encode(self, case: EvalCase, path: Path) -> CaseLine:
        """The line of the case, with the fields of a `CaseRecord`; empty fields are left out."""
        threshold = case.threshold if case.threshold is not None else self.threshold
        content: dict[str, Any] = {
            "suite": self.suite,
            "eval_id": case.id,
            **({} if case.prompt is None else {"prompt": case.prompt}),
            "input_messages": [message.to_dict() for message in case.input_messages],
        }
        if case.expected_outcome is not None:
            content["expected_outcome"] = case.expected_outcome
        if case.expected_messages:
            content["expected_messages"] = [message.to_dict() for message in case.expected_messages]
        if case.reference_answer is not None:
            content["reference_answer"] = case.reference_answer
        content["threshold"] = DEFAULT_THRESHOLD if threshold is None else threshold
        if case.metadata:
            content["metadata"] = case.metadata
        if case.tags:
            content["tags"] = case.tags
        if case.turns:
            content["turns"] = [encode(turn) for turn in case.turns]
        if case.user is not None:
            content["user"] = encode(case.user)
        if case.vars:
            content["vars"] = case.vars
        if case.conversation_id is not None:
            content["conversation_id"] = case.conversation_id
        if case.attachments:
            content["files"] = file_digests(case, self.files)
        option = self.option if case.threshold is None else None
        return case_line(content, self._evaluators_of(case), f"{self._file(path)}{case.line}", option)

    def _evaluators_of(self, case: EvalCase) -> str:
        if case.evaluators is not self._evaluators:
            self._evaluators = case.evaluators
            self._encoded = dump_line([encode(evaluator.record()) for evaluator in case.evaluators])
        return self._encoded

    def _file(self, path: Path) -> str:
        if path not in self._files:
            self._files[path] = f'"file":{dump_line(str(short_path(path, self.cwd)))},"line":'
        return self._files[path]


def file_digests(case: EvalCase, files: SuiteFiles) -> dict[str, str]:
    """SHA-256 of each file that the input of a case contains, by its path in the repository."""
    known = files.fingerprints.digest_of
    return {str(short_path(path, files.root)): known(path) or "" for path in case.attachments}
