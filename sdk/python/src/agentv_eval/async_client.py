"""The judge client with awaitable methods.

Each call runs in a thread and uses the same connection class as the synchronous client. A coroutine owns its connection
during the call: cancelling the coroutine shuts the connection down, which ends the thread's wait immediately.
"""

from __future__ import annotations

from asyncio import wrap_future
from concurrent.futures import ThreadPoolExecutor

from . import wire
from .client import DEFAULT_TIMEOUT, JudgeCalls, access_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import TracebackType
    from typing import Any, Concatenate, ParamSpec, TypeVar

    from .client import Exchanges

    P = ParamSpec("P")
    T = TypeVar("T")

    def awaitable(
        call: Callable[Concatenate[Any, P], T],
    ) -> Callable[Concatenate[AsyncJudgeProxyClient, P], Coroutine[Any, Any, T]]:
        """The same call as a coroutine function."""


MAX_IN_FLIGHT = 64


def create_async_judge_proxy_client(
    *, timeout: float = DEFAULT_TIMEOUT, environ: Mapping[str, str] | None = None
) -> AsyncJudgeProxyClient | None:
    """Like `create_judge_proxy_client`, but the methods of the client are awaitable."""
    access = access_of(environ)
    return None if access is None else AsyncJudgeProxyClient(access, timeout=timeout)


class AsyncJudgeProxyClient(JudgeCalls):
    """A client for the judge with the methods of `JudgeProxyClient`, as coroutines.

    Up to 64 calls run at the same time; further calls wait.
    """

    if TYPE_CHECKING:
        invoke = awaitable(JudgeCalls.invoke)  # type: ignore[assignment]
        invoke_batch = awaitable(JudgeCalls.invoke_batch)  # type: ignore[assignment]
        verdict = awaitable(JudgeCalls.verdict)
        verdicts = awaitable(JudgeCalls.verdicts)  # type: ignore[assignment]
        get_info = awaitable(JudgeCalls.get_info)  # type: ignore[assignment]

    def __init__(self, access: wire.Access, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(access, timeout=timeout)
        self._threads = ThreadPoolExecutor(MAX_IN_FLIGHT, thread_name_prefix="agentv-judge")

    async def _run(self, exchanges: Exchanges[T]) -> T:  # type: ignore[override]
        response: Any = None
        while True:
            try:
                request = exchanges.send(response)
            except StopIteration as done:
                result: T = done.value
                return result
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
        """Close idle connections and reject later calls."""
        self._pool.close()
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> AsyncJudgeProxyClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
