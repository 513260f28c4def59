"""A fake model: an OpenAI-compatible chat completions server on 127.0.0.1.

    async with FakeModelServer("Paris") as server:
        ...  # base_url is server.url; server.calls and server.requests say what was asked

Replies are a text, a whole reply body, or a function of the request body that gives one; failures are
scripted with `Failure`. `python -m agentv.testing.model_server --port 0` serves until stopped and prints
its address.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import signal
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that goes wrong. Without `body` it is the kind of error OpenAI sends."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    reset: bool = False
    """Break the connection off; with `body`, after sending that much of a longer reply."""
    hang: bool = False
    """Never answer."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One call as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any


Scripted = str | Mapping[str, Any] | Failure
Script = Scripted | Callable[[Any], Scripted]


class FakeModelServer:
    """Answers chat completions on a free port while it is entered."""

    def __init__(
        self,
        reply: Script = "ok",
        *,
        api_key: str | None = None,
        delay: float = 0.0,
        failures: Iterable[Failure | None] = (),
        keep_requests: bool = True,
        port: int = 0,
    ) -> None:
        self.reply = reply
        self.api_key = api_key
        self.delay = delay
        self.failures: deque[Failure | None] = deque(failures)
        """Taken one per call before `reply` is asked; None stands for a call that goes well."""
        self.calls = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.requests: list[ReceivedRequest] = []
        self._keep_requests = keep_requests
        self._port = port
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """What a target sets as `base_url`."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        self._server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._server, "127.0.0.1", self._port, backlog=4096)
        self._port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None and self._server is not None:
            self._listener.close()
            self._server.pre_shutdown()
            await self._server.shutdown(0.1)
            self._listener = self._server = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST" or not request.path.endswith("/chat/completions"):
            return _json(404, _error("no such path; this server answers POST .../chat/completions"))
        if self.api_key is not None and not self._authorized(request):
            return _json(401, _error("Incorrect API key provided."))
        data = await request.read()
        self.calls += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request, data)
        finally:
            self.in_flight -= 1

    def _authorized(self, request: web.BaseRequest) -> bool:
        given = request.headers.get("api-key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), (self.api_key or "").encode())

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        needs_body = self._keep_requests or callable(self.reply)
        try:
            body = json.loads(data) if needs_body else None
        except ValueError:
            return _json(400, _error("the body is not JSON"))
        if self._keep_requests:
            self.requests.append(ReceivedRequest(request.path_qs, dict(request.headers), body))
        failure = self.failures.popleft() if self.failures else None
        if self.delay:
            await asyncio.sleep(self.delay)
        reply = failure or (self.reply(body) if callable(self.reply) else self.reply)
        if isinstance(reply, Failure):
            return await _fail(request, reply)
        return _json(200, completion(reply) if isinstance(reply, str) else reply)


def completion(text: str | None, *, tool_calls: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A reply body with this text; `tool_calls` as `{id, name, arguments}`."""
    calls = [
        {"id": call.get("id"), "type": "function", "function": {k: call[k] for k in ("name", "arguments")}}
        for call in tool_calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "model": "fake",
        "choices": [
            {
                "index": 0,
                "message": {**message, "tool_calls": calls} if calls else message,
                "finish_reason": "tool_calls" if calls else "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": len((text or "").split()), "total_tokens": 10},
    }


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "fake_error"}}


def _json(status: int, body: Mapping[str, Any]) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")


async def _fail(request: web.BaseRequest, failure: Failure) -> web.StreamResponse:
    if failure.hang:
        await asyncio.Event().wait()
    if failure.reset:
        return await _break_off(request, failure)
    body = failure.body
    if body is None:
        body = json.dumps(_error(f"scripted failure {failure.status}")).encode()
    headers = {"Content-Type": "application/json", **failure.headers}
    return web.Response(status=failure.status, headers=headers, body=body)


async def _break_off(request: web.BaseRequest, failure: Failure) -> web.StreamResponse:
    response = web.StreamResponse(status=200, headers=dict(failure.headers))
    if failure.body is not None:
        response.content_length = len(failure.body) + 1000
        await response.prepare(request)
        await response.write(failure.body)
        await asyncio.sleep(0.01)  # let it leave before the reset overtakes it
    if request.transport is not None:
        request.transport.abort()
    return response


async def _serve(options: argparse.Namespace) -> None:
    server = FakeModelServer(
        options.reply,
        api_key=options.api_key,
        delay=options.delay_ms / 1000,
        keep_requests=False,
        port=options.port,
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    async with server:
        print(server.url, flush=True)
        await stopped.wait()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m agentv.testing.model_server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--reply", default="ok", help="the text of every answer")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="how long every answer takes")
    parser.add_argument("--api-key", help="refuse calls without this key")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
