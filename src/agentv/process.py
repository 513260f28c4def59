"""Run a child process: bytes in, bytes out, a deadline, bounded memory, and nothing of its group left behind.

The child leads its own session and inherits no descriptor but 0, 1 and 2. Its exit is seen through a pidfd
and not through its pipes, so a descendant that keeps them open delays nobody for longer than a short grace. A
descendant that made a session of its own is out of reach here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agentv.process_start import ProcessStartError, start_process

__all__ = ["ProcessOutcome", "ProcessStartError", "run_process"]

STDOUT_CAP = 16 * 1024 * 1024
STDERR_KEEP = 64 * 1024
CHUNK = 256 * 1024
QUIET_SECONDS = 0.25
"""After the leader is gone, a pipe somebody still holds is given up once it was silent this long."""
DRAIN_SECONDS = 0.75
"""And given up after this long whether it is silent or not."""
REAP_SECONDS = 5.0
"""How long a killed process may take to die before a thread waits for it instead."""


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """How a process ended, and what it wrote."""

    returncode: int | None
    """Its exit code; None when a signal ended it, or when its status was lost."""
    signal: str | None
    """The signal that ended it, like `SIGKILL`. After a timeout or an overflow that is ours."""
    stdout: bytes
    stderr: bytes
    """The end of what it wrote to stderr."""
    stderr_cut: bool = False
    timed_out: bool = False
    stdout_overflow: bool = False
    duration_ms: float = 0.0

    @property
    def ending(self) -> str:
        """How it ended, in words that follow "the command"."""
        if self.signal is not None:
            return f"was killed by {self.signal}"
        if self.returncode is None:
            return "ended, but its exit status was lost (whoever started agentv ignores SIGCHLD)"
        return f"exited with code {self.returncode}"


async def run_process(
    argv: Sequence[str],
    *,
    stdin: bytes | None = None,
    cwd: Path | str,
    env: Mapping[str, str],
    timeout: float | None = None,
    stdout_cap: int = STDOUT_CAP,
    stderr_keep: int = STDERR_KEEP,
) -> ProcessOutcome:
    """Run a program to its end, its deadline or its output cap, whichever comes first.

    Without `stdin` it reads from the null device. Raises `ProcessStartError` when it cannot be started;
    whatever happens after that is in the outcome. Cancelling kills the group.
    """
    child = _Child(start_process(argv, stdin is not None, cwd, env), stdin or b"", stdout_cap, stderr_keep)
    try:
        in_time = await child.over(timeout)
        if in_time:
            await child.drain()
    finally:
        await child.end()
    return child.outcome(timed_out=not in_time)


class _Child:
    """A started process, its pipes on the running loop."""

    def __init__(
        self, popen: subprocess.Popen[bytes], stdin: bytes, stdout_cap: int, stderr_keep: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = time.monotonic()
        self._popen = popen
        self._stdout, self._stdout_cap, self._overflow = bytearray(), stdout_cap, False
        self._stderr, self._stderr_keep, self._stderr_cut = bytearray(), stderr_keep, False
        self._status: int | None = None
        self._duration_ms = 0.0
        self._last_byte = 0.0
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._silent: asyncio.Future[None] = self._loop.create_future()
        self._pidfd: int | None = None
        self._waiter: threading.Thread | None = None
        self._unsent = memoryview(stdin)
        self._watch_pipes()
        self._watch_exit()

    # -- pipes

    def _watch_pipes(self) -> None:
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        if self._popen.stdin is not None:
            if self._unsent:
                self._loop.add_writer(self._popen.stdin.fileno(), self._write_some)
            else:
                self._popen.stdin.close()
        for pipe, callback in (
            (self._popen.stdout, self._read_stdout),
            (self._popen.stderr, self._read_stderr),
        ):
            if pipe is not None:
                self._loop.add_reader(pipe.fileno(), callback)

    def _write_some(self) -> None:
        pipe = self._popen.stdin
        if pipe is None or pipe.closed:
            return
        try:
            self._unsent = self._unsent[os.write(pipe.fileno(), self._unsent[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(pipe)

    def _read_stdout(self) -> bool:
        chunk = self._read(self._popen.stdout)
        if not chunk:
            return False
        room = self._stdout_cap - len(self._stdout)
        self._stdout += chunk[:room]
        if len(chunk) > room:
            self._overflow = True
            self._close(self._popen.stdout)
            _resolve(self._over)
            return False
        return True

    def _read_stderr(self) -> bool:
        chunk = self._read(self._popen.stderr)
        if not chunk:
            return False
        self._stderr += chunk
        if len(self._stderr) > 2 * self._stderr_keep + CHUNK:
            self._cut_stderr()
        return True

    def _cut_stderr(self) -> None:
        surplus = len(self._stderr) - self._stderr_keep
        if surplus > 0:
            del self._stderr[:surplus]
            self._stderr_cut = True

    def _read(self, pipe: IO[bytes] | None) -> bytes:
        """What is there now; empty when there is nothing, or nothing any more."""
        if pipe is None or pipe.closed:
            return b""
        try:
            chunk = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            chunk = b""
        if chunk:
            self._last_byte = self._loop.time()
        else:
            self._close(pipe)
        return chunk

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe is None or pipe.closed:
            return
        self._loop.remove_reader(pipe.fileno())
        self._loop.remove_writer(pipe.fileno())
        pipe.close()
        if not self._held_open():
            _resolve(self._silent)

    def _held_open(self) -> bool:
        return any(pipe is not None and not pipe.closed for pipe in (self._popen.stdout, self._popen.stderr))

    def _sweep(self) -> None:
        """Read what the pipes hold already. Bounded, because a descendant may write faster than we read."""
        for read, cap in ((self._read_stdout, self._stdout_cap), (self._read_stderr, 16 * CHUNK)):
            for _ in range(2 + cap // CHUNK):
                if not read():
                    break

    # -- exit

    def _watch_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):  # not Linux, an old kernel, or no descriptor left
            self._waiter = threading.Thread(target=self._wait_in_thread, daemon=True)
            self._waiter.start()
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def _wait_in_thread(self) -> None:
        self._reap()
        with contextlib.suppress(RuntimeError):  # the loop may be gone by now
            self._loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        self._close_pidfd()
        self._duration_ms = (time.monotonic() - self._started) * 1000
        self._last_byte = self._loop.time()
        _resolve(self._exited)
        _resolve(self._over)

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            self._status = os.waitpid(self._popen.pid, 0)[1]
        self._popen.returncode = 0 if self._status is None else os.waitstatus_to_exitcode(self._status)

    # -- what run_process does with it

    async def over(self, timeout: float | None) -> bool:
        """Wait until the leader exited or wrote too much; False when the time was up first."""
        done, _ = await asyncio.wait({self._over}, timeout=timeout)
        return bool(done)

    async def drain(self) -> None:
        """Take in what was written before the leader exited, and a little of what descendants still say."""
        self._sweep()
        deadline = self._loop.time() + DRAIN_SECONDS
        while not self._silent.done() and not self._overflow:
            pause = min(deadline, self._last_byte + QUIET_SECONDS) - self._loop.time()
            if pause <= 0:
                self._sweep()
                return
            await asyncio.wait({self._silent}, timeout=pause)

    async def end(self) -> None:
        """Kill what is left of the group, reap the leader, close everything."""
        # The leader is reaped only after this: until then nobody else can have its number.
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
            for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                self._close(pipe)

    def outcome(self, *, timed_out: bool) -> ProcessOutcome:
        self._cut_stderr()
        code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        return ProcessOutcome(
            returncode=code if code is None or code >= 0 else None,
            signal=_signal_name(-code) if code is not None and code < 0 else None,
            stdout=bytes(self._stdout),
            stderr=bytes(self._stderr),
            stderr_cut=self._stderr_cut,
            timed_out=timed_out,
            stdout_overflow=self._overflow,
            duration_ms=self._duration_ms or (time.monotonic() - self._started) * 1000,
        )


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
