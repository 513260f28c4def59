"""A connection to a Dask scheduler that never creates Python objects from what it reads.

Dask's own client unpickles: parts of messages, the types of serialized values, exceptions of failed calls, and events
that any worker can publish. The serializers that it accepts limit only some of these. A driver has the keys of the run,
so it reads only the MessagePack part of a message here, and skips all others.

    8 bytes       length of what follows, without parts that are long
    8 bytes       number of parts
    8 bytes each  their lengths
    parts         the first is MessagePack, others are serialized objects
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from collections.abc import Mapping
from typing import Any, Self

import msgpack

from agentv.nodes.channel import NodeRefusedError
from agentv.nodes.frames import MOST_BYTES

CONNECT_SECONDS = 10.0
MOST_MESSAGE = MOST_BYTES + 1024 * 1024
MOST_PARTS = 10_000
PIECE = 1024 * 1024
_NUMBER = struct.Struct("=Q")
_HEADER = struct.Struct("=QQQ")
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


class WireError(NodeRefusedError):
    """The other side sent something that is not a message, or one that is too large."""


class Wire:
    """One connection. Only one call at a time may use it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, host: str, port: int, context: ssl.SSLContext | None, server_name: str | None) -> Self:
        """Raises OSError, TimeoutError or EOFError if there is no scheduler."""
        async with asyncio.timeout(CONNECT_SECONDS):
            name = (server_name or host) if context is not None else None
            reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name, limit=PIECE)
            wire = cls(reader, writer)
            try:
                _keep_alive(writer.get_extra_info("socket"))
                # Dask's handshake. Compression would apply only to parts that are skipped here.
                await wire.write({"compression": None, "python": sys.version_info[:3], "pickle-protocol": 5})
                await wire.read()
            except BaseException:
                wire.close()
                raise
        return wire

    async def write(self, message: object) -> None:
        body = msgpack.packb(message, use_bin_type=True)
        self._writer.writelines((_HEADER.pack(16 + len(body), 1, len(body)), body))
        await self._writer.drain()

    async def read(self, patience: float | None = None) -> Any:
        """The next message. `patience` is how long it may take until it begins."""
        async with asyncio.timeout(patience):
            await self._reader.readexactly(_NUMBER.size)
        count = await self._number()
        if not 0 < count <= MOST_PARTS:
            raise WireError(f"it sent a message with {count:,} parts")
        lengths = [await self._number() for _ in range(count)]
        if sum(lengths) > MOST_MESSAGE:
            raise WireError(f"it sent a message with {sum(lengths):,} bytes")
        body = await self._reader.readexactly(lengths[0])
        await self._skip(sum(lengths[1:]))
        try:
            return msgpack.unpackb(body, raw=False, strict_map_key=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise WireError("it sent a message that is not MessagePack") from error

    async def _number(self) -> int:
        number: int = _NUMBER.unpack(await self._reader.readexactly(_NUMBER.size))[0]
        return number

    async def _skip(self, length: int) -> None:
        while length > 0:
            length -= len(await self._reader.readexactly(min(length, PIECE)))

    async def call(self, message: Mapping[str, Any], patience: float) -> Any:
        """Send a request and return the reply. Raises `RemoteError` if it failed at the other side."""
        async with asyncio.timeout(patience):
            await self.write(message)
        reply = await self.read(patience)
        if isinstance(reply, dict) and reply.get("status") == "uncaught-error":
            raise RemoteError(str(reply.get("exception_text"))[:2_000])
        return reply

    @property
    def is_closed(self) -> bool:
        return self._writer.is_closing() or self._reader.at_eof()

    def close(self) -> None:
        self._writer.transport.abort()


class RemoteError(OSError):
    """A request failed at the scheduler, or between the scheduler and a worker."""


def _keep_alive(connection: socket.socket | None) -> None:
    """Notice within half a minute that the other machine is gone."""
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
