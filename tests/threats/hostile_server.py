"""A server on 127.0.0.1 that replies with any bytes, valid HTTP or not."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class HostileServer:
    """Replies to a request for `/NAME/...` with `replies[NAME]`, then closes the connection. Runs in threads."""

    def __init__(self, replies: Mapping[str, bytes]) -> None:
        self.replies = replies
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/{name}/v1"

    def target(self, name: str, **settings: object) -> dict[str, object]:
        """The configuration of a target that gets this reply."""
        common = {"provider": "openai_compatible", "model": "m", "api_key": "${{ MODEL_KEY }}", "max_retries": 0}
        return {**common, "base_url": self.url(name), **settings}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(30)
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = head.partition(b"\r\n\r\n")[2]
            while len(body) < int(length[1] if length else 0):
                body += connection.recv(65536)
            name = head.split(b"/", 2)[1].decode()
            connection.sendall(self.replies[name])
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)


def http_reply(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A reply with these headers and a Content-Length."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
