"""Run a child process with input, a timeout and bounded output, then kill its whole process group.

The child leads its own session and inherits only descriptors 0, 1 and 2. Its exit is detected through a pidfd rather
than its pipes, so a descendant that keeps the pipes open causes only a short delay. Descendants that create their own
session are not killed here; `launcher.py` takes care of those.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.errors import AgentVError
from agentv.processes import descriptors
from agentv.processes.script_time import ScriptTime, WaitingTime

__all__ = ["OWN_CHILDREN", "Pipes", "ProcessOutcome", "ProcessStartError", "resolve", "run_process"]

STDOUT_CAP = 16 * 1024 * 1024
STDERR_KEEP = 64 * 1024
CHUNK = 256 * 1024
QUIET_SECONDS = 0.25
"""After the child exits, stop reading a pipe that a descendant keeps open once it has been silent for this long."""
DRAIN_SECONDS = 0.75
"""Stop reading after this long even if the pipe is not silent."""
REAP_SECONDS = 5.0
"""How long to wait for a killed process to die before a background thread reaps it instead."""

OnBytes = Callable[[bytes], None]
"""Called with each chunk of output as it arrives. Must neither raise nor block."""

OWN_CHILDREN: set[int] = set()
"""Pids of children that agentv started and has not reaped; `strangers` must not treat them as adopted orphans."""


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """How a process ended, and its output."""

    returncode: int | None
    """Exit code; None when it was killed by a signal or its status was lost."""
    signal: str | None
    """Signal that killed it, such as `SIGKILL`. After a timeout or an overflow, agentv sent it."""
    stdout: bytes
    stderr: bytes
    """The last part of its stderr."""
    stderr_cut: bool = False
    timed_out: bool = False
    stdout_overflow: bool = False
    duration_ms: float = 0.0
    supervisor_lost: bool = False
    """The script or one of its descendants killed its supervisor, so its output must not be trusted."""
    survivors: tuple[int, ...] = ()
    """Descendants that could not be killed in time."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The output files of the job that the program wrote."""
    file_problems: Mapping[str, str] = field(default_factory=dict)
    """Why output files that exist cannot be read."""
    execution: Mapping[str, Any] | None = None
    """The node that ran it, and how often it was tried; None for this machine."""

    @property
    def ending(self) -> str:
        """How it ended, as a phrase to follow "the command"."""
        if self.supervisor_lost:
            return "killed its supervisor process and was therefore stopped"
        if self.signal is not None:
            return f"was killed by {self.signal}"
        if self.returncode is None:
            return "ended, but its exit status was lost (the parent process of agentv ignores SIGCHLD)"
        return f"exited with code {self.returncode}"


async def run_process(
    argv: Sequence[str],
    *,
    stdin: bytes | None = None,
    cwd: Path | str,
    env: Mapping[str, str],
    timeout: float | None = None,
    waiting: WaitingTime | None = None,
    stdout_cap: int = STDOUT_CAP,
    stderr_keep: int = STDERR_KEEP,
    on_exit: Callable[[], None] | None = None,
    on_stderr: OnBytes | None = None,
) -> ProcessOutcome:
    """Run a program until it exits, times out or exceeds its output cap, whichever comes first.

    Without `stdin` it reads from `/dev/null`. `waiting` is time that does not count against `timeout`. Raises
    `ProcessStartError` when the program cannot be started; everything that happens after that is in the outcome.
    Cancelling kills the process group. `on_exit` is called when the program itself exits, before its pipes are drained;
    `on_stderr` is called with each chunk of stderr as it arrives.
    """
    refuse_unstartable(argv)

    def start() -> _Child:
        pipes = Pipes(stdin, stdout_cap, stderr_keep, on_stderr)
        try:
            return _Child(start_process(argv, pipes.theirs, cwd, env), pipes, on_exit)
        except BaseException:
            pipes.close()
            raise

    try:
        child = await descriptors.when_free(start)
    except (OSError, ValueError) as error:
        raise start_error(argv[0], Path(cwd), env, error) from error
    try:
        in_time = await child.over(timeout, waiting)
        if in_time:
            await child.pipes.drain()
    finally:
        await child.end()
    return child.outcome(timed_out=not in_time)


