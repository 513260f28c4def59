"""Everything agentv raises on purpose.

    AgentVError                     message, next step, exit code
    +-- UsageError                  the command line or the call is wrong
    +-- InvalidFilesError           mistakes in files a user wrote; carries every `Problem` at once
    |   +-- SuiteError
    |   +-- ConfigError
    +-- TargetUnavailableError      a target whose variable is missing or whose client cannot be built
    +-- ProviderError               one call to a target failed; says whether trying again can help
    |   +-- ProviderTimeoutError
    +-- ProcessStartError           a program could not be started (`processes/start.py`)
    +-- JudgeCallError              a judge call of a script has no reply (`judge/session.py`)
    +-- BudgetExhaustedError        the run may not spend more: the case is not run, and can be resumed
    +-- EvaluatorError              an evaluator could not judge (never a low score)
    |   +-- ScriptError             a judge script failed; carries its stderr (`scripts.py`)
    +-- RecordError                 a run on disk could not be read or written
        +-- RunLockedError
        +-- RunChangedError

Raise these inside; one edge per stage turns them into results (`evaluators/scoring.py`, `run/case.py`) or into an
exit code (`cli/program.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentv.messages import TokenUsage


class AgentVError(Exception):
    """An error whose message a user can act on."""

    exit_code = 2

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        if not self.next_step:
            return self.message
        stop = "." if "\n" not in self.message and self.message[-1:].isalnum() else ""
        return f"{self.message}{stop}\n{self.next_step}"


class UsageError(AgentVError):
    """The command line, or a call of the Python door, asks for something that cannot be done."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file a user wrote, and where it stands."""

    path: Path
    line: int
    column: int
    message: str
    source: str = ""
    """The source line, for the excerpt with a caret."""

    def headline(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"

    def excerpt(self) -> str:
        """The source line with a caret under the column; empty when the line is not known."""
        if not self.source.strip():
            return ""
        line, caret = _window(self.source.expandtabs(1).rstrip(), self.column - 1)
        gutter = f"{self.line:>5} | "
        return f"{gutter}{line}\n{' ' * (len(gutter) - 2)}| {' ' * caret}^"


def _window(line: str, column: int, width: int = 100) -> tuple[str, int]:
    if len(line) <= width:
        return line, min(column, len(line))
    start = max(0, min(column - width // 2, len(line) - width))
    return line[start : start + width], column - start


class InvalidFilesError(AgentVError):
    """Mistakes in files; all of them, in file order."""

    def __init__(self, problems: Sequence[Problem], *, next_step: str | None = None) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (str(p.path), p.line, p.column)))
        super().__init__("\n".join(p.headline() for p in self.problems), next_step=next_step)


class SuiteError(InvalidFilesError):
    """An eval suite that cannot be run as it is written."""


class ConfigError(InvalidFilesError):
    """A target configuration that cannot be used as it is written."""


class TargetUnavailableError(AgentVError):
    """A configured target that cannot be called, and why."""

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(f"target '{target}' is not available: {reason}")
        self.target = target
        self.reason = reason


class ProviderError(AgentVError):
    """A call to a target failed."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        token_usage: TokenUsage | None = None,
        cost_usd: float | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.token_usage = token_usage
        """What a reply that cannot be used has cost all the same."""
        self.cost_usd = cost_usd


class ProviderTimeoutError(ProviderError):
    """A call to a target took longer than it may."""


class BudgetExhaustedError(AgentVError):
    """A call that the budget of the run does not allow. Never a result: the case counts as not run."""

    exit_code = 3


class EvaluatorError(AgentVError):
    """An evaluator could not judge the answer. What it spent on trying stays on record in `judge_proxy` or `judge`."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        next_step: str | None = None,
        judge_proxy: Mapping[str, Any] | None = None,
        judge: Mapping[str, Any] | None = None,
        details: Mapping[str, Any] | None = None,
        evaluator_results: Sequence[Any] = (),
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.evaluator_results = evaluator_results
        self.judge_proxy = judge_proxy
        self.judge = judge
        self.details = details


class RecordError(AgentVError):
    """A run on disk could not be read or written."""


class RunLockedError(RecordError):
    """Another process is writing this run."""


class RunChangedError(RecordError):
    """What a run was made from has changed since."""
