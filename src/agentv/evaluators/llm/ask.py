"""Asking the judge until it gives a verdict: the loop that every evaluator which asks a model shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agentv.errors import BudgetExhaustedError, EvaluatorError
from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.llm.prompt import again, words_of
from agentv.evaluators.llm.reply_object import ReplyError, refuse_copy
from agentv.messages import NO_OPTIONS, GenerationOptions

if TYPE_CHECKING:
    from agentv.judge.session import JudgeCallError, JudgeSession
    from agentv.redact import Redactor

T = TypeVar("T")

ASKED_AGAIN = 2
KEPT_OF_A_REPLY = 2_000
SHOWN_TO_THE_JUDGE = 300

HOW = (
    "Name a judge with --judge-target, with `judge_target` of this evaluator, of the target or under `defaults` of the "
    "configuration; `agentv targets` shows what is ready."
)


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """What to ask, and how to read the reply: `read` takes its text and finish reason, and raises `ReplyError`."""

    text: str
    system_prompt: str
    schema: Mapping[str, Any]
    read: Callable[[str, str | None], T]


async def ask_judge(
    evaluator: str,
    question: Question[T],
    context: EvaluationContext,
    *,
    judge_target: str | None = None,
    timeout_seconds: float = 60.0,
) -> tuple[T, dict[str, Any]]:
    """The verdict, and the ledger of the calls that it took.

    EvaluatorError when there is no judge, when it fails, or when none of its replies can be used; it carries the
    ledger as `judge`, and the last reply in its `details`.
    """
    runtime = context.runtime
    if runtime is None:
        raise EvaluatorError(f"the evaluator '{evaluator}' needs a run to ask a judge in")
    from agentv.judge.access import JudgeAccess  # noqa: PLC0415 - only runs that ask a judge need it

    access = JudgeAccess(max_calls=1 + ASKED_AGAIN, target=judge_target, timeout_seconds=timeout_seconds)
    try:
        session = runtime.lend(access, evaluator, context, script=False)
    except EvaluatorError as error:
        raise EvaluatorError(error.message, next_step=HOW) from None
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
    from agentv.judge.session import JudgeCallError  # noqa: PLC0415 - only runs that ask a judge need it
    from agentv.wire.judge_requests import JudgeCall  # noqa: PLC0415

    # A judge without structured output is asked in words alone: the prompt describes the object, too.
    options = GenerationOptions(response_schema=question.schema) if session.honours("response_schema") else NO_OPTIONS
    text, reply_text, problem = question.text, "", ""
    for _ in range(1 + ASKED_AGAIN):
        call = JudgeCall(text, question.system_prompt, options=options)
        try:
            reply = await session.ask(call)
        except JudgeCallError as error:
            raise _no_reply(error, session, _kept(reply_text, redactor), timeout) from None
        reply_text = reply.text
        try:
            verdict = question.read(reply_text, reply.finish_reason)
            refuse_copy(reply_text, words_of(candidate))
            return verdict, session.ledger.to_dict()
        except ReplyError as error:
            session.forget(call)
            problem = redactor.text(str(error))
            text = again(question.text, problem, redactor.head(reply_text, SHOWN_TO_THE_JUDGE))
    target, kept = session.targets.default, _kept(reply_text, redactor)
    where = "Its reply is in `details.raw_reply` of this result, and --record-judge-io" if kept else "--record-judge-io"
    raise EvaluatorError(
        f"the judge '{target}' was asked {1 + ASKED_AGAIN} times and gave no verdict; its last reply could not be "
        f"used: {problem}",
        next_step=f"{where} keeps all of them. Use a judge that follows instructions better (`judge_target`), or give "
        "it more `max_output_tokens`.",
        judge=session.ledger.to_dict(),
        details=kept,
    )


def _no_reply(
    error: JudgeCallError, session: JudgeSession, details: dict[str, Any] | None, timeout: float
) -> EvaluatorError:
    ledger = session.ledger.to_dict()
    if error.code == "judge_timeout":
        message = f"the judge '{session.targets.default}' did not answer within {timeout:g} s"
        next_step = "Raise `timeout_seconds` of this evaluator, or name a quicker judge with `judge_target`."
        return EvaluatorError(message, next_step=next_step, judge=ledger, details=details)
    next_step = "Nothing was judged. When the judge works again, grade the same answers with --outputs."
    return EvaluatorError(error.message, next_step=next_step, judge=ledger, details=details)


def _kept(reply: str, redactor: Redactor) -> dict[str, Any] | None:
    """The last reply, for whoever looks into why it could not be used."""
    return {"raw_reply": redactor.head(reply, KEPT_OF_A_REPLY)} if reply else None
