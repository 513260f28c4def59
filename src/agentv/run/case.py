"""One case: building its request, getting the answer of its target, and grading it to a row."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agentv.errors import AgentVError, BudgetExhaustedError, NodesLostError, ProviderError, RecordError, TargetDownError
from agentv.evaluators.base import Candidate, EvaluationContext, Evaluator
from agentv.evaluators.scoring import CaseScore, combine, judge_all
from agentv.messages import Message, TokenUsage, ToolCall, part_text, whole_text
from agentv.plan.plan import WorkItem
from agentv.results import CaseError, CaseResult, EvaluatorResult, TurnRecord, Verdict
from agentv.suite.files import FileReferenceError, SuiteFiles
from agentv.suite.suite import EvalCase
from agentv.targets.provider import CallHooks, Provider, Reply, Request
from agentv.text import short_path

if TYPE_CHECKING:
    from agentv.run.conversation import Talk
    from agentv.scripts import Runtime


FILE_NEXT_STEP = "The case was not sent. Restore the file, and keep what runs during the evaluation from changing it."
Ask = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of a target call: a candidate, or the error."""

    started_at: str
    candidate: Candidate | None
    error: CaseError | None = None
    token_usage: TokenUsage | None = None
    """Usage of a failed call that still has to be paid for."""
    cost_usd: float | None = None
    turns: tuple[TurnRecord, ...] = ()
    """What was said before the call failed, in a conversation."""
    recorded: bool = False
    """Whether the answer is on disk, so that another process does not have to call the target again."""


class Judged(NamedTuple):
    """What the evaluators of a case made of its answer."""

    outcome: CaseScore
    results: tuple[EvaluatorResult, ...]


_UNJUDGED = CaseScore(0.0, Verdict.FAIL)


async def with_file_text(item: WorkItem) -> WorkItem:
    """The item with the text of its files. If one of them is not as it was validated, with that as the problem."""
    case, files = item.case, item.planned.suite.files
    if not case.attachments or case.problem is not None:
        return item
    try:
        texts = await asyncio.to_thread(lambda: {path: files.read_text(path) for path in case.attachments})
    except FileReferenceError as error:
        return replace(item, case=replace(case, problem=str(error)))
    return replace(item, case=replace(case, texts=texts))


async def answer(item: WorkItem, ask: Ask, talk: Talk | None = None) -> Answered:
    """Send the case to its target. Exceptions of the call are returned as the error of the case.

    `talk` is the conversation of a case with several turns.
    """
    started_at, started = now() if talk is None else talk.started_at, time.perf_counter()
    if item.case.problem is not None:
        return Answered(started_at, None, CaseError("target", f"{item.case.problem}. {FILE_NEXT_STEP}"))
    try:
        if talk is not None:
            return Answered(started_at, await _conversation_of(item, ask, talk))
        reply = await ask(build_request(item.case, item.attempt, item.planned.suite.files))
    except (BudgetExhaustedError, NodesLostError, RecordError):
        raise
    except TargetDownError as error:
        return _failure(started_at, str(error), talk, not_called=talk is None or not talk.answered)
    except ProviderError as error:
        return _failure(started_at, str(error), talk, error.token_usage, error.cost_usd)
    except AgentVError as error:
        return _failure(started_at, str(error), talk)
    except Exception as error:
        from agentv.processes.causes import raised  # noqa: PLC0415 - compiles patterns that most runs never need

        return _failure(started_at, raised(error), talk)
    return Answered(started_at, candidate_of(reply, milliseconds_since(started)), recorded=reply.recorded)


def _failure(
    started_at: str,
    message: str,
    talk: Talk | None,
    usage: TokenUsage | None = None,
    cost_usd: float | None = None,
    *,
    not_called: bool = False,
) -> Answered:
    """The outcome of a failed call. In a conversation, it has the turns before it and what they cost."""
    if talk is None:
        return Answered(started_at, None, CaseError("target", message, not_called=not_called), usage, cost_usd)
    before = talk.answered
    usages = [each for each in (*(turn.token_usage for turn in before), usage) if each is not None]
    costs = [each for each in (*(turn.cost_usd for turn in before), cost_usd) if each is not None]
    return Answered(
        started_at,
        None,
        CaseError("target", f"{talk.where}: {message}" if talk.where else message, not_called=not_called),
        sum(usages, TokenUsage()) if usages else None,
        sum(costs) if costs else None,
        tuple(talk.turns),
    )


