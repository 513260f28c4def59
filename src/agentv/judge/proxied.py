"""What a judge proxy needs of the session behind it, which is in this process or, on a node, at the driver."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from agentv import workers
from agentv.json_sizes import is_quick
from agentv.judge.call_error import PARSE_SECONDS, JudgeCallError, TimedCalls
from agentv.processes.script_time import WaitingTime
from agentv.wire.apis.api import ApiReply
from agentv.wire.judge import (
    InvalidRequestError,
    JudgeCall,
    ParsedBody,
    parse_batch,
    parse_in_worker,
    parse_invoke,
)


class ProxiedSession(Protocol):
    """The judge access of one execution. Replies are JSON objects with secret values masked."""

    waiting: WaitingTime
    """How long the calls have waited for the limits of their targets."""

    @property
    def token(self) -> str:
        """What a client must send to the proxy."""

    @property
    def max_calls(self) -> int: ...

    @property
    def remaining(self) -> int:
        """How many calls are left."""

    @property
    def available(self) -> Collection[str]:
        """The judge targets that calls may name."""

    def clean(self, text: str) -> str:
        """Text that may be sent to a script: shortened, with secret values and the token masked."""

    async def describe(self) -> dict[str, Any]:
        """The reply to `GET /info`."""

    async def answer(self, call: JudgeCall) -> dict[str, Any]:
        """The reply to one call. Raises `JudgeCallError` if there is none."""

    async def answer_batch(self, calls: Sequence[JudgeCall]) -> list[dict[str, Any]]:
        """The replies to a batch, or their errors. Raises `JudgeCallError` if the batch is refused."""

    async def answer_api(self, method: str, path: str, body: bytes, timed: TimedCalls) -> ApiReply:
        """The reply to a request to the API of a vendor. Raises `JudgeCallError`."""

    async def refuse(self, count: int, calls: Sequence[JudgeCall], first: int) -> JudgeCallError:
        """The refusal of a batch of `count` calls over the limit, or of one of its calls, `calls`, which begin at
        `first`."""

    def end_for_overuse(self, reason: str) -> None:
        """Close, because the script exceeded what it may use of its proxy."""

    def close(self) -> None:
        """Refuse further calls and cancel those in flight."""


async def read_calls(session: ProxiedSession, body: bytes, *, batch: bool, timed: TimedCalls) -> tuple[JudgeCall, ...]:
    """The calls in a body, which is parsed in another process if that may take long.

    Raises `InvalidRequestError`, `WorkerError` if parsing takes too much time or memory, and `JudgeCallError` for a
    batch that is too large.
    """
    if is_quick(body):
        started = asyncio.get_running_loop().time()
        try:
            return parse_batch(body) if batch else (parse_invoke(body),)
        finally:
            timed.seconds = asyncio.get_running_loop().time() - started
    remaining = session.remaining
    timed.seconds = PARSE_SECONDS
    available = frozenset(session.available)
    parsed: ParsedBody = await workers.call(parse_in_worker, body, batch, remaining, available, seconds=PARSE_SECONDS)
    timed.seconds = parsed.seconds
    if parsed.problem is not None:
        raise InvalidRequestError(parsed.problem)
    if batch and parsed.count > remaining:
        raise await session.refuse(parsed.count, parsed.calls, parsed.first)
    return parsed.calls