class Pipes:
    """The pipes of one process: writes its stdin, and reads its stdout and stderr in bounded memory.

    `theirs` are the descriptors for the child process; `watch()` closes our copies once the child has its own.
    """

    def __init__(
        self, stdin: bytes | None, stdout_cap: int, stderr_keep: int, on_stderr: OnBytes | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._unsent = memoryview(stdin or b"")
        self._stdout, self._stdout_cap = bytearray(), stdout_cap
        self._stderr, self._stderr_keep = bytearray(), stderr_keep
        self._on_stderr = on_stderr
        self._last_byte = 0.0
        self.overflow = self.stderr_cut = False
        self.overflowed: asyncio.Future[None] = self._loop.create_future()
        self._silent: asyncio.Future[None] = self._loop.create_future()
        self.theirs: list[int] = []
        self._in = self._out = self._err = -1
        try:
            self._open(stdin is not None)
        except OSError:
            self.close()
            raise

    def _open(self, feed: bool) -> None:
        if feed:
            theirs, self._in = os.pipe()
            os.set_blocking(self._in, False)
        else:
            theirs = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.theirs.append(theirs)
        self._out, theirs = os.pipe()
        self.theirs.append(theirs)
        self._err, theirs = os.pipe()
        self.theirs.append(theirs)
        os.set_blocking(self._out, False)
        os.set_blocking(self._err, False)

    def watch(self) -> None:
        """Close our copies of the child's descriptors, and start reading and writing."""
        self._close_theirs()
        self._write_some()
        if self._in >= 0:
            self._loop.add_writer(self._in, self._write_some)
        self._loop.add_reader(self._out, self._read_stdout)
        self._loop.add_reader(self._err, self._read_stderr)

    def _write_some(self) -> None:
        if self._in < 0:
            return
        try:
            if self._unsent:
                self._unsent = self._unsent[os.write(self._in, self._unsent[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # the child has closed its stdin
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._in = self._closed(self._in)

    def _read_stdout(self) -> bool:
        chunk = self._read(self._out)
        if chunk is None:
            return False
        if not chunk:
            self._out = self._closed(self._out)
            return False
        room = self._stdout_cap - len(self._stdout)
        self._stdout += chunk[:room]
        if len(chunk) > room:
            self.overflow = True
            self._out = self._closed(self._out)
            resolve(self.overflowed)
            return False
        return True

    def _read_stderr(self) -> bool:
        chunk = self._read(self._err)
        if chunk is None:
            return False
        if not chunk:
            self._err = self._closed(self._err)
            return False
        self._stderr += chunk
        if self._on_stderr is not None:
            self._on_stderr(chunk)
        if len(self._stderr) > 2 * self._stderr_keep + CHUNK:
            self._cut_stderr()
        return True

    def take_stderr(self) -> bytes:
        """The last part of what was written to stderr since the previous call."""
        self._read_stderr()
        self._cut_stderr()
        taken = bytes(self._stderr)
        self._stderr.clear()
        self.stderr_cut = False
        return taken

    def _cut_stderr(self) -> None:
        surplus = len(self._stderr) - self._stderr_keep
        if surplus > 0:
            del self._stderr[:surplus]
            self.stderr_cut = True

    def _read(self, pipe: int) -> bytes | None:
        """The available bytes; None when there are none yet, empty at the end of the stream."""
        if pipe < 0:
            return None
        try:
            chunk = os.read(pipe, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self._last_byte = self._loop.time()
        return chunk

    def _closed(self, pipe: int) -> int:
        """Close the pipe and return -1, the value of a closed one."""
        if pipe >= 0:
            self._loop.remove_reader(pipe)
            self._loop.remove_writer(pipe)
            os.close(pipe)
        if (self._out < 0 or pipe == self._out) and (self._err < 0 or pipe == self._err):
            resolve(self._silent)
        return -1

    def _close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def _sweep(self) -> None:
        """Read what is in the pipes already. Bounded, because a descendant may write faster than we read."""
        for read, cap in ((self._read_stdout, self._stdout_cap), (self._read_stderr, 16 * CHUNK)):
            for _ in range(2 + cap // CHUNK):
                if not read():
                    break

    async def drain(self) -> None:
        """Read what was written before the child exited, and briefly what its descendants still write."""
        self._sweep()
        self._last_byte = self._loop.time()
        deadline = self._last_byte + DRAIN_SECONDS
        while not self._silent.done() and not self.overflow:
            pause = min(deadline, self._last_byte + QUIET_SECONDS) - self._loop.time()
            if pause <= 0:
                self._sweep()
                return
            await asyncio.wait({self._silent}, timeout=pause)

    def close(self) -> None:
        self._close_theirs()
        self._in, self._out, self._err = self._closed(self._in), self._closed(self._out), self._closed(self._err)

    def outcome(
        self,
        status: int | None,
        *,
        timed_out: bool,
        duration_ms: float,
        supervisor_lost: bool = False,
        survivors: tuple[int, ...] = (),
    ) -> ProcessOutcome:
        """The outcome for a wait status (None when it was lost), with the output read so far."""
        self._cut_stderr()
        code = None if status is None else os.waitstatus_to_exitcode(status)
        return ProcessOutcome(
            returncode=code if code is None or code >= 0 else None,
            signal=_signal_name(-code) if code is not None and code < 0 else None,
            stdout=bytes(self._stdout),
            stderr=bytes(self._stderr),
            stderr_cut=self.stderr_cut,
            timed_out=timed_out,
            stdout_overflow=self.overflow,
            duration_ms=duration_ms,
            supervisor_lost=supervisor_lost,
            survivors=survivors,
        )


class _Child:
    """A started process: waits for its exit, then kills the rest of its process group."""

    def __init__(self, popen: subprocess.Popen[bytes], pipes: Pipes, on_exit: Callable[[], None] | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = time.monotonic()
        self._popen = popen
        self.pipes = pipes
        self._on_exit = on_exit
        self._status: int | None = None
        self._duration_ms = 0.0
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._pidfd: int | None = None
        self._waiter: threading.Thread | None = None
        OWN_CHILDREN.add(popen.pid)
        pipes.watch()
        self._watch_exit()

    def _watch_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):  # not Linux, an old kernel, or out of descriptors
            self._waiter = threading.Thread(target=self._wait_in_thread, daemon=True)
            self._waiter.start()
        else:
            self._loop.add_reader(self._pidfd, self._exit_seen)

    def _wait_in_thread(self) -> None:
        self._reap()
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._exit_seen)

    def _exit_seen(self) -> None:
        self._close_pidfd()
        self._duration_ms = (time.monotonic() - self._started) * 1000
        resolve(self._exited)
        if self._on_exit is not None:
            self._on_exit()

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            self._status = os.waitpid(self._popen.pid, 0)[1]
        OWN_CHILDREN.discard(self._popen.pid)
        self._popen.returncode = 0 if self._status is None else os.waitstatus_to_exitcode(self._status)

    async def over(self, timeout: float | None, waiting: WaitingTime | None) -> bool:
        """Wait until the child exits or exceeds its output cap. False on timeout."""
        late: asyncio.Future[None] = self._loop.create_future()
        with ScriptTime(timeout, waiting, on_late=lambda: resolve(late)):
            ends = {self._exited, self.pipes.overflowed, late}
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return done != {late}

    async def end(self) -> None:
        """Kill the process group, reap the child and close all descriptors."""
        # The child is reaped only after this, so its pid cannot have been reused.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        try:
            if not self._exited.done():
                await asyncio.wait({self._exited}, timeout=REAP_SECONDS)
        finally:
            if self._exited.done() and self._waiter is None:
                self._reap()
            elif self._waiter is None:
                threading.Thread(target=self._reap, daemon=True).start()
            self._close_pidfd()
            self.pipes.close()

    def outcome(self, *, timed_out: bool) -> ProcessOutcome:
        duration_ms = self._duration_ms or (time.monotonic() - self._started) * 1000
        return self.pipes.outcome(self._status, timed_out=timed_out, duration_ms=duration_ms)


def resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ProcessStartError(AgentVError):
    """A program could not be started; the message has the reason."""

    exit_code = 3


def refuse_unstartable(argv: Sequence[str]) -> None:
    """ProcessStartError when the command certainly cannot be started: on Windows, or when it is empty."""
    if os.name == "nt":
        raise ProcessStartError(
            "commands cannot be run on native Windows",
            next_step="Run agentv in WSL, or on Linux or macOS.",
        )
    if not argv or not argv[0]:
        raise ProcessStartError("could not start the command: it is empty", next_step="Set a program to run.")


def start_process(
    argv: Sequence[str], pipes: Sequence[int], cwd: Path | str, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the program in its own session, with `pipes` as its stdin, stdout and stderr."""
    stdin, stdout, stderr = pipes
    return descriptors.start(
        list(argv), stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=dict(env), start_new_session=True
    )


def start_error(program: str, cwd: Path, env: Mapping[str, str], error: OSError | ValueError) -> ProcessStartError:
    """The error with its actual cause, because the system reports most causes as "No such file or directory"."""
    what = f"could not start `{program}`"
    if not isinstance(error, OSError):
        return ProcessStartError(
            f"{what}: an argument or environment variable cannot be passed to a program ({error})",
            next_step="Pass text with NUL characters or invalid Unicode through a file or stdin instead.",
        )
    for reason in (directory_problem, _limit_problem, program_problem):
        problem = reason(program, cwd, env, error)
        if problem is not None:
            return ProcessStartError(f"{what}: {problem[0]}", next_step=problem[1])
    return ProcessStartError(f"{what}: {error.strerror or error}", next_step="Run the command in a terminal.")


_Problem = tuple[str, str] | None


def directory_problem(program: str, cwd: Path, env: Mapping[str, str], error: OSError) -> _Problem:
    """Why a program cannot be started in this directory, and the next step."""
    del program, env, error
    if not cwd.exists():
        return f"its working directory {cwd} does not exist", "Create the directory, or correct `cwd`."
    if not cwd.is_dir():
        return f"its working directory {cwd} is not a directory", "Correct `cwd`."
    if not os.access(cwd, os.X_OK):
        return f"its working directory {cwd} is not accessible", "Change the directory's permissions, or `cwd`."
    return None


def _limit_problem(program: str, cwd: Path, env: Mapping[str, str], error: OSError) -> _Problem:
    del program, cwd, env
    if error.errno == errno.E2BIG:
        return (
            "its arguments and environment exceed the system limit",
            "Pass long text through a file (`{PROMPT_FILE}`) or stdin instead of an argument.",
        )
    if descriptors.ran_out(error):
        return descriptors.explain(error)
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return f"the system cannot create another process ({error.strerror})", "Lower `--workers`."
    return None


def program_problem(program: str, cwd: Path, env: Mapping[str, str], error: OSError) -> _Problem:
    """Why this program cannot be started, and the next step."""
    if "/" in program:
        path = cwd / program
    else:
        executable = shutil.which(program, mode=os.F_OK, path=env.get("PATH", os.defpath))
        if executable is None:
            return "program not found on PATH", "Install it, correct its name, or use its full path."
        path = Path(executable)
    if not path.exists():
        return f"{path} does not exist", "Correct the path; a relative path starts at `cwd`."
    if path.is_dir():
        return f"{path} is a directory", "Set the path of a program."
    if not os.access(path, os.X_OK):
        return f"{path} is not executable", f"Run `chmod +x {path}`, or put its interpreter first in the command."
    words = shebang(path)
    interpreter = words[0] if words else None
    if interpreter is None and error.errno == errno.ENOEXEC:
        return (
            f"{path} is not a program and has no `#!` line",
            "Put its interpreter first in the command, or add a `#!` line.",
        )
    if interpreter is not None and not os.access(cwd / interpreter, os.X_OK):
        return (
            f"the interpreter in its `#!` line, {interpreter}, is missing or not executable",
            f"Correct the first line of {path}, or put the interpreter first in the command.",
        )
    return None


def shebang(path: Path) -> list[str]:
    """The words of the `#!` line of a file; empty if it has none."""
    try:
        with path.open("rb") as file:
            line = file.readline(1024)
    except OSError:
        return []
    return line[2:].decode("utf-8", "backslashreplace").split() if line.startswith(b"#!") else []
