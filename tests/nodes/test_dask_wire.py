"""The connection to a scheduler, against a server that sends whatever it likes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
from distributed.protocol.core import dumps
from distributed.protocol.serialize import ToPickle, to_serialize
from distributed.protocol.utils import pack_frames_prelude

from agentv.nodes.channel import NodeRefusedError
from agentv.nodes.engines.dask_wire import MOST_MESSAGE, RemoteError, Wire

HANDSHAKE = {"compression": None, "python": [3, 11, 0], "pickle-protocol": 5}


def packed(message: Any) -> bytes:
    """The bytes of a message as Dask sends it."""
    frames = [bytes(frame) for frame in dumps(message)]
    prelude = pack_frames_prelude(frames)
    return struct.pack("=Q", len(prelude) + sum(map(len, frames))) + prelude + b"".join(frames)


@asynccontextmanager
async def connected(reply: bytes) -> AsyncIterator[Wire]:
    """A connection to a server that answers everything with these bytes, after the handshake."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(packed(HANDSHAKE))
        try:
            for _ in range(2):
                await reader.readexactly(8)
                (length,) = struct.unpack("=8xQ", await reader.readexactly(16))
                await reader.readexactly(length)
            writer.write(reply)
            await writer.drain()
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        wire = await Wire.connect("127.0.0.1", server.sockets[0].getsockname()[1], None, None)
        try:
            yield wire
        finally:
            wire.close()


async def answer(reply: bytes) -> Any:
    async with connected(reply) as wire:
        return await wire.call({"op": "x"}, 10)


async def test_message_of_dask_is_read() -> None:
    assert await answer(packed({"frame": b"\0" * 100_000, "n": [1, "a"]})) == {"frame": b"\0" * 100_000, "n": [1, "a"]}


@pytest.mark.parametrize(
    "message",
    [
        ToPickle,
        lambda evil: {"frame": ToPickle(evil)},
        lambda evil: {"frame": to_serialize(evil)},  # type: ignore[no-untyped-call]
        lambda evil: {"status": "uncaught-error", "exception": pickle.dumps(evil), "exception_text": "it failed"},
        lambda evil: {"status": "uncaught-error", "exception": ToPickle(evil), "exception_text": "it failed"},
        lambda evil: [{"op": "event", "topic": "all", "event": [0, to_serialize(evil)]}],  # type: ignore[no-untyped-call]
    ],
)
async def test_nothing_is_unpickled(message: Callable[[Any], Any], tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(ran),)

    with contextlib.suppress(RemoteError):
        assert type(await answer(packed(message(Evil())))) in (dict, list)
    assert not ran.exists()


@pytest.mark.parametrize(
    "reply",
    [
        struct.pack("=QQQ", 16, 1, MOST_MESSAGE + 1),
        struct.pack("=QQQQ", 24, 2, 1, MOST_MESSAGE),
        struct.pack("=QQ", 8, 10**12),
        struct.pack("=QQ", 8, 0),
        struct.pack("=QQQ", 16, 1, 1) + b"\xc1",
        struct.pack("=QQQ", 16, 1, 4) + msgpack.packb({(): 1})[:4].ljust(4, b"\0"),
        struct.pack("=QQQ", 16, 1, 2000) + b"\x91" * 2000,
    ],
)
async def test_invalid_and_huge_messages_are_refused_before_they_are_read(reply: bytes) -> None:
    with pytest.raises(NodeRefusedError, match="it sent a message"):
        await answer(reply)


async def test_silent_server_ends_a_call_after_its_time() -> None:
    async with connected(b"") as wire:
        with pytest.raises(TimeoutError):
            await wire.call({"op": "x"}, 0.05)


async def test_server_that_closes_ends_a_call() -> None:
    async with connected(struct.pack("=Q", 16)) as wire:
        call = asyncio.create_task(wire.call({"op": "x"}, 10))
        await asyncio.sleep(0)
        wire.close()
        with pytest.raises((EOFError, OSError)):
            await call
