"""Functions for workers to run in tests."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any

from agentv.errors import EvaluatorError


def echo(value: Any) -> Any:
    return value


def backtrack() -> bool:
    """Hold the GIL in C code for ages."""
    return re.match(r"(a+)+$", "a" * 60 + "b") is not None


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(mark: str) -> str:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "second time"
    die()
    return "unreachable"


def fill_memory() -> int:
    return len(bytearray(4 << 30))


def refuse() -> None:
    raise EvaluatorError("no", next_step="Try another.")


def environment() -> dict[str, str]:
    return dict(os.environ)


def pid() -> int:
    return os.getpid()


def wait(mark: str) -> None:
    os.close(os.open(mark, os.O_CREAT))
    time.sleep(60)


def not_picklable() -> Any:
    return lambda: None
