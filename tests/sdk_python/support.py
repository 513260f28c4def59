"""A scripted loopback server, both clients behind one function, and judges as real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from agentv_eval import create_async_judge_proxy_client, create_judge_proxy_client

ROOT = Path(__file__).parents[2]
SDK = ROOT / "sdk" / "python"
TOKEN = "t0ken-for-tests_123"


def vectors(name: str) -> Any:
    return json.loads((ROOT / "conformance" / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int


@dataclass(frozen=True)
class Answer:
    """What to write, and what to do then: keep, close or reset the connection, or wait until the client closes it."""

    data: bytes = b""
    then: str = "keep"


def http_answer(status: int, body: Any, headers: Mapping[str, str | None] | None = None) -> bytes:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    sent = {"Content-Length": str(len(data)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value is not None)
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + data


def reply(text: str = "yes") -> Answer:
    return Answer(http_answer(200, {"outputMessages": [{"role": "assistant", "content": text}], "rawText": text}))


class Server:
    """Responds to every request with the result of `answer`, and records the requests."""

    def __init__(self, answer: Callable[[Seen], Answer]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.seen: list[Seen] = []
        self.connections = 0
        self.closed = threading.Semaphore(0)

    @property
    def environ(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.port}"
        return {"AGENTV_JUDGE_PROXY_URL": url, "AGENTV_JUDGE_PROXY_TOKEN": TOKEN}

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(10)
        self._listener.close()

    def _start(self, run: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self.connections += 1
            self._start(self._serve, connection, self.connections)

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while (request := _read_request(stream, number)) is not None:
                    self.seen.append(request)
                    answer = self._answer(request)
                    connection.sendall(answer.data)
                    if answer.then == "silence":
                        stream.read(1)
                    if answer.then == "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        break
                    if answer.then != "keep":
                        connection.shutdown(socket.SHUT_RDWR)
                        break
            except OSError:
                pass
        self.closed.release()


def _read_request(stream: Any, number: int) -> Seen | None:
    line = stream.readline()
    if not line:
        return None
    method, path, _ = line.decode().split(" ")
    headers: dict[str, str] = {}
    while (header := stream.readline()) not in (b"\r\n", b""):
        name, _, value = header.decode().partition(":")
        headers[name.lower()] = value.strip()
    return Seen(method, path, headers, stream.read(int(headers.get("content-length", 0))), number)


def snake(name: str) -> str:
    return re.sub("([A-Z])", lambda match: "_" + match[1].lower(), name)


def ask(kind: str, environ: Mapping[str, str], call: str, arguments: Mapping[str, Any], timeout: float = 20) -> Any:
    """One call of the synchronous or asynchronous client. Argument names are those of the HTTP API."""
    method = snake(call)
    keywords: dict[str, Any] = {snake(name): value for name, value in arguments.items()}
    positional = []
    if call == "invokeBatch":
        items = keywords.pop("requests")
        if isinstance(items, list):
            items = [
                {snake(name): value for name, value in item.items()} if isinstance(item, dict) else item
                for item in items
            ]
        positional = [items]
    if kind == "sync":
        client = create_judge_proxy_client(timeout=timeout, environ=environ)
        assert client is not None
        with client:
            return getattr(client, method)(*positional, **keywords)

    async def main() -> Any:
        judge = create_async_judge_proxy_client(timeout=timeout, environ=environ)
        assert judge is not None
        async with judge:
            return await getattr(judge, method)(*positional, **keywords)

    return asyncio.run(main())


@dataclass(frozen=True)
class Finished:
    """A judge script that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def result(self) -> Any:
        assert self.code == 0, self.stderr
        return json.loads(self.stdout)

    @property
    def last_line(self) -> str:
        return self.stderr.rstrip("\n").rpartition("\n")[2]


def clean_environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTV_", "COV_"))}
    return {**kept, **extra}


def run_judge(
    script: Path | str, stdin: str | bytes = "{}", *arguments: str, environ: Mapping[str, str] | None = None
) -> Finished:
    """Run a judge file, or source text, in its own process."""
    argv = [sys.executable, str(script)] if isinstance(script, Path) else [sys.executable, "-c", script]
    done = subprocess.run(
        [*argv, *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env=clean_environment(**(environ or {})),
        timeout=60,
        check=False,
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())
