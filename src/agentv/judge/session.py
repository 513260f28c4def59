"""The judge access of one execution: its token, its targets and its ledger. No HTTP, except for status codes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.errors import AgentVError, BudgetExhaustedError, NotRecordedError, ProviderTimeoutError
from agentv.evidence import JudgeCallRecord
from agentv.judge.call_error import LATE, JudgeCallError, TimedCalls
from agentv.judge.call_record import asked_fields, reply_fields, request_fields, utc
from agentv.judge.ledger import DEFAULT_MAX_CALLS, JudgeLedger
from agentv.judge.recording import NOT_RECORDED, Recording
from agentv.judge.targets import JudgeTargets
from agentv.messages import Message, ToolCall
from agentv.processes.script_time import WaitingTime
from agentv.redact import MASK, NO_SECRETS, Redactor
from agentv.results import RowKey
from agentv.targets.budget import Budget
from agentv.targets.provider import CallHooks, Reply, Request
from agentv.wire.apis.registry import VENDORS
from agentv.wire.judge import JudgeCall, failed_object, reply_object, sent_object

if TYPE_CHECKING:
    from agentv.wire.apis.api import ApiReply

DEFAULT_TIMEOUT = 60.0
LONGEST_ERROR = 2_000
TOKEN_BYTES = 32
MASKED_IN_LINE = 64 * 1024
"""Longer replies are masked in a thread."""


@dataclass(slots=True, eq=False)
class _Running:
    """A call that is reserved and has not ended."""

    call: JudgeCall
    target: str
    index: int
    batch: bool
    reserved: float
    recorded: Reply | None = None
    """The reply from the record of the run. The judge is not called."""
    task: asyncio.Task[Any] | None = None
    retries: int = 0
    waited: WaitingTime = field(default_factory=WaitingTime)
    """How long the call has waited for the limits of its target, also before retries."""
    began: float | None = None
    """When the call was sent to the judge; None while it waits for a slot of its target."""
    closed: bool = False
    """The session was closed during the call, which is therefore already settled."""


class JudgeSession:
    """Calls judge targets for one execution, within its limits. Calls raise `JudgeCallError`; `close` cancels them."""

    def __init__(
        self,
        targets: JudgeTargets,
        *,
        evaluator: str,
        max_calls: int = DEFAULT_MAX_CALLS,
        timeout: float | None = DEFAULT_TIMEOUT,
        eval_id: str = "",
        attempt: int = 1,
        suite: str = "",
        case_target: str = "",
        directory: Path | None = None,
        redactor: Redactor = NO_SECRETS,
        recording: Recording = NOT_RECORDED,
        budget: Budget | None = None,
        for_script: bool = True,
        vendors: tuple[str, ...] = tuple(VENDORS),
    ) -> None:
        self.evaluator = evaluator
        self.vendors = vendors
        """The vendors whose client libraries find the proxy by their variables."""
        self._for_script = for_script
        self.targets = targets
        self.ledger = JudgeLedger(max_calls, target=targets.default)
        if targets.embeddings is not None:
            self.ledger.embeddings = JudgeLedger(max_calls, target=targets.embeddings)
        self._timeout = timeout
        self._directory = directory
        self._redactor = redactor
        self._key = RowKey(suite, eval_id, case_target, attempt)
        self._recording = recording
        self._budget = budget
        self.out_of_budget: BudgetExhaustedError | None = None
        """Set when the budget of the run did not allow a call. The case then counts as not run."""
        self.not_recorded: str | None = None
        """In a replayed run, why a call is not in the record. The evaluator then fails, whatever its script prints."""
        self.overuse: str | None = None
        """What the script exceeded at its proxy. If set, the evaluator fails, whatever the script prints."""
        self._running: set[_Running] = set()
        self._not_begun = 0
        self.waiting = WaitingTime()
        """How long the calls of this session have waited for the limits of their targets."""
        self.try_number = 1
        """Which attempt to run the script this is: nodes of earlier ones were lost."""
        self.limit_setting = "`max_calls` under `judge` of this evaluator in the suite"
        """The setting that raises the limit, for the message of a refused call."""
        self.on_refused: Callable[[JudgeCallError], None] | None = None
        """Called for every refused call: over the limit, or for a target that is not allowed."""

    def __repr__(self) -> str:
        return f"JudgeSession({self.evaluator!r}, {self.ledger.call_count} of {self.ledger.max_calls} calls)"

    @cached_property
    def token(self) -> str:
        """The bearer token of the proxy. It is created on first use: evaluators inside agentv need none."""
        return secrets.token_urlsafe(TOKEN_BYTES)

    @property
    def records_io(self) -> bool:
        """Whether the prompts and replies of this session are recorded."""
        return self._recording.on_call is not None and self._recording.io

    @property
    def closed(self) -> bool:
        return self.ledger.closed

    @property
    def max_calls(self) -> int:
        return self.ledger.max_calls

    @property
    def remaining(self) -> int:
        return self.ledger.remaining

    @property
    def available(self) -> list[str]:
        return self.targets.available

    def clean(self, text: str) -> str:
        """Text that may be sent to a script: shortened, with secret values and the token masked."""
        if "token" in self.__dict__:
            text = text.replace(self.token, MASK)
        return self._redactor.head(text, LONGEST_ERROR)

    def info(self) -> dict[str, Any]:
        """The reply to `GET /info`. It does not count as a call."""
        self._refuse_when_closed()
        return {
            "targetName": self.targets.default,
            "maxCalls": self.ledger.max_calls,
            "callCount": self.ledger.call_count,
            "remainingCalls": self.ledger.remaining,
            "availableTargets": self.targets.available,
            "providerLabel": self.targets.default,
            "availableProviderLabels": self.targets.available,
            "evaluator": self.clean(self.evaluator),
            "waitingCalls": self.waiting.calls,
            "waitedMs": round(self.waiting.seconds * 1000),
        }

    async def describe(self) -> dict[str, Any]:
        """`info`, as the proxy asks for it."""
        return self.info()

    async def answer(self, call: JudgeCall) -> dict[str, Any]:
        """The reply to one call as JSON, with secret values masked."""
        return await self._rendered(await self.invoke(call))

    async def answer_batch(self, calls: Sequence[JudgeCall]) -> list[dict[str, Any]]:
        """The replies to a batch as JSON, with secret values masked."""
        return [await self._rendered(reply) for reply in await self.invoke_batch(calls)]

    async def answer_api(self, method: str, path: str, body: bytes, timed: TimedCalls) -> ApiReply:
        """The reply to a request to the API of a vendor. Raises `JudgeCallError`."""
        from agentv.judge.apis import answer  # noqa: PLC0415 - most scripts use no API of a vendor

        return await answer(self, method, path, body, timed)

    async def refuse(self, count: int, calls: Sequence[JudgeCall], first: int) -> JudgeCallError:
        """`refuse_batch`, as the proxy asks for it."""
        return self.refuse_batch(count, calls, first)

    async def masked(self, text: str) -> str:
        """The text with secret values masked."""
        if not self._redactor.active:
            return text
        return (
            self._redactor.text(text)
            if len(text) <= MASKED_IN_LINE
            else await asyncio.to_thread(self._redactor.text, text)
        )

    def masked_object(self, value: Any) -> Any:
        """The JSON value with secret values masked. It takes long for large values."""
        return self._redactor.value(value) if value and self._redactor.active else value

    async def _rendered(self, reply: Reply | JudgeCallError) -> dict[str, Any]:
        if isinstance(reply, JudgeCallError):
            return sent_object(failed_object(reply.message, reply.code))
        content = reply_object(reply.output_messages, reply.token_usage)
        if not self._redactor.active:
            return sent_object(content)
        if len(reply.text) <= MASKED_IN_LINE:
            rendered: dict[str, Any] = self._redactor.value(content)
        else:  # a megabyte of escapes takes 300 ms; masking works in short steps, so the event loop keeps running
            rendered = await asyncio.to_thread(self._redactor.value, content)
        return sent_object(rendered)

    async def invoke(self, call: JudgeCall) -> Reply:
        """Call the judge once. Secret values in the reply are not masked."""
        self._refuse_when_closed()
        chosen = [(call, self._choose(call, ""))]
        (running,) = self._reserve(chosen, await self._recorded(chosen), batch=False)
        return await self._ask(running)

    async def ask(self, call: JudgeCall) -> Reply:
        """Like `invoke`, for evaluators inside agentv: an exhausted budget is raised as `BudgetExhaustedError`."""
        try:
            return await self.invoke(call)
        except JudgeCallError:
            if self.out_of_budget is not None:
                raise self.out_of_budget from None
            raise

    async def invoke_batch(self, calls: Sequence[JudgeCall]) -> list[Reply | JudgeCallError]:
        """Make all calls concurrently, or none if one of them is refused.

        Returns a reply or, for a call that failed at the judge, an error, in the order of the calls.
        """
        self._refuse_when_closed()
        chosen = [(call, self._choose(call, f"requests[{index}]: ")) for index, call in enumerate(calls)]
        running = self._reserve(chosen, await self._recorded(chosen), batch=True)
        return await asyncio.gather(*(self._ask_item(one) for one in running))

    async def invoke_all(self, calls: Sequence[JudgeCall]) -> list[Reply]:
        """Make all calls concurrently, or none if one of them is refused. Raises the error of one that fails."""
        self._refuse_when_closed()
        chosen = [(call, self._choose(call, "")) for call in calls]
        running = self._reserve(chosen, await self._recorded(chosen), batch=False)
        if len(running) == 1:
            return [await self._ask(running[0])]
        outcomes = await asyncio.gather(*(self._ask_item(one) for one in running))
        for outcome in outcomes:
            if isinstance(outcome, JudgeCallError):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Reply)]

    def close(self) -> None:
        """Refuse further calls and cancel those in flight, which count as failed. Does not wait for them to end."""
        if self.closed:
            return
        for running in list(self._running):
            running.closed = True
            self._settle(running, "cancelled", code="shutting_down")
            if running.task is not None:
                running.task.cancel()
        self.ledger.close()

    def end_for_overuse(self, reason: str) -> None:
        """Close, because the script exceeded what it may use of its proxy."""
        self.overuse = self.clean(reason)
        self.close()

    def refuse_batch(self, count: int, calls: Sequence[JudgeCall], first: int) -> JudgeCallError:
        """The refusal of a batch over the limit, or of one of its calls with a target that is not available."""
        self._refuse_when_closed()
        for index, call in enumerate(calls, first):
            self._choose(call, f"requests[{index}]: ")
        self.ledger.refuse(count)
        return self._refused(429, "max_calls_exceeded", self._over_the_limit(count, self.ledger))

    def give_back(self) -> None:
        """Close, and return calls that were never sent to the budget, because the case counts as not run."""
        self.close()
        if self._budget is not None:
            self._budget.give_back_judge_calls(self._not_begun)
        self._not_begun = 0

    def _refuse_when_closed(self) -> None:
        if self.closed:
            raise shutting_down()

    def _choose(self, call: JudgeCall, where: str) -> str:
        name = self.targets.default if call.target is None else call.target
        problem = self.targets.problem(name, embeds=call.asked is not None and call.asked.embeddings)
        if problem is None:
            return name
        available = ", ".join(self.targets.available)
        raise self._refused(400, "unknown_target", f"{where}{problem}; available: {available}")

    async def _recorded(self, chosen: Sequence[tuple[JudgeCall, str]]) -> list[Reply | None]:
        """The replies to these calls in the record of the run, for a row that is judged again after an interruption."""
        replies = self._recording.replies
        if (
            replies is None
            or len(chosen) > self._ledger_of(chosen[0][0]).remaining
            or not replies.knows(self._key, self.evaluator)
        ):
            return [None] * len(chosen)
        recorded = [await replies.find(self._key, self.evaluator, name, self._request(call)) for call, name in chosen]
        self._refuse_when_closed()
        return recorded

    def _reserve(
        self, chosen: Sequence[tuple[JudgeCall, str]], recorded: Sequence[Reply | None], *, batch: bool
    ) -> list[_Running]:
        ledger = self._ledger_of(chosen[0][0])
        before = ledger.call_count
        if self._budget is not None and len(chosen) <= ledger.remaining:
            # The budget has counted recorded calls already, when the run was resumed.
            self._take_from_budget(self._budget, sum(reply is None for reply in recorded))
        if not ledger.reserve([name for _, name in chosen], batch=batch):
            raise self._refused(429, "max_calls_exceeded", self._over_the_limit(len(chosen), ledger))
        now = time.perf_counter()
        reserved = [
            _Running(call, name, before + position, batch, now, reply)
            for position, ((call, name), reply) in enumerate(zip(chosen, recorded, strict=True), 1)
        ]
        self._running.update(reserved)
        for call, name in chosen:
            if call.asked is not None:
                ledger.note_model(self.clean(call.asked.model), name)
        return reserved

    def _take_from_budget(self, budget: Budget, calls: int) -> None:
        try:
            budget.take_judge_calls(calls)
        except BudgetExhaustedError as error:
            self.out_of_budget = error
            raise self._refused(429, "max_calls_exceeded", f"{error.message}; no call was made") from None

    def _refused(self, status: int, code: str, message: str) -> JudgeCallError:
        error = JudgeCallError(status, code, self.clean(message))
        if self.on_refused is not None:
            self.on_refused(error)
        return error

    def _ledger_of(self, call: JudgeCall) -> JudgeLedger:
        embeddings = self.ledger.embeddings
        return self.ledger if embeddings is None or call.asked is None or not call.asked.embeddings else embeddings

    def _over_the_limit(self, calls: int, ledger: JudgeLedger) -> str:
        subject = "this call" if calls == 1 else f"this batch of {calls} calls"
        return (
            f"{subject} would exceed the judge call limit of {ledger.max_calls} for evaluator '{self.evaluator}' "
            f"({ledger.call_count} made); no call was made, and the evaluator fails. Make fewer calls, or raise "
            f"{self.limit_setting}."
        )

    async def _ask_item(self, running: _Running) -> Reply | JudgeCallError:
        try:
            return await self._ask(running)
        except JudgeCallError as error:
            return error

    async def _ask(self, running: _Running) -> Reply:
        """Make one reserved call and settle it in the ledger."""
        task = running.task = asyncio.current_task()
        self._refuse_when_closed()
        if running.recorded is not None:
            self._settle(running, "ok", reply=running.recorded)
            return running.recorded
        try:
            reply = await self._invoke_in_time(running)
        except asyncio.CancelledError:
            if running.closed:
                if task is not None:
                    task.uncancel()
                raise shutting_down() from None
            if task is not None and task.cancelling():
                self._settle(running, "cancelled", code="cancelled")
                raise
            raise self._failed(running, "failed", "its provider cancelled the call") from None
        except (Exception, SystemExit) as error:
            if running.closed:
                raise shutting_down() from None
            if isinstance(error, ProviderTimeoutError):
                raise self._failed(running, "timeout", str(error)) from None
            if isinstance(error, BudgetExhaustedError):
                self.out_of_budget = error
            known = isinstance(error, AgentVError)
            reason = str(error) if known else f"its provider crashed: {type(error).__name__}: {error}"
            raise self._failed(running, "failed", reason, missing=isinstance(error, NotRecordedError)) from None
        if self.closed:
            raise shutting_down()
        written = self._settle(running, "ok", reply=reply)
        if written is not None:  # a reply that its caller has seen is on disk, whatever kills the run
            with suppress(Exception):  # the recorder reports its own errors
                await written
        return reply

    async def _invoke_in_time(self, running: _Running) -> Reply:
        request = self._request(running.call)
        provider = self.targets.live[running.target]

        def count(_: object) -> None:
            running.retries += 1

        def begin() -> None:
            running.began = time.perf_counter()
            # Waiting for a free slot of the target does not count against the deadline.
            if self._timeout is not None:
                deadline.reschedule(asyncio.get_running_loop().time() + self._timeout)

        def wait(waiting: bool) -> None:
            if waiting != bool(running.waited.calls):
                for clock in (running.waited, self.waiting):
                    clock.begin() if waiting else clock.end()

        try:
            async with asyncio.timeout(None) as deadline:
                reply = await provider.call(request, CallHooks(on_start=begin, on_retry=count, on_wait=wait))
        except TimeoutError:
            if deadline.expired():
                raise ProviderTimeoutError(
                    f"{LATE.format(self._timeout)}; ask for less in one call, or raise `timeout_seconds` under `judge` "
                    "of this evaluator"
                ) from None
            raise
        finally:
            wait(False)
        if not isinstance(reply, Reply):
            raise TypeError(f"it must return a Reply, got {type(reply).__name__}")
        for message in reply.output_messages:
            if not isinstance(message, Message) or not all(isinstance(call, ToolCall) for call in message.tool_calls):
                raise TypeError("the messages of its Reply must be Message objects with ToolCall objects")
        return reply

    def _request(self, call: JudgeCall) -> Request:
        asked = call.asked
        return Request(
            messages=call.messages,
            options=call.options,
            evaluator=self.evaluator,
            from_script=self._for_script,
            embeddings=asked is not None and asked.embeddings,
            best_effort=asked is not None,
            choice=0 if asked is None else asked.choice,
            eval_id=self._key.eval_id if call.eval_case_id is None else call.eval_case_id,
            attempt=self._key.attempt if call.attempt is None else call.attempt,
            directory=self._directory,
        )

    def honours(self, option: str) -> bool:
        """Whether the default judge target supports this generation option."""
        return option in self.targets.live[self.targets.default].honours

    def forget(self, call: JudgeCall) -> None:
        """Remove the reply to this call from the cache, because it could not be used."""
        target = self.targets.default if call.target is None else call.target
        self.targets.live[target].forget(self._request(call))

    def _failed(self, running: _Running, status: str, reason: str, *, missing: bool = False) -> JudgeCallError:
        http, code = (504, "judge_timeout") if status == "timeout" else (502, "judge_failed")
        if missing and self.not_recorded is None:
            self.not_recorded = self.clean(reason)
        text = self.clean(f"{failed_prefix(running.target)}{reason}")
        self._settle(running, status, code=code, error=text)
        return JudgeCallError(http, code, text)

    def _settle(
        self,
        running: _Running,
        status: str,
        *,
        code: str | None = None,
        error: str | None = None,
        reply: Reply | None = None,
    ) -> asyncio.Future[Any] | None:
        """Count how a call ended, and record it. The future is done when the record is written."""
        if running not in self._running:
            return None
        ended = time.perf_counter()
        self._running.discard(running)
        self._not_begun += status == "cancelled" and running.began is None
        retries = max(running.retries, reply.retries if reply else 0)
        usage, cost = (reply.token_usage, reply.cost_usd) if reply else (None, None)
        self._ledger_of(running.call).settle(
            failed=reply is None,
            retries=retries,
            cache_hit=reply is not None and reply.cache_hit,
            from_record=running.recorded is not None or (self.targets.replayed and reply is not None),
            token_usage=usage,
            cost_usd=cost,
        )
        if self._recording.on_call is None or running.recorded is not None:
            return None
        call, key = running.call, self._key
        execution = self._recording.execution(key)
        began = running.reserved if running.began is None else running.began
        waited = running.waited.seconds
        io: dict[str, Any] = {} if call.asked is None else asked_fields(call.asked, reply)
        if self._recording.io:
            io |= {**request_fields(call), "reply": None if reply is None else reply_fields(reply), "error": error}
        record = JudgeCallRecord(
            *key,
            evaluator=self.evaluator,
            index=running.index,
            target=running.target,
            status=status,
            execution=None if execution == 1 else execution,
            try_=None if self.try_number == 1 else self.try_number,
            code=code,
            eval_case_id=key.eval_id if call.eval_case_id is None else call.eval_case_id,
            attempt=key.attempt if call.attempt is None else call.attempt,
            batch=running.batch,
            retries=retries,
            cache_hit=reply is not None and reply.cache_hit,
            token_usage=usage,
            cost_usd=cost,
            started_at=utc(time.time() - (ended - began)),
            waited_ms=round(waited * 1000, 3),
            duration_ms=round(max(0.0, ended - running.reserved - waited) * 1000, 3),
            model=None if reply is None else reply.model,
            finish_reason=None if reply is None else reply.finish_reason,
            replayed=self.targets.replayed,
            **io,
        )
        return self._recording.on_call(record)


def failed_prefix(target: str) -> str:
    """How the error of a failed call begins, for scripts and in the record."""
    return f"judge target '{target}' failed (the call still counts): "


def shutting_down() -> JudgeCallError:
    message = "this execution has ended; make judge calls only while the script is running"
    return JudgeCallError(503, "shutting_down", message)
