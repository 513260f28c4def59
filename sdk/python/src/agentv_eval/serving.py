"""Judge many answers in one process: one payload per line on stdin, one result per line on stdout."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

VARIABLES = ("AGENTV_JUDGE_PROXY_URL", "AGENTV_JUDGE_PROXY_TOKEN")


def serve(
    descriptor: int,
    judge: Callable[[dict[str, Any]], bytes],
    report: Callable[[Exception | SystemExit], str],
    lines: Iterable[bytes] | None = None,
) -> None:
    """Judge each line, by default of stdin, and write its result to `descriptor`, until there are no more.

    `judge` converts a payload into a result as JSON. If it raises, that result is an error with the message from
    `report`, and the next line is judged.
    """
    import json  # as in judge.py

    for line in sys.stdin.buffer if lines is None else lines:
        if line.strip():
            name: dict[str, Any] = {}
            result = _result(line, json.loads, name, judge, report)
            fields = json.loads(result) if isinstance(result, bytes) else {"error": result}
            _write(descriptor, json.dumps({**fields, **name}).encode() + b"\n")


def _result(
    line: bytes,
    loads: Callable[[bytes], Any],
    name: dict[str, Any],
    judge: Callable[[dict[str, Any]], bytes],
    report: Callable[[Exception | SystemExit], str],
) -> bytes | str:
    """The result as JSON, or an error message. The `execution_id` of the line is added to `name`."""
    try:
        payload = loads(line)
        if "execution_id" in payload:
            name["execution_id"] = payload.pop("execution_id")
        access = payload.pop("judge_proxy", None) or {}
        for variable, key in zip(VARIABLES, ("url", "token")):
            _set(variable, access.get(key))
        return judge(payload)
    except (Exception, SystemExit) as error:  # any exception of the handler is a failure of the judge
        return report(error)
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
