"""A node process ends when there has been no driver for some time."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from pathlib import Path

from agentv.nodes.frames import Frame, Message, decode_frame
from agentv.nodes.process import serve


def request(number: int, *messages: Message) -> bytes:
    numbered = list(enumerate(messages, number))
    frame = Frame("driver", 1, sent=number + len(messages) - 1, messages=numbered).encoded()
    return struct.pack(">QII", number, 0, len(frame)) + frame


async def test_node_process_ends_without_drivers_and_stays_with_one(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    serving = asyncio.create_task(serve(theirs, tmp_path, idle_seconds=0.4))
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(request(1, Message("hello", {"dead_man": 60}, json.dumps([]).encode())))
    _, failed, length = struct.unpack(">QII", await reader.readexactly(16))
    assert not failed
    assert decode_frame(await reader.readexactly(length)).messages[0][1].kind == "hello"
    await asyncio.sleep(1)
    assert not serving.done()  # the driver has not said goodbye
    writer.write(request(2, Message("bye")))
    await asyncio.wait_for(serving, 10)
    writer.close()