async def _conversation_of(item: WorkItem, ask: Ask, talk: Talk) -> Candidate:
    from agentv.run.conversation import total  # noqa: PLC0415 - most cases have one turn

    case, files = item.case, item.planned.suite.files
    request = build_request(replace(case, input_messages=case.before_turns), item.attempt, files)
    inputs = _inputs(case, files)
    if not inputs and any(message.role != "system" for message in case.input_messages):
        inputs = [tuple(message for message in request.messages if message.role != "system")]
    await talk.hold(request, inputs, ask)
    candidate = candidate_of(total(talk.turns), 0.0)
    return replace(candidate, answer=talk.turns[-1].answer, turns=tuple(talk.turns))


def _inputs(case: EvalCase, files: SuiteFiles) -> list[tuple[Message, ...]]:
    """The messages of each turn, with the content of their files."""
    contents = [message.content for turn in case.turns for message in turn.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    count = sum(isinstance(part, dict) and part.get("type") == "file" for part in parts)
    own = case.attachments[len(case.attachments) - count :]  # after those of the prompt
    attached = _Attached(iter(own), case, files, named=False)
    return [tuple(_with_files(message, attached) for message in turn.messages) for turn in case.turns]


def now() -> str:
    """The `started_at` of a call that starts now."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


def answered_before(row: CaseResult) -> Answered:
    """The answer of a row that was recorded before it was judged, or that is judged again."""
    candidate = Candidate(
        answer=row.candidate_answer,
        output_messages=row.output_messages,
        token_usage=row.token_usage,
        cost_usd=row.cost_usd,
        duration_ms=row.duration_ms,
        trace_summary=row.trace_summary,
        finish_reason=row.finish_reason,
        warnings=row.warnings,
        model=row.model,
        turns=row.turns,
        cache_hit=row.cache_hit,
        execution=row.execution,
    )
    return Answered(row.started_at, candidate, recorded=True)


def timed(provider: Provider) -> Ask:
    """The calls of a target, whose replies have the time they took, without the time they waited for its limits."""

    async def ask(request: Request) -> Reply:
        started, waited = time.perf_counter(), 0.0
        since: float | None = None

        def wait(is_waiting: bool) -> None:
            nonlocal waited, since
            at = time.perf_counter()
            waited += 0.0 if since is None else at - since
            since = at if is_waiting else None

        reply = await provider.call(request, CallHooks(on_wait=wait))
        if reply.duration_ms is not None or reply.recorded or reply.cache_hit:
            return reply
        return replace(reply, duration_ms=max(0.0, milliseconds_since(started + waited)))

    return ask


def candidate_of(reply: Reply, elapsed_ms: float) -> Candidate:
    is_measured = reply.duration_ms is None and not (reply.recorded or reply.cache_hit)
    duration = elapsed_ms if is_measured else reply.duration_ms
    return Candidate(
        answer=reply.text,
        output_messages=reply.output_messages,
        token_usage=reply.token_usage,
        cost_usd=reply.cost_usd,
        duration_ms=duration,
        trace_summary=summarize_trace(reply.output_messages, reply.token_usage, reply.cost_usd, duration),
        finish_reason=reply.finish_reason,
        warnings=reply.warnings,
        model=reply.model,
        cache_hit=reply.cache_hit,
        execution=reply.execution,
    )


def row_of(item: WorkItem, answered: Answered, run_id: str, judged: Judged | None = None) -> CaseResult:
    """The row of an answer, with its results or, if it is not judged yet, without; or the row of a failed call."""
    candidate = answered.candidate
    if candidate is None:
        candidate = Candidate("", token_usage=answered.token_usage, cost_usd=answered.cost_usd, turns=answered.turns)
    outcome, results = (_UNJUDGED, ()) if judged is None else judged
    return CaseResult(
        run_id=run_id,
        eval_id=item.case.id,
        suite=item.planned.suite.name,
        target=item.target,
        attempt=item.attempt,
        score=outcome.score,
        verdict=outcome.verdict,
        error=answered.error if judged is None else outcome.error,
        candidate_answer=candidate.answer,
        output_messages=candidate.output_messages,
        hits=outcome.hits,
        misses=outcome.misses,
        reasoning=outcome.reasoning,
        evaluator_results=results,
        trace_summary=candidate.trace_summary,
        token_usage=candidate.token_usage,
        cost_usd=candidate.cost_usd,
        duration_ms=candidate.duration_ms,
        started_at=answered.started_at,
        metadata=item.case.metadata,
        conversation_id=item.case.conversation_id,
        finish_reason=candidate.finish_reason,
        warnings=candidate.warnings,
        threshold=item.threshold,
        model=candidate.model,
        cache_hit=candidate.cache_hit,
        case_sha256=item.case_sha256,
        prompt=item.case.prompt,
        turns=candidate.turns,
        trials=item.trials,
        execution=candidate.execution,
    )


async def grade(item: WorkItem, candidate: Candidate, runtime: Runtime | None = None) -> Judged:
    """Run the evaluators on the answer."""
    suite, case = item.planned.suite, item.case
    if candidate.turns:
        from agentv.evaluators.turns import asked_until_the_end  # noqa: PLC0415 - only conversations need it

        case = asked_until_the_end(case, candidate.turns)
    context = EvaluationContext(
        case, candidate, suite.name, item.target, item.attempt, directory=suite.directory, runtime=runtime
    )
    # Suites declare evaluators by protocol; the plan's reader created these.
    results = await judge_all(cast("tuple[Evaluator, ...]", item.case.evaluators), context)
    return Judged(combine(results, item.threshold), results)


def summarize_trace(
    messages: Sequence[Message], usage: TokenUsage | None, cost_usd: float | None, duration_ms: float | None
) -> dict[str, Any]:
    """The `trace_summary` of an answer: tool calls by name, model calls, usage, cost and duration."""
    tool_calls = [call for message in messages for call in message.tool_calls]
    calls: Counter[str] = Counter(call.tool for call in tool_calls)
    return {
        "event_count": len(tool_calls),
        "tool_names": sorted(calls),
        "tool_calls_by_name": {name: calls[name] for name in sorted(calls)},
        "error_count": sum(map(_failed, tool_calls)),
        "token_usage": usage.to_dict() if usage else None,
        "cost_usd": cost_usd,
        "duration_ms": duration_ms,
        "llm_call_count": sum(message.role == "assistant" for message in messages),
    }


def _failed(call: ToolCall) -> bool:
    """Whether the output of a tool call reports an error: a non-empty `error`, or `is_error: true`."""
    output = call.output
    if not isinstance(output, Mapping):
        return False
    return bool(output.get("error")) or output.get("is_error") is True or output.get("isError") is True


def build_request(case: EvalCase, attempt: int, files: SuiteFiles) -> Request:
    """The request of a case: its messages with the content of files, and system messages merged at the start."""
    return Request(
        messages=_conversation(case, files),
        eval_id=case.id,
        attempt=attempt,
        files=case.input_files,
        directory=files.directory,
        guidelines="\n\n".join(_tagged(path, case, files) for path in case.guideline_files),
        naming_files=_conversation(case, files, named=True) if case.input_files else None,
        vars=case.vars,
        prompt=case.prompt,
    )


def _conversation(case: EvalCase, files: SuiteFiles, *, named: bool = False) -> tuple[Message, ...]:
    """The messages with the content of their files or, with `named`, only the paths."""
    attached = _Attached(iter(case.attachments), case, files, named)
    messages = [_with_files(message, attached) for message in case.input_messages]
    system = "\n\n".join(whole_text(message) for message in messages if message.role == "system")
    turns = [message for message in messages if message.role != "system"] or [Message("user", "")]
    return (Message("system", system), *turns) if system else tuple(turns)


class _Attached(NamedTuple):
    paths: Iterator[Path]
    case: EvalCase
    files: SuiteFiles
    named: bool


def _with_files(message: Message, attached: _Attached) -> Message:
    """The message with the content of its files. Parts of other types, such as images, are not changed."""
    if not isinstance(message.content, list):
        return message
    parts = [_part(part, attached) for part in message.content]
    content: Any = [{"type": "text", "value": part} if isinstance(part, str) else part for part in parts if part]
    if all(isinstance(part, str) for part in parts):
        content = "\n\n".join(part for part in parts if part)
    return Message(message.role, content, message.name, message.tool_calls, message.timestamp, message.metadata)


def _part(part: Any, attached: _Attached) -> Any:
    if isinstance(part, dict) and part.get("type") == "file":
        path = next(attached.paths)
        if path in attached.case.guideline_files:
            return f"<Attached: {short_path(path, attached.files.root)}>"
        if attached.named:
            return f'<file path="{short_path(path, attached.files.root)}"/>'
        return _tagged(path, attached.case, attached.files)
    return part if isinstance(part, dict) and part.get("type", "text") != "text" else part_text(part)


def _tagged(path: Path, case: EvalCase, files: SuiteFiles) -> str:
    return f'<file path="{short_path(path, files.root)}">\n{case.text_of(path)}\n</file>'
