"""A fake model: an OpenAI-compatible chat completions server on 127.0.0.1.

    async with FakeModelServer("Paris") as server:
        ...  # use server.url as base_url; see server.calls and server.requests

The reply is a string, a complete reply body, or a function of the request body that returns one of them. `Failure`
scripts a failing call. Requests for embeddings need a complete body.

`python -m agentv.testing.model_server --port 0` prints its address and serves until stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from agentv.http.app import App, HangUp, Response, Route, Stream
from agentv.http.budget import ClientLimits
from agentv.http.messages import Headers, Refused, Request
from agentv.http.server import Server

MAX_CONNECTIONS = 100_000


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing call. Without `body`, it returns an error in OpenAI's format."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    reset: bool = False
    """Close the connection; with `body`, after sending it as part of a longer reply."""
    hang: bool = False
    """Never reply."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One received call."""

    path: str
    headers: Mapping[str, str]
    body: Any


Scripted = str | Mapping[str, Any] | Failure
Script = Scripted | Callable[[Any], Scripted]


class FakeModelServer:
    """A context manager that serves chat completions on a free port."""

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
        """Used up one per call, before `reply`; None is a successful call."""
        self.calls = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.requests: list[ReceivedRequest] = []
        self._keep_requests = keep_requests
        self._server = Server(_ModelApp(self), port=port, limits=ClientLimits(MAX_CONNECTIONS, MAX_CONNECTIONS))

    @property
    def url(self) -> str:
        """The `base_url` for a target."""
        return f"{self._server.url}/v1"

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    async def handle(self, request: Request) -> Response | Stream:
        """The reply to one call."""
        if self.api_key is not None and not self._authorized(request):
            return _json(401, _error("Incorrect API key provided."))
        self.calls += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request)
        finally:
            self.in_flight -= 1

    def _authorized(self, request: Request) -> bool:
        key = request.headers.get(b"api-key") or request.headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        return hmac.compare_digest(key, (self.api_key or "").encode())

    async def _answer(self, request: Request) -> Response | Stream:
        needs_body = self._keep_requests or callable(self.reply)
        try:
            body = json.loads(request.body) if needs_body else None
        except ValueError:
            return _json(400, _error("the request body is not valid JSON"))
        if self._keep_requests:
            address = urlsplit(request.target.decode())  # clients that use a proxy send the full URL
            path = f"{address.path}{'?' if address.query else ''}{address.query}"
            self.requests.append(ReceivedRequest(path, Headers(request.headers), body))
        failure = self.failures.popleft() if self.failures else None
        if self.delay:
            await asyncio.sleep(self.delay)
        reply = failure or (self.reply(body) if callable(self.reply) else self.reply)
        if isinstance(reply, Failure):
            return await _fail(reply)
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


def _json(status: int, body: Mapping[str, Any]) -> Response:
    return Response(status, json.dumps(body).encode())


class _ModelApp(App):
    max_body = 64 * 2**20

    def __init__(self, server: FakeModelServer) -> None:
        super().__init__()
        self._server = server

    async def _complete(self, request: Request) -> Response | Stream:
        return await self._server.handle(request)

    def error(self, refused: Refused, request: Request | None) -> Response:
        del request
        return _json(refused.status, _error(refused.message))

    routes = (Route("POST", "*/chat/completions", _complete), Route("POST", "*/embeddings", _complete))


async def _fail(failure: Failure) -> Response | Stream:
    if failure.hang:
        await asyncio.Event().wait()
    if failure.reset and failure.body is None:
        raise HangUp
    headers_by_name = {"Content-Type": "application/json", **failure.headers}
    content_type = headers_by_name.pop("Content-Type")
    headers = tuple(headers_by_name.items())
    if failure.reset and failure.body is not None:
        return Stream(_send_then_close(failure.body), 200, content_type, headers, length=len(failure.body) + 1000)
    body = failure.body
    if body is None:
        body = json.dumps(_error(f"scripted failure {failure.status}")).encode()
    return Response(failure.status, body, content_type, headers)


async def _send_then_close(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
    await asyncio.sleep(0.01)  # send the data before the reset discards it
    raise HangUp


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
    parser.add_argument("--port", type=int, default=0, help="port; 0 selects a free port (default: 0)")
    parser.add_argument("--reply", default="ok", help="text of every reply (default: ok)")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="delay of every reply in milliseconds (default: 0)")
    parser.add_argument("--api-key", help="reject calls without this key")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
