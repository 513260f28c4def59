"""Runs `agentv` in a process that is forked from one with its modules imported.

A command takes a fifth of a second of CPU time, most of it for imports, and the tests run more than two thousand. The
forked process is like a new one otherwise: it has its own streams, environment, working directory and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

_IMPORTED = (
    "agentv.api",
    "agentv.processes.confinement",
    "agentv.processes.launcher",
    "agentv.processes.line_servers",
    "agentv.processes.zygotes",
    "statistics",
)
_IMPORTED_WITH_MODULES = ("agentv.cli", "agentv.evaluators", "agentv.judge", "agentv.report", "agentv.targets")
_TOO_LARGE = "library"
"""Part of the names of modules that import an agent library: it takes longer than most commands."""
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
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": dict(env), "path": str(cwd)}).encode()
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
def commands(prepare: Callable[[], None] | None = None) -> Path:
    """A directory for PATH with an `agentv` that runs forked, from a process that called `prepare` when it started.

    A command that is stopped by a signal gets it, and one whose caller was killed is killed. The environment may not
    contain settings of the interpreter except `PYTHONUTF8=1` and `PYTHONPATH`.
    """
    server = Path(_server(prepare, ("PYTHONUTF8", "1")))
    script = server.parent / "bin/agentv"
    script.parent.mkdir()
    script.write_text(_CALLER.format(python=sys.executable, socket=str(server)), encoding="utf-8")
    script.chmod(0o755)
    return script.parent


_CALLER = """#!{python} -IS
import json, os, signal, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket

server = socket(AF_UNIX)
server.connect({socket!r})
request = json.dumps({{
    "arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "path": os.path.dirname(sys.argv[0])
}}).encode()
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
server.sendmsg([len(request).to_bytes(4, "big")], [(SOL_SOCKET, SCM_RIGHTS, files)])
while request:
    request = request[server.send(request):]
pid = int.from_bytes(server.recv(4), "big")
os.closerange(0, 3)  # a reader of a pipe waits for the command, not for this process
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda number, _: os.kill(pid, number))
code = int.from_bytes(server.recv(4), "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def _server(prepare: Callable[[], None] | None = None, *settings: tuple[str, str]) -> str:
    """Start the process, once per pytest worker. Returns the address of its socket."""
    directory = tempfile.TemporaryDirectory(prefix="agentv-forked-")
    path = f"{directory.name}/socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", path],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **dict(settings)},
        preexec_fn=prepare,  # noqa: PLW1509 - a few system calls
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
    _import_most()
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listening, woken, *running.values()], [], [])
            if woken in ready:
                woken.recv(4096)
                _send_exit_codes(running)
            for pid, connection in list(running.items()):
                if connection in ready:  # closed, as nothing else is sent
                    os.kill(pid, signal.SIGKILL)
            if listening in ready:
                connection, _ = listening.accept()
                running[_fork(connection)] = connection


def _import_most() -> None:
    """Import what commands use, so that forked ones do not, and exempt it from their garbage collections."""
    for name in _IMPORTED:
        import_module(name)
    for name in _IMPORTED_WITH_MODULES:
        package = import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith(".__main__") and _TOO_LARGE not in module.name:
                import_module(module.name)
    _build_models(import_module("pydantic").BaseModel)
    import_module("agentv.view.assets").script()  # commands that write HTML files need it
    gc.collect()
    gc.freeze()


def _build_models(base: Any) -> None:
    """Build the validators of all models, which are otherwise built when they are first used."""
    for model in base.__subclasses__():
        if model.__module__.startswith("agentv."):
            model.model_rebuild()
        _build_models(model)


def _fork(connection: socket.socket) -> int:
    """Start the command that is requested; returns its process id, which is also sent."""
    data, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * 4))
    files = array("i", ancillary[0][2])
    request = json.loads(_exactly(connection, int.from_bytes(data, "big")))
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _become(request, files)
    for file in files:
        os.close(file)
    connection.sendall(pid.to_bytes(4, "big"))
    return pid


def _send_exit_codes(running: dict[int, socket.socket]) -> None:
    """Answer the requests of the commands that have ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as connection, contextlib.suppress(BrokenPipeError):  # after a timeout, nothing reads it
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def _become(request: dict[str, Any], files: Sequence[int]) -> NoReturn:
    """Be the command."""
    code: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.closerange(3, 64)  # sockets of the server
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.path[:1] = [request["path"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        tempfile.tempdir = None
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
