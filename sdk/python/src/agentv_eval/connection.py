"""One connection to the judge proxy, with a deadline per call and a strict rule about sending twice."""

from __future__ import annotations

import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, RemoteDisconnected
from os import getpid
from threading import Lock
from time import monotonic

from . import __version__
from .errors import JudgeNotAvailableError, JudgeProxyError
from .wire import Access, Request, Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_REPLY_BYTES = 256 * 1024 * 1024


class _Socket(socket.socket):
    """A socket whose whole call has one deadline: a server that drips bytes cannot stretch it."""

    deadline = 0.0
    received = 0

    def arm(self, deadline: float) -> None:
        self.deadline = deadline
        self.received = 0

    def _settle(self) -> None:
        left = self.deadline - monotonic()
        if left <= 0:
            raise socket.timeout("the deadline of the call has passed")
        self.settimeout(left)

    def connect(self, address: Any) -> None:
        self._settle()
        super().connect(address)

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._settle()
        super().sendall(data, flags)

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self._settle()
        count = super().recv_into(*args, **kwargs)
        self.received += count
        if self.received > MAX_REPLY_BYTES:
            raise HTTPException(f"it is longer than {MAX_REPLY_BYTES} bytes")
        return count


class Connection:
    """A keep-alive connection; opened when first used. Belongs to one call at a time."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._http: HTTPConnection | None = None
        self._socket: _Socket | None = None
        self._aborted = False

    def exchange(self, request: Request, timeout: float) -> Response:
        """Send one request and read the whole answer, within `timeout` seconds."""
        try:
            return self._exchange(request, monotonic() + timeout)
        except socket.timeout as error:
            self.close()
            raise JudgeProxyError(
                f"no complete answer of the judge proxy within {timeout:g} s. The call may have been "
                "counted and was not sent again; give slow judges more time with "
                "create_judge_proxy_client(timeout=...)",
                code="client_timeout",
            ) from error
        except (OSError, HTTPException) as error:
            self.close()
            raise _lost(error) from error
        except BaseException:
            self.close()
            raise

    def _exchange(self, request: Request, deadline: float) -> Response:
        reused = self._is_open_and_quiet()
        if not reused:
            self._open(deadline)
        try:
            return self._send_and_read(request, deadline)
        except RemoteDisconnected:
            # The server closed an idle connection while the request was on its way. On a new connection, or
            # after one byte of an answer, the call may have been made and paid for: never sent twice then.
            if not reused or self._received() or self._aborted:
                raise
        self._open(deadline)
        return self._send_and_read(request, deadline)

    def _open(self, deadline: float) -> None:
        self.close()
        host, port = self._access.host, self._access.port
        sock = _Socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        sock.arm(deadline)
        try:
            sock.connect((host, port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except socket.timeout:
            sock.close()
            raise
        except OSError as error:
            sock.close()
            raise JudgeNotAvailableError(
                f"nobody answers at {self._access.url} ({error.strerror or error}): the judge proxy lives "
                "only while the script that agentv started is running; call it before that script ends",
                code="unreachable",
            ) from error
        self._socket = sock
        self._http = HTTPConnection(host, port)
        self._http.sock = sock

    def _send_and_read(self, request: Request, deadline: float) -> Response:
        http, sock = self._http, self._socket
        if http is None or sock is None or self._aborted:
            raise ConnectionAbortedError("the call was cancelled")
        sock.arm(deadline)
        headers = {
            "Authorization": f"Bearer {self._access.token}",
            "Accept": "application/json",
            "User-Agent": f"agentv-eval/{__version__}",
        }
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        # A server may refuse a request (413, 401) and close before it has read all of it: its answer counts.
        with suppress(BrokenPipeError, ConnectionResetError):
            http.request(request.method, request.path, request.body, headers)
        answer = http.getresponse()
        body = answer.read()
        response = Response(answer.status, body, answer.getheader("Content-Encoding"))
        if http.sock is None:
            self.close()
        return response

    def _is_open_and_quiet(self) -> bool:
        """Open, and with nothing to read: an end or stray bytes mean it must not carry another call."""
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

    def _received(self) -> int:
        return self._socket.received if self._socket is not None else 0

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def abort(self) -> None:
        """End a call that another thread is waiting in."""
        self._aborted = True
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        http, self._http, sock, self._socket = self._http, None, self._socket, None
        if http is not None:
            http.close()
        if sock is not None:
            sock.close()


def _lost(error: Exception) -> JudgeProxyError:
    if isinstance(error, OSError):
        what, code = "the judge proxy closed the connection before it answered", "connection_lost"
    elif type(error).__name__ == "IncompleteRead":
        what, code = "the judge proxy closed the connection in the middle of its answer", "connection_lost"
    else:
        what, code = "the answer of the judge proxy is not HTTP", "invalid_reply"
    return JudgeProxyError(
        f"{what} ({str(error) or type(error).__name__}). The call may have been counted and was not sent "
        "again; see the log of the agentv run",
        code=code,
    )


class Pool:
    """Idle connections of one client: a call takes one or opens one, so each thread at work has its own."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._idle: list[Connection] = []
        self._closed = False
        self._pid = getpid()

    def take(self) -> Connection:
        with self._lock:
            if self._closed:
                raise JudgeNotAvailableError(
                    "this judge client is closed; call the judge before close(), or create another client",
                    code="closed",
                )
            if self._pid != getpid():  # a forked child must not talk into its parent's connections
                self._pid = getpid()
                self._drop()
            return self._idle.pop() if self._idle else Connection(self._access)

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
