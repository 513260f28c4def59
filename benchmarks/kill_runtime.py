"""Kill a runtime while its scripts and their descendants are running, and count the surviving processes.

    python -m benchmarks.kill_runtime --rounds 300 [--seed S] [--mode cold|warm|lines]

Each round starts a runtime with one script for every kind of descendant, waits until all of them are running (or, every
third round, for a short random time), and kills the runtime with SIGINT, SIGTERM or SIGKILL. Scripts are started for
each execution (cold), forked from a process that has imported their modules (warm), or reused (lines); rounds
alternate between the modes unless `--mode` selects one. A random half of the scripts is isolated, as with judge access.
Exits with code 1 if any process survived.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KINDS = ("plain", "setsid", "double-fork", "ignoring-signals", "without-pipes")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
MODES = ("cold", "warm", "lines")
READY_SECONDS = 60
GONE_SECONDS = 30


# -- the script


def play_script(kind: str, ready: str) -> None:
    """Start a descendant, report when it is running, and wait forever."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        _descendant(kind, writer)
    os.read(reader, 1)
    _say_ready(ready)
    while True:
        signal.pause()


def _say_ready(ready: str) -> None:
    with contextlib.suppress(OSError), Path(ready).open("w") as file:
        file.write("x")


def _descendant(kind: str, writer: int) -> None:
    if kind in ("setsid", "double-fork"):
        os.setsid()
    if kind == "double-fork" and os.fork():
        os._exit(0)
    if kind == "ignoring-signals":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if kind == "without-pipes":
        for descriptor in (0, 1, 2):
            os.close(descriptor)
    os.write(writer, b"x")
    while True:
        signal.pause()


# -- the runtime that is killed


def play_runtime(marker: str, ready: str, mode: str) -> None:
    import asyncio  # noqa: PLC0415  the scripts are this file too and do not need it

    from agentv.processes.launcher import Launcher, Script  # noqa: PLC0415

    options = [] if mode == "warm" else ["-I", "-S"]

    def script(kind: str) -> Script:
        argv = [sys.executable, *options, __file__, "--script", kind, ready, marker]
        isolate = (int(marker[-1], 16) + KINDS.index(kind)) % 2 == 0
        return Script(argv, cwd="/", env={}, stdin=b"{}\n", warm=mode == "warm", lines=mode == "lines", isolate=isolate)

    async def run() -> None:
        async with Launcher() as launcher:
            await asyncio.gather(*(launcher.run(script(kind)) for kind in KINDS))

    _say_ready(ready)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())


# -- a round


def one_round(number: signal.Signals, moment: float | None = None, *, mode: str = "cold") -> list[str]:
    """Kill a runtime once everything is running, or after `moment` seconds; returns the surviving command lines."""
    marker = f"marker-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="agentv-kill-") as folder:
        ready = f"{folder}/ready"
        os.mkfifo(ready)
        reader = os.open(ready, os.O_RDONLY | os.O_NONBLOCK)
        command = [sys.executable, __file__, "--runtime", marker, ready, mode]
        runtime = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        helpers: list[int] = []
        try:
            _await_bytes(reader, 1)
            if moment is None:
                _await_bytes(reader, len(KINDS))
                helpers = _descendants(runtime.pid)
            else:
                time.sleep(moment)
            runtime.send_signal(number)
            try:
                runtime.wait(timeout=GONE_SECONDS)
            except subprocess.TimeoutExpired:
                return [f"the runtime did not exit within {GONE_SECONDS} s"]
            return _survivors(marker, helpers)
        finally:
            os.close(reader)
            runtime.kill()
            runtime.wait()
            for pid in marked(marker):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _await_bytes(reader: int, count: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while count and time.monotonic() < deadline:
        select.select([reader], [], [], 1)
        with contextlib.suppress(BlockingIOError):
            count -= len(os.read(reader, count))
    if count:
        raise TimeoutError(f"{count} scripts did not start within {READY_SECONDS} s")


def _survivors(marker: str, helpers: list[int]) -> list[str]:
    """The surviving processes. A process that was killed may take a moment to disappear."""
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        left = [pid for pid in {*marked(marker), *helpers} if _alive(pid)]
        if not left or time.monotonic() > deadline:
            return [_command(pid) for pid in left]
        time.sleep(0.005)


def marked(marker: str) -> list[int]:
    """The processes with this marker in their arguments, without zombies."""
    return [pid for pid in _all() if marker in _command(pid) and _alive(pid)]


def _all() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", "0"]


def _alive(pid: int) -> bool:
    return _stat(pid)[0] not in ("Z", "X")


def _descendants(pid: int) -> list[int]:
    parents = {each: int(_stat(each)[1]) for each in _all()}
    descendants, level = [], [pid]
    while level:
        level = [each for each, parent in parents.items() if parent in level]
        descendants += level
    return descendants


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_runtime", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--mode", choices=MODES, default=None)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    left: list[str] = []
    for at in range(options.rounds):
        number = SIGNALS[at % len(SIGNALS)]
        mode = options.mode or MODES[at // len(SIGNALS) % len(MODES)]
        cycle = at // len(SIGNALS) // (1 if options.mode else len(MODES))
        survivors = one_round(number, dice.uniform(0, 0.15) if cycle % 3 == 2 else None, mode=mode)
        left += [f"round {at + 1}, {mode}, {number.name}: {command}" for command in survivors]
        if sys.stderr.isatty():
            print(f"\r\x1b[K{at + 1} of {options.rounds}, {len(left)} left", end="", file=sys.stderr, flush=True)
    print(f"{options.rounds} rounds, {len(KINDS)} kinds of descendants: {len(left)} processes left")
    print("\n".join(left), end="\n" if left else "")
    return 1 if left else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--script"]:
        play_script(*sys.argv[2:4])
    elif sys.argv[1:2] == ["--runtime"]:
        # A process started in the background of a shell ignores SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        play_runtime(*sys.argv[2:5])
    else:
        sys.exit(main())
