"""The judge client with awaitable methods.

A call runs in a thread over the same connection class as the synchronous client, so HTTP framing, the
deadline and the rule about never sending twice exist once. A coroutine owns its connection until it gives it
back: cancelling it shuts that connection down, which ends the thread's wait at once.
"""

from __future__ import annotations

from asyncio import wrap_future
from concurrent.futures import ThreadPoolExecutor

from . import wire
from .client import DEFAULT_TIMEOUT, access_of, checked_timeout
from .connection import Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from .values import JudgeInfo, JudgeReply
    from .verdicts import Asking

MAX_IN_FLIGHT = 64


def create_async_judge_proxy_client(
    *, timeout: float = DEFAULT_TIMEOUT, environ: Mapping[str, str] | None = None
) -> AsyncJudgeProxyClient | None:
    """Like `create_judge_proxy_client`, for coroutines."""
    access = access_of(environ)
    return None if access is None else AsyncJudgeProxyClient(access, timeout=timeout)


class AsyncJudgeProxyClient:
    """Asks the judge from coroutines, up to 64 calls at once; more wait their turn."""

    def __init__(self, access: wire.Access, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._timeout = checked_timeout(timeout)
        self._pool = Pool(access)
        self._url = access.url
        self._threads = ThreadPoolExecutor(MAX_IN_FLIGHT, thread_name_prefix="agentv-judge")

    async def invoke(
        self,
        *,
        question: str,
        system_prompt: str | None = None,
        target: str | None = None,
        eval_case_id: str | None = None,
        attempt: int | None = None,
    ) -> JudgeReply:
        """One question, one reply; `target` chooses another judge than the default."""
        fields = {
            "question": question,
            "system_prompt": system_prompt,
            "target": target,
            "eval_case_id": eval_case_id,
            "attempt": attempt,
        }
        return wire.parse_reply(await self._send(wire.invoke_request(fields)))

    async def invoke_batch(self, requests: Iterable[Mapping[str, Any]]) -> list[JudgeReply]:
        """Many questions at once, replies in their order; an item that failed has `error` set."""
        request, expected = wire.batch_request(requests)
        return wire.parse_batch(await self._send(request), expected)

    async def verdict(
        self,
        *,
        question: str | None = None,
        criteria: str | None = None,
        material: str | Mapping[str, str] | None = None,
        choices: Sequence[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        target: str | None = None,
        attempts: int = 3,
    ) -> Any:
        """An answer that is one of `choices`, or JSON that fits `schema`; anything else is asked for again."""
        from .verdicts import Form, ask_one  # a judge without verdicts does not load it

        fields = {
            "question": question,
            "criteria": criteria,
            "material": material,
            "system_prompt": system_prompt,
            "target": target,
        }
        return await self._follow(ask_one(fields, Form(choices, schema), attempts))

    async def verdicts(
        self,
        questions: Iterable[str | Mapping[str, Any]],
        *,
        choices: Sequence[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        target: str | None = None,
        attempts: int = 3,
    ) -> list[Any]:
        """Many verdicts at once, in the order of the questions; only those that are missing are asked for again."""
        from .verdicts import Form, ask_many  # as above

        common = {"system_prompt": system_prompt, "target": target}
        found: list[Any] = await self._follow(ask_many(questions, common, Form(choices, schema), attempts))
        return found

    async def get_info(self) -> JudgeInfo:
        """Who judges and how many calls are left. Costs no call."""
        return wire.parse_info(await self._send(wire.info_request()))

    async def _follow(self, asking: Asking) -> Any:
        response: Any = None
        while True:
            try:
                request = asking.send(response)
            except StopIteration as done:
                return done.value
            response = await self._send(request)

    async def _send(self, request: wire.Request) -> wire.Response:
        connection = self._pool.take()
        call = self._threads.submit(connection.exchange, request, self._timeout)
        try:
            response = await wrap_future(call)
        except BaseException:
            call.cancel()
            connection.abort()
            call.add_done_callback(lambda _: connection.close())
            raise
        self._pool.give_back(connection)
        return response

    async def close(self) -> None:
        """Close the idle connections; later calls are refused."""
        self._pool.close()
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> AsyncJudgeProxyClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncJudgeProxyClient({self._url!r}, timeout={self._timeout:g})"
