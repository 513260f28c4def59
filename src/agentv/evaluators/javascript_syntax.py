"""Finds syntax errors in JavaScript code by compiling it in one Node process, which never runs it."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
from functools import lru_cache
from pathlib import Path

SECONDS = 20.0
"""How long Node may take to start and compile one code."""


@lru_cache(maxsize=1024)
def syntax_problem(node: str, runner: Path, source: str) -> str | None:
    """What is wrong with an expression or a function body, with its line. None if it is valid, or Node did not reply.

    Without a reply, the error is reported when the check runs.
    """
    compiler = _compiler(node, runner, os.getpid())
    try:
        reply = compiler.ask(source)
    except (OSError, ValueError):
        compiler.close()
        _compiler.cache_clear()
        return None
    return None if reply is None else str(reply)


@lru_cache(maxsize=1)
def _compiler(node: str, runner: Path, process: int) -> _Compiler:
    del process  # a fork must not use the process of its parent
    return _Compiler(node, runner)


class _Compiler:
    """A Node process that compiles one code per line. It ends with agentv, whose end closes its stdin."""

    def __init__(self, node: str, runner: Path) -> None:
        self._process = subprocess.Popen(
            [node, str(runner), "--syntax"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._owner = os.getpid()
        atexit.register(self.close)

    def ask(self, source: str) -> str | None:
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(json.dumps(source).encode() + b"\n")
        self._process.stdin.flush()
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], SECONDS)
            chunk = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                raise ValueError("Node did not reply")
            line += chunk
        problem = json.loads(line)["problem"]
        return None if problem is None else str(problem)

    def close(self) -> None:
        atexit.unregister(self.close)
        if os.getpid() != self._owner:
            return
        self._process.kill()
        with self._process:
            pass
