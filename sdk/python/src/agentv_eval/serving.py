"""Judge many answers with one process: a payload a line on stdin, a result a line on stdout."""

from __future__ import annotations

import os
import sys

from .judge import answer, keep_stdout, told, told_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VARIABLES = ("AGENTV_JUDGE_PROXY_URL", "AGENTV_JUDGE_PROXY_TOKEN")


def serve(handler: Callable[..., Any]) -> None:
    """Until stdin ends. A handler that raises fails its own answer, and the next one is judged."""
    import json  # as in judge.py

    descriptor = keep_stdout()
    for line in sys.stdin.buffer:
        if line.strip():
            name: dict[str, Any] = {}
            result = _result(handler, line, json.loads, name)
            said = json.loads(result) if isinstance(result, bytes) else {"error": result}
            _write(descriptor, json.dumps({**said, **name}).encode() + b"\n")


def _result(
    handler: Callable[..., Any], line: bytes, loads: Callable[[bytes], Any], name: dict[str, Any]
) -> bytes | str:
    """The result as JSON, or why there is none; `name` is filled with what tells whose it is."""
    try:
        payload = loads(line)
        if "execution_id" in payload:
            name["execution_id"] = payload.pop("execution_id")
        access = payload.pop("judge_proxy", None) or {}
        for variable, key in zip(VARIABLES, ("url", "token")):
            _set(variable, access.get(key))
        return answer(handler, payload)
    except Exception as error:  # the one edge where a judge's exception becomes its failure
        return told(error)
    except SystemExit as stop:
        return told_exit(stop)
    finally:
        for variable in VARIABLES:
            _set(variable, None)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
