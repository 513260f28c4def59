"""The judge session of a script on a node: every call is answered by the driver's session.

The token of the proxy is made here and never sent. Limits are those of the driver: what is counted here only spares
calls that it would refuse.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentv.judge.call_error import PARSE_SECONDS, JudgeCallError, TimedCalls
from agentv.judge.session import LONGEST_ERROR, TOKEN_BYTES, shutting_down
from agentv.nodes.frames import Message
from agentv.nodes.jobs import finite, strings, take
from agentv.processes.script_time import WaitingTime
from agentv.redact import MASK
from agentv.text import short_or_described
from agentv.wire.apis.api import ApiReply
from agentv.wire.judge import JudgeCall, call_object, to_json

Send = Callable[[Message], None]


class FarSession:
    """Forwards the calls of one job. Implements `ProxiedSession`."""

    def __init__(self, job: int, access: Mapping[str, Any], send: Send) -> None:
        self._job, self._send = job, send
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.max_calls: int = take(access, "max_calls", int)
        self.available = strings(access, "available")
        self.waiting = WaitingTime()
        self.calls = 0
        self.closed = False
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[tuple[Mapping[str, Any], bytes]]] = {}

    @property
    def remaining(self) -> int:
        return max(0, self.max_calls - self.calls)

    def clean(self, text: str) -> str:
        return short_or_described(text.replace(self.token, MASK), LONGEST_ERROR)

    async def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = await self._asked("info", {}, b"")
        return described

    async def answer(self, call: JudgeCall) -> dict[str, Any]:
        self.calls += 1
        reply: dict[str, Any] = await self._asked("call", {"batch": False}, to_json(call_object(call)))
        return reply

    async def answer_batch(self, calls: Sequence[JudgeCall]) -> list[dict[str, Any]]:
        self.calls += len(calls)
        body = to_json({"requests": [call_object(call) for call in calls]})
        replies: list[dict[str, Any]] = (await self._asked("call", {"batch": True}, body))["responses"]
        return replies

    async def answer_api(self, method: str, path: str, body: bytes, timed: TimedCalls) -> ApiReply:
        # Only the driver parses the body, so how many calls it makes is unknown here.
        data, content = await self._exchanged("api", {"method": method, "path": path}, body, timed)
        return ApiReply(content, take(data, "type", str))

    async def refuse(self, count: int, calls: Sequence[JudgeCall], first: int) -> JudgeCallError:
        body = to_json({"requests": [call_object(call) for call in calls]}) if calls else b""
        try:
            await self._asked("refuse", {"count": count, "first": first}, body)
        except JudgeCallError as error:
            return error
        return shutting_down()

    def end_for_overuse(self, reason: str) -> None:
        self._send(Message("overuse", {"job": self._job, "reason": self.clean(reason)}))
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._send(Message("exit", {"job": self._job}))
        for future in self._open.values():
            if not future.done():
                future.set_exception(shutting_down())

    def replied(self, message: Message) -> None:
        """The driver has answered one of the calls."""
        future = self._open.get(take(message.data, "call", int))
        if future is not None and not future.done():
            future.set_result((message.data, message.blob))

    def waits(self, waiting: bool) -> None:
        """The driver reports whether calls of this session wait for the limits of their targets."""
        if waiting != bool(self.waiting.calls):
            self.waiting.begin() if waiting else self.waiting.end()

    async def _asked(self, kind: str, data: Mapping[str, Any], body: bytes) -> Any:
        """The JSON that the driver replies."""
        return json.loads((await self._exchanged(kind, data, body))[1])

    async def _exchanged(
        self, kind: str, data: Mapping[str, Any], body: bytes, timed: TimedCalls | None = None
    ) -> tuple[Mapping[str, Any], bytes]:
        """The driver's reply to a message. Raises `JudgeCallError`. `timed` gets the time that parsing took there."""
        if self.closed:
            raise shutting_down()
        number = next(self._numbers)
        future = self._open[number] = asyncio.get_running_loop().create_future()
        self._send(Message(kind, {"job": self._job, "call": number, **data}, body))
        try:
            reply, content = await future
        except asyncio.CancelledError:
            self._send(Message("drop", {"job": self._job, "call": number}))
            raise
        finally:
            del self._open[number]
        if timed is not None:
            timed.seconds = finite(reply, "seconds", 10 * PARSE_SECONDS)
        if "status" in reply:
            parameter = reply.get("parameter")
            raise JudgeCallError(
                take(reply, "status", int),
                take(reply, "code", str),
                content.decode("utf-8"),
                parameter if isinstance(parameter, str) else None,
            )
        return reply, content
