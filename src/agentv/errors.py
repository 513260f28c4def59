"""All exceptions that agentv raises intentionally.

    AgentVError                     message, next step, exit code
    +-- UsageError                  the command line or the call is wrong
    +-- InvalidFilesError           errors in the user's files; contains every `Problem`
    |   +-- SuiteError
    |   +-- ConfigError
    +-- TargetUnavailableError      a target whose variable is missing or whose client cannot be created
    +-- ProviderError               one call to a target failed; `retryable` is set when a retry can help
    |   +-- ProviderTimeoutError
    |   +-- TargetDownError         the call was not made, because the target was declared down
    |   +-- NotRecordedError        the call is not in the record of the run that is replayed
    +-- ProcessStartError           a program could not be started (`processes/run.py`)
    +-- JudgeCallError              a script's judge call failed (`judge/session.py`)
    +-- PlaceLostError              the node of a process was lost: it can be run elsewhere
    +-- NodesLostError              the run has no nodes left: it stops and can be resumed
    +-- BudgetExhaustedError        the budget of the run is spent: the case is not run, and the run can be resumed
    +-- InterpreterError            the Python of a script cannot be used (`interpreters/errors.py`)
    |   +-- NoInterpreterError
    +-- EvaluatorError              an evaluator could not compute a score (never a low score)
    |   +-- ScoreError              a score is not a number from 0 to 1
    |   +-- ScriptError             a judge script failed; contains its stderr (`scripts.py`)
    +-- TreeRefusedError            a node cannot accept or store the files of a suite (`nodes/tree_store.py`)
    +-- OtlpError                   spans could not be sent to a collector (`report/otlp.py`)
    +-- RecordError                 the files of a run could not be read or written
        +-- RunLockedError
        +-- RunChangedError
        +-- UnknownRunError         the viewer does not list a run with this address (`view/listing.py`)

One place per stage converts them to results (`evaluators/scoring.py`, `run/case.py`) or to an exit code
(`cli/program.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.amounts import bounded

if TYPE_CHECKING:
    from agentv.messages import TokenUsage


class AgentVError(Exception):
    """An error with a message for the user and, optionally, a next step."""

    exit_code = 2

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        if not self.next_step:
            return self.message
        ends_open = self.message[-1:].isalnum() or self.message[-1:] in (")", "]")
        stop = "." if "\n" not in self.message and ends_open else ""
        return f"{self.message}{stop}\n{self.next_step}"


class UsageError(AgentVError):
    """The command line options, or the arguments of a Python API call, are invalid."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a user's file, with its location."""

    path: Path
    line: int
    column: int
    message: str
    source: str = ""
    """The source line, for the excerpt with a caret."""
    node: tuple[str | int, ...] = ()
    """The keys and indexes that lead to the value; empty if only its position is known."""
    argument: str = ""
    """The argument of a Python call that contains the value, like `cases[0].input`; empty for a file of the user."""

    def headline(self) -> str:
        place = self.argument or f"{self.path}:{self.line}:{self.column}"
        return f"{place}: {self.message}"

    def excerpt(self) -> str:
        """The source line with a caret under the column; empty when the line is unknown."""
        if not self.source.strip():
            return ""
        line, caret = _window(self.source.rstrip().replace("\t", "→"), self.column - 1)
        gutter = f"{self.line:>5} | "
        return f"{gutter}{line}\n{' ' * (len(gutter) - 2)}| {' ' * caret}^"


def _window(line: str, column: int, width: int = 100) -> tuple[str, int]:
    if len(line) <= width:
        return line, min(column, len(line))
    start = max(0, min(column - width // 2, len(line) - width))
    return line[start : start + width], column - start


class InvalidFilesError(AgentVError):
    """All errors in the user's files, sorted by location."""

    def __init__(self, problems: Sequence[Problem], *, next_step: str | None = None) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (str(p.path), p.line, p.column)))
        super().__init__("\n".join(p.headline() for p in self.problems), next_step=next_step)


class SuiteError(InvalidFilesError):
    """An invalid eval suite."""


class ConfigError(InvalidFilesError):
    """An invalid target configuration."""


class TargetUnavailableError(AgentVError):
    """A configured target cannot be called; `reason` is why."""

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
        amounts = bounded(token_usage, cost_usd, None)
        self.token_usage = amounts.token_usage
        """Token usage of an unusable reply, which is billed nevertheless."""
        self.cost_usd = amounts.cost_usd


class ProviderTimeoutError(ProviderError):
    """A call to a target timed out."""


class TargetDownError(ProviderError):
    """A call was not made, because the target was declared down after too many equal errors in a row."""


class NotRecordedError(ProviderError):
    """The call is not in the record of the run that is replayed. Nothing was sent."""


class BudgetExhaustedError(AgentVError):
    """The budget of the run does not allow a call. Never recorded as a result: the case counts as not run."""

    exit_code = 3


class PlaceLostError(AgentVError):
    """The node of a process is gone or silent, so it is unknown how the process ended. It can be run elsewhere."""

    exit_code = 3

    def __init__(self, node: str, reason: str, *, next_step: str | None = None) -> None:
        super().__init__(f"the node {node} was lost: {reason}", next_step=next_step)
        self.node = node
        self.reason = reason


class NodesLostError(AgentVError):
    """A run has no nodes left. Never recorded as a result: its open cases count as not run."""

    exit_code = 3


class EvaluatorError(AgentVError):
    """An evaluator could not compute a score. Its judge usage so far is in `judge_proxy` or `judge`."""

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
        self.execution: Mapping[str, Any] | None = None
        """The node that ran its script, and how often it was tried."""


class ScoreError(EvaluatorError, ValueError):
    """A score is not a number from 0 to 1."""


class RecordError(AgentVError):
    """The files of a run could not be read or written."""


class RunLockedError(RecordError):
    """Another process is writing this run."""


class RunChangedError(RecordError):
    """The suites or targets of a run have changed since it was started."""
