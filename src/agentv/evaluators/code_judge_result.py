"""What became of a script -> a score, or a failure that says what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentv.errors import EvaluatorError
from agentv.processes.run import STDOUT_CAP, ProcessOutcome
from agentv.redact import Redactor
from agentv.results import Score
from agentv.wire.output import OutputError, parse_output

if TYPE_CHECKING:
    from agentv.judge.session import JudgeSession

STDERR_SHOWN = 4000
OUTPUT_SHOWN = 500
NO_LINE = (
    "It printed something, but no result: with `protocol: jsonl` that is one JSON object on one line, with a line "
    "break at its end, and flushed."
)
STDERR_HEADING = "\nThe end of its stderr:\n"


def score_of(
    outcome: ProcessOutcome,
    limits: tuple[str, float],
    redactor: Redactor,
    session: JudgeSession | None = None,
    lines: bool = False,
) -> Score:
    """The script's score. Anything else is an EvaluatorError that keeps the ledger and the end of stderr, no more.

    With `lines` its result had to be one line.
    """
    name, timeout = limits
    ledger = session.ledger.to_dict() if session is not None else None
    message = _failure(outcome, name, timeout, lines=lines)
    if session is not None and session.ledger.breached:
        message = _over_the_limit(session, name)
    if message is None:
        try:
            return replace(parse_output(outcome.stdout), judge_proxy=ledger)
        except OutputError as error:
            message = redactor.head(f"{error}", OUTPUT_SHOWN)
    raise EvaluatorError(message + _last_words(outcome, redactor), judge_proxy=ledger)


def _failure(outcome: ProcessOutcome, name: str, timeout: float, *, lines: bool) -> str | None:
    if outcome.timed_out:
        no_line = lines and outcome.stdout.strip()
        return (
            f"the script did not finish within {timeout:g} s and was killed with everything it started. "
            f"Raise `timeout_seconds` of the evaluator '{name}', or make it faster."
        ) + (f" {NO_LINE}" if no_line else "")
    if outcome.stdout_overflow:
        return (
            f"the script printed more than {STDOUT_CAP // 2**20} MiB and was killed. "
            "Print the result alone to stdout; send logs to stderr."
        )
    if outcome.supervisor_lost:
        return "the script killed the process that supervises it, so what it printed cannot be trusted."
    if outcome.returncode != 0:
        return f"the script {outcome.ending}. A judge script exits with 0 after it has printed its result."
    return None


def _over_the_limit(session: JudgeSession, name: str) -> str:
    limit = session.ledger.max_calls
    return (
        f"the script asked for more than {limit} judge calls ({session.ledger.refused_calls} refused). "
        f"Raise `judge.max_calls` of the evaluator '{name}', or ask less."
    )


def _last_words(outcome: ProcessOutcome, redactor: Redactor) -> str:
    text = outcome.stderr.decode("utf-8", "backslashreplace").strip()
    if not text:
        return ""
    return f"{STDERR_HEADING}{redactor.tail(text, STDERR_SHOWN, cut_start=outcome.stderr_cut)}"
