"""Connections to the judge proxy: each call has a deadline and is never sent twice."""

from __future__ import annotations

import socket
from contextlib import suppress
from os import getpid
from threading import Lock
from time import monotonic

from . import __version__
from .errors import JudgeNotAvailableError, JudgeProxyError
from .http1 import CutOffError, NoAnswerError, NotHttpError, Stream
from .wire import Access, Request, Response, info_request, parse_info

INFO_SECONDS = 5.0
"""How long the proxy may take to say whether calls are waiting."""
SHORTEST_PAUSE = 0.25
"""Pause before asking again while a call is waiting."""


class Waited:
    """How long calls of this script have waited for a slot of the judge, as far as the client knows."""

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = 0


class Deadline:
    """When a call must have been answered. Waiting for a slot of the judge does not count, so it can move."""

    def __init__(self, timeout: float, access: Access, waited: Waited) -> None:
        self._timeout, self._access, self._waited = timeout, access, waited
        self._known_ms = waited.ms
        self._checked_at = monotonic()
        self.at = self._checked_at + timeout

    def later(self) -> float:
        """The deadline, later by the time that calls have waited since the last check. Raises if none has."""
        connection = Connection(self._access)
        try:
            info = parse_info(connection.exchange(info_request(), min(INFO_SECONDS, self._timeout)))
        except JudgeProxyError as error:
            raise socket.timeout("the call timed out") from error
        finally:
            connection.close()
        now = monotonic()
        # The client may not know of earlier waits, but this call has not waited longer than since the last check.
        waited = min((info.waited_ms - self._known_ms) / 1000, now - self._checked_at)
        if waited <= 0 and not info.waiting_calls:
            raise socket.timeout("the call timed out")
        self._known_ms = self._waited.ms = info.waited_ms
        self._checked_at = now
        self.at += max(0.0, waited)
        if info.waiting_calls:
            self.at = max(self.at, now + SHORTEST_PAUSE)
        return self.at


class Connection:
    """A keep-alive connection, opened when first used. It serves one call at a time."""

    def __init__(self, access: Access, waited: Waited | None = None) -> None:
        self._access = access
        self._waited = Waited() if waited is None else waited
        self._socket: socket.socket | None = None
        self._stream: Stream | None = None
        self._aborted = False

    def exchange(self, request: Request, timeout: float) -> Response:
        """Send one request and read the complete response within `timeout` seconds.

        The time that calls of this script wait for a slot of the judge is added.
        """
        try:
            return self._exchange(request, Deadline(timeout, self._access, self._waited))
        except socket.timeout as error:
            self.close()
            raise JudgeProxyError(
                f"the judge proxy did not respond within {timeout:g} s. The call may have been counted and was "
                "not retried. For slow judges, raise the timeout: create_judge_proxy_client(timeout=...)",
                code="client_timeout",
            ) from error
        except (OSError, CutOffError, NotHttpError) as error:
            self.close()
            raise _lost(error) from error
        except BaseException:
            self.close()
            raise

    def _exchange(self, request: Request, deadline: Deadline) -> Response:
        reused = self._is_open_and_quiet()
        if not reused:
            self._open(deadline)
        try:
            return self._send_and_read(request, deadline)
        except NoAnswerError:
            # The server closed an idle connection before it read the request, so resending is safe. On a new
            # connection, or after the first byte of a response, the call may already have been made and billed.
            if not reused or self._aborted:
                raise
        self._open(deadline)
        return self._send_and_read(request, deadline)

    def _open(self, deadline: Deadline) -> None:
        self.close()
        host, port = self._access.host, self._access.port
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        stream = Stream(sock)
        stream.arm(deadline.at)
        try:
            stream.connect(host, port)
        except socket.timeout:
            sock.close()
            raise
        except OSError as error:
            sock.close()
            raise JudgeNotAvailableError(
                f"cannot connect to the judge proxy at {self._access.url}: {error.strerror or error}. It runs only "
                "while the script that agentv started is running; call it before that script ends",
                code="unreachable",
            ) from error
        self._socket, self._stream = sock, stream

    def _send_and_read(self, request: Request, deadline: Deadline) -> Response:
        stream = self._stream
        if stream is None or self._aborted:
            raise ConnectionAbortedError("the call was cancelled")
        stream.arm(deadline.at, None if request.body is None else deadline.later)
        # A server may reject a request (413, 401) and close before reading all of it; its response still counts.
        with suppress(BrokenPipeError, ConnectionResetError):
            stream.send(self._written(request))
        answer = stream.read_answer()
        if not answer.reusable:
            self.close()
        return Response(answer.status, answer.body, answer.headers.get("content-encoding"))

    def _written(self, request: Request) -> bytes:
        lines = [
            f"{request.method} {request.path} HTTP/1.1",
            f"Host: {self._access.url[len('http://') :]}",
            f"Authorization: Bearer {self._access.token}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            f"User-Agent: agentv-eval/{__version__}",
        ]
        if request.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(request.body)}"]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + (request.body or b"")

    def _is_open_and_quiet(self) -> bool:
        """Whether the connection is open and has nothing to read; otherwise it must not be reused."""
        if self._socket is None:
            return False
        try:
            self._socket.setblocking(False)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def abort(self) -> None:
        """Interrupt a call that another thread is waiting for."""
        self._aborted = True
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        sock, self._socket, self._stream = self._socket, None, None
        if sock is not None:
            sock.close()


def _lost(error: Exception) -> JudgeProxyError:
    if isinstance(error, OSError):
        what, code = "the judge proxy closed the connection before it responded", "connection_lost"
    elif isinstance(error, CutOffError):
        what, code = "the judge proxy closed the connection in the middle of its response", "connection_lost"
    else:
        what, code = "the response of the judge proxy is not valid HTTP", "invalid_reply"
    return JudgeProxyError(
        f"{what} ({str(error) or type(error).__name__}). The call may have been counted and was not retried. "
        "See the log of the agentv run",
        code=code,
    )


class Pool:
    """The idle connections of one client. Each call takes one or opens a new one."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._idle: list[Connection] = []
        self._waited = Waited()
        self._closed = False
        self._pid = getpid()

    def take(self) -> Connection:
        with self._lock:
            if self._closed:
                raise JudgeNotAvailableError(
                    "this judge client is closed; call the judge before close(), or create another client",
                    code="closed",
                )
            if self._pid != getpid():  # a forked child must not use its parent's connections
                self._pid = getpid()
                self._drop()
            return self._idle.pop() if self._idle else Connection(self._access, self._waited)

    def give_back(self, connection: Connection) -> None:
        with self._lock:
            if self._closed or not connection.is_open:
                connection.close()
            else:
                self._idle.append(connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    def _drop(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self._drop()
