"""The lifetime of a judge proxy: a port of its own on loopback, open while one script runs."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Self

from agentv.judge.app import JudgeApp
from agentv.judge.connection import Connection
from agentv.judge.session import JudgeSession

HOST = "127.0.0.1"
BACKLOG = 1024
ACCEPTED_AT_ONCE = 100
MAX_CONNECTIONS = 1024
PAUSE_SECONDS = 0.1
END_SECONDS = 0.05


class JudgeProxy:
    """Serves one session while it is entered. Leaving closes the port, the session and every connection at once.

    Connections are accepted here and not by `asyncio.Server`, which loses one that it is just accepting when it is
    closed: its client would wait until the garbage collector comes by.
    """

    def __init__(self, session: JudgeSession) -> None:
        self.session = session
        self.app = JudgeApp(session)
        self._connections: dict[Connection, None] = {}
        self._accepting: set[asyncio.Task[Any]] = set()
        self._listener: socket.socket | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The value of AGENTV_JUDGE_PROXY_URL."""
        return f"http://{HOST}:{self._port}"

    @property
    def token(self) -> str:
        """The value of AGENTV_JUDGE_PROXY_TOKEN."""
        return self.session.token

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server((HOST, 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self.app.serve_on(self._port)
        self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        self.session.close()
        connections = list(self._connections)
        ending = {connection.task for connection in connections if connection.task is not None} | self._accepting
        for connection in connections:
            connection.abort()
        if ending:
            await asyncio.wait(ending, timeout=END_SECONDS)
        if connections or ending:
            await asyncio.sleep(0)  # sockets are closed in the loop's next turn

    def opened(self, connection: Connection) -> None:
        """Keep a connection. When there are too many, the oldest that never sent the token makes room, or else the
        oldest that waits for its next request; calls in flight are counted, and so never too many."""
        self._connections[connection] = None
        if self._listener is None:
            connection.abort()
        elif len(self._connections) > MAX_CONNECTIONS:
            others = [one for one in self._connections if one is not connection]
            strangers = (one for one in others if not one.trusted)
            resting = next(strangers, None) or next((one for one in others if one.is_idle), None)
            if resting is not None:
                resting.abort()

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def _listen(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # out of descriptors: those who wait are accepted when some are free again
                loop.remove_reader(listener)
                loop.call_later(PAUSE_SECONDS, self._listen)
                return
            accepted.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(lambda: Connection(self, loop), accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)
