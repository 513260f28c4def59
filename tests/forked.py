"""Runs `agentv` in a process that is forked from one with its modules imported.

A command takes a quarter of a second of CPU time, most of it for imports, and the tests run more than a thousand. The
forked process is like a new one otherwise: it has its own streams, environment, working directory and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

_IMPORTED = (
    "agentv.api",
    "agentv.cli.compare",
    "agentv.cli.evaluate",
    "agentv.cli.program",
    "agentv.cli.report",
    "agentv.cli.validate",
    "agentv.evaluators.registry",
    "agentv.recorded",
    "agentv.report.console",
)
_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG")
"""Beginnings of the names of variables that are read when an interpreter starts."""


def run(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str], text: str, timeout: float
) -> subprocess.CompletedProcess[str] | None:
    """Run `agentv`. None if a new interpreter would behave differently with this environment."""
    if _interpreter_settings(env) != _interpreter_settings(os.environ):
        return None
    with contextlib.ExitStack() as opened, socket.socket(socket.AF_UNIX) as server:
        stdin, stdout, stderr = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write(text.encode())
        stdin.seek(0)
        server.settimeout(timeout)
        server.connect(_server())
        files = array("i", [stdin.fileno(), stdout.fileno(), stderr.fileno()])
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": dict(env)}).encode()
        server.sendmsg([len(request).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        server.sendall(request)
        pid = int.from_bytes(_exactly(server, 4), "big")
        try:
            code = int.from_bytes(_exactly(server, 4), "big", signed=True)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(arguments), timeout) from None
        printed = []
        for file in (stdout, stderr):
            file.seek(0)
            printed.append(file.read().decode().replace("\r\n", "\n"))
    return subprocess.CompletedProcess(list(arguments), code, *printed)


def _interpreter_settings(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_OF_THE_INTERPRETER)}


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise RuntimeError("the process that forks commands has ended")
        data += part
    return data


@cache
def _server() -> str:
    """Start the process, once per pytest worker. Returns the address of its socket."""
    directory = tempfile.TemporaryDirectory(prefix="agentv-forked-")
    path = f"{directory.name}/socket"
    root = Path(__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", path], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    def stop() -> None:
        process.kill()
        process.wait()
        directory.cleanup()

    atexit.register(stop)
    return path


def _serve(path: str) -> NoReturn:
    for name in _IMPORTED:
        import_module(name)
    import_module("agentv.view.assets").script()  # commands that write HTML files need it
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # each command has a process of its own that waits for it
        while True:
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    listening.close()
                    _watch(connection)


def _watch(connection: socket.socket) -> NoReturn:
    """Fork the command, and send its exit code."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        data, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * 4))
        files = array("i", ancillary[0][2])
        request = json.loads(_exactly(connection, int.from_bytes(data, "big")))
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(request, files)
        for file in files:
            os.close(file)
        connection.sendall(pid.to_bytes(4, "big"))
        _, status = os.waitpid(pid, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    finally:
        os._exit(0)


def _become(request: dict[str, Any], files: Sequence[int]) -> NoReturn:
    """Be the command."""
    code: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.path[0] = request["cwd"]
        random.seed()
        sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = os.fdopen(  # type: ignore[misc]
            2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        import agentv.cli  # noqa: PLC0415 - what was imported stays imported

        sys.argv = [str(Path(agentv.cli.__file__).parents[1] / "__main__.py"), *request["arguments"]]
        agentv.cli.main()
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if isinstance(code, str):
            os.write(2, f"{code}\n".encode())
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    _serve(sys.argv[1])
