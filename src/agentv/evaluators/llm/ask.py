"""Ask a model until its reply can be parsed: the retry loop behind every question that agentv itself asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agentv.errors import BudgetExhaustedError, EvaluatorError
from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.llm.fence import fence
from agentv.evaluators.llm.prompt import words_of
from agentv.evaluators.llm.reply import LONGEST_REPLY, TRUNCATED, ReplyError, is_plain, read_and_compare
from agentv.messages import NO_OPTIONS, GenerationOptions
from agentv.results import CUT_OFF
from agentv.text import plural

if TYPE_CHECKING:
    from agentv.judge.call_error import JudgeCallError
    from agentv.judge.session import JudgeSession
    from agentv.redact import Redactor
    from agentv.targets.provider import Reply

T = TypeVar("T")

ATTEMPTS = 3
KEPT_OF_A_REPLY = 2_000
SHOWN_TO_THE_JUDGE = 300
COMPARED_IN_LINE = 64_000
"""Replies about longer answers are parsed in a worker."""
READ_SECONDS = 5.0
BETTER_JUDGE = "Try a judge that follows instructions better (`judge_target`), or increase `max_output_tokens`."
MORE_TOKENS = "Increase `max_output_tokens` of the judge target, or choose a judge that writes less (`judge_target`)."


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A question for a model.

    `read` is a function of a module that parses the reply from its text and finish reason, or raises `ReplyError`.
    """

    text: str
    system_prompt: str
    schema: Mapping[str, Any]
    read: Callable[[str, str | None], T]
    again: str = "Grade the same answer again."
    """Instruction for the retry after an unusable reply."""
    graded: str = ""
    """What the graded target wrote. A reply that is copied from it is unusable."""


class NoUsableReplyError(Exception):
    """None of the replies could be used. The message says what is wrong with the last one."""

    def __init__(self, problem: str, *, truncated: bool = False) -> None:
        super().__init__(problem)
        self.truncated = truncated


async def ask_until(
    question: Question[T],
    ask: Callable[[str, int], Awaitable[Reply]],
    redactor: Redactor,
    unusable: Callable[[], None] = lambda: None,
) -> T:
    """Ask until `question.read` can parse a reply, and return the result. Raises NoUsableReplyError after `ATTEMPTS`.

    `ask` sends a prompt; its second argument is the number of the attempt, starting at 1. `unusable` is called for
    each unusable reply. Retries add to the prompt
    what was wrong with the previous reply, and how that reply began. Two replies in a row that were cut off are enough.
    """
    text, problem, was_cut = question.text, "", False
    for attempt in range(1, 1 + ATTEMPTS):
        reply = await ask(text, attempt)
        try:
            return await _read(question, reply.text, reply.finish_reason)
        except ReplyError as error:
            unusable()
            cut = reply.finish_reason in CUT_OFF
            problem = TRUNCATED if cut else redactor.text(str(error))
        # A model that writes too much twice does so a third time, and each attempt costs the most.
        enough, was_cut = cut and was_cut, cut
        if enough:
            break
        head = redactor.head(reply.text, SHOWN_TO_THE_JUDGE)
        began = f" It began:\n\n{fence([('previous reply', head)]).text}" if head.strip() else ""
        text = (
            f"{question.text}\n\nYour previous reply to this request could not be used: {problem}.{began}\n\n"
            f"{question.again} Reply with exactly one JSON object in the format described, and nothing else."
        )
    raise NoUsableReplyError(problem, truncated=was_cut)


async def _read(question: Question[T], text: str, finish_reason: str | None) -> T:
    """Parse a reply: in the event loop if that takes no time, else in a worker."""
    quick = len(question.graded) <= COMPARED_IN_LINE and is_plain(text)
    if quick or len(text) > LONGEST_REPLY:  # the latter is rejected without being read
        return read_and_compare(question.read, text, finish_reason, question.graded)
    from agentv import workers  # noqa: PLC0415 - many judges reply with a plain object

    arguments = (question.read, text, finish_reason, question.graded)
    try:
        return await workers.call(read_and_compare, *arguments, seconds=READ_SECONDS)
    except workers.WorkerError:
        raise ReplyError("it takes too long to parse") from None


