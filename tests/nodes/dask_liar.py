"""Preloaded by a worker that lies to its driver: the file `LIES/lie` is what it replies to frames."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import Worker
from distributed.protocol.serialize import ToPickle, to_serialize

from agentv.nodes.engines.dask_worker import OPERATION, NodePlugin
from agentv.nodes.frames import Message, decode_frame

LIES = Path(os.environ["LIES"])
RAN = str(LIES / "ran")
"""A file in which every process that unpickles `Evil` writes its id."""


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import os; open({RAN!r}, 'a').write(str(os.getpid()) + '\\n')",)


def dask_setup(worker: Worker) -> None:
    plugin = NodePlugin()
    plugin.setup(worker)

    async def lying(frame: bytes, hold: float) -> Any:
        lie = (LIES / "lie").read_text()
        match lie:
            case "serialized":
                return {"frame": to_serialize(Evil())}  # type: ignore[no-untyped-call]
            case "pickled":
                return {"frame": ToPickle(Evil())}
            case "exception":
                return {"status": "uncaught-error", "exception": pickle.dumps(Evil()), "exception_text": "ImportError"}
            case "event":
                for topic in ("all", "print", "warn"):
                    worker.log_event(topic, {"action": "add-worker", "worker": to_serialize(Evil())})  # type: ignore[no-untyped-call]
                    worker.log_event(topic, to_serialize(Evil()))  # type: ignore[no-untyped-call]
            case "huge":
                return {"frame": bytes(70 * 1024 * 1024)}
        reply = await plugin.exchange(frame, hold)
        answer = decode_frame(reply["frame"])
        number = answer.sent + 1
        match lie:
            case "unknown":
                answer = replace(answer, sent=number, messages=[*answer.messages, (number, Message("surprise"))])
            case "epoch":
                answer = replace(answer, epoch=answer.epoch - 1)
            case "garbage":
                return {"frame": b"\0\0\0\2{}surplus"}
        return {"frame": answer.encoded()}

    worker.handlers[OPERATION] = lying
