"""Preloaded by a worker: records all frames of its handler in a directory, and loses frames while a file exists.

TAP/frames    every frame in both directions
TAP/losing    while it exists, every third request and every third reply is lost
TAP/lost      one byte for each loss
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from distributed import Worker

from agentv.nodes.engines.dask_worker import OPERATION, NodePlugin

TAP = Path(os.environ["TAP"])


def _append(name: str, content: bytes) -> None:
    with (TAP / name).open("ab") as file:
        file.write(content)


def dask_setup(worker: Worker) -> None:
    plugin = NodePlugin()
    plugin.setup(worker)
    count = 0

    async def tapped(frame: bytes, hold: float) -> dict[str, Any]:
        nonlocal count
        count += 1
        turn = count
        losing = (TAP / "losing").exists()
        _append("frames", frame + b"\n")
        if losing and turn % 3 == 0:
            _append("lost", b"q")
            return {"failed": "the request was lost"}
        reply = await plugin.exchange(frame, hold)
        _append("frames", repr(reply).encode() + b"\n" + reply.get("frame", b"") + b"\n")
        if losing and turn % 3 == 1:
            _append("lost", b"r")
            return {"failed": "the reply was lost"}
        return reply

    worker.handlers[OPERATION] = tapped