async def ask_judge(
    evaluator: str,
    question: Question[T],
    context: EvaluationContext,
    *,
    judge_target: str | None = None,
    timeout_seconds: float = 60.0,
) -> tuple[T, dict[str, Any]]:
    """Return the verdict and the ledger of the judge calls.

    Raises EvaluatorError when no judge is available, when the judge fails, or when none of its replies can be used. The
    error carries the ledger as `judge` and the last reply in `details`.
    """
    runtime = context.runtime
    if runtime is None:
        raise EvaluatorError(f"the evaluator '{evaluator}' cannot call a judge outside of a run")
    from agentv.judge.access import JudgeAccess  # noqa: PLC0415 - only runs that call a judge need it

    access = JudgeAccess(max_calls=ATTEMPTS, target=judge_target, timeout_seconds=timeout_seconds)
    session = runtime.lender.lend(access, context.asker(evaluator, script=False))
    try:
        return await _ask(session, question, context.candidate, runtime.redactor, timeout_seconds)
    except (asyncio.CancelledError, BudgetExhaustedError):
        session.give_back()
        raise
    finally:
        session.close()


async def _ask(
    session: JudgeSession, question: Question[T], candidate: Candidate, redactor: Redactor, timeout: float
) -> tuple[T, dict[str, Any]]:
    from agentv.judge.call_error import JudgeCallError  # noqa: PLC0415 - only runs that call a judge need it
    from agentv.wire.judge import JudgeCall  # noqa: PLC0415

    # Not every judge supports structured output; the prompt describes the object as well.
    options = GenerationOptions(response_schema=question.schema) if session.honours("response_schema") else NO_OPTIONS
    calls: list[JudgeCall] = []
    last_reply = ""

    async def ask(text: str, attempt: int) -> Reply:
        nonlocal last_reply
        del attempt
        calls.append(JudgeCall(text, question.system_prompt, options=options))
        try:
            reply = await session.ask(calls[-1])
        except JudgeCallError as error:
            raise _no_reply(error, session, _kept(last_reply, redactor), timeout) from None
        last_reply = reply.text
        return reply

    def forget() -> None:
        session.forget(calls[-1])  # the cache must not return this reply again

    try:
        graded = replace(question, graded=words_of(candidate))
        return await ask_until(graded, ask, redactor, forget), session.ledger.to_dict()
    except NoUsableReplyError as error:
        problem, truncated = str(error), error.truncated
    target, kept = session.targets.default, _kept(last_reply, redactor)
    where = "The last reply is in `details.raw_reply` of this result. " if kept else ""
    recorded = (
        "All replies are in judge_calls.jsonl. " if session.records_io else "Use --judge-io all to record all replies. "
    )
    raise EvaluatorError(
        f"the judge '{target}' returned no usable verdict in {plural(len(calls), 'attempt')}; "
        f"problem with the last reply{_beginning(last_reply, redactor)}: {problem}",
        next_step=f"{where}{recorded}{MORE_TOKENS if truncated else BETTER_JUDGE}",
        judge=session.ledger.to_dict(),
        details=kept,
    )


def _no_reply(
    error: JudgeCallError, session: JudgeSession, details: dict[str, Any] | None, timeout: float
) -> EvaluatorError:
    from agentv.judge.call_error import LATE  # noqa: PLC0415 - only runs that call a judge need it

    ledger = session.ledger.to_dict()
    if error.code == "judge_timeout" and LATE.format(timeout) in error.message:
        message = f"the judge '{session.targets.default}' did not answer within {timeout:g} s"
        next_step = "Increase `timeout_seconds` of this evaluator, or choose a faster judge with `judge_target`."
        return EvaluatorError(message, next_step=next_step, judge=ledger, details=details)
    if session.not_recorded is not None:
        return EvaluatorError(session.not_recorded, judge=ledger, details=details)
    when = "With a longer timeout" if error.code == "judge_timeout" else "When the judge is available again"
    next_step = f"Nothing was judged. {when}, grade the same answers with --outputs."
    return EvaluatorError(error.message, next_step=next_step, judge=ledger, details=details)


def _beginning(reply: str, redactor: Redactor) -> str:
    text = " ".join(redactor.text(reply).split())
    return f" ({text[:60]!r}{'...' if len(text) > 60 else ''})" if text else ""


def _kept(reply: str, redactor: Redactor) -> dict[str, Any] | None:
    """The last reply, to help find out why it could not be used."""
    return {"raw_reply": redactor.head(reply, KEPT_OF_A_REPLY)} if reply else None
