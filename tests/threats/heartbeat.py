"""Measures how long the event loop of a real `agentv` process was blocked.

    heartbeat = Heartbeat(tmp_path)
    project.run("eval", "suite.yaml", env=heartbeat.env)
    heartbeat.assert_steady()

The product has no switch for this. `env` puts a directory with a `sitecustomize.py` in front of `PYTHONPATH`, which
Python imports when it starts; it removes its traces from the environment, so that scripts and helpers of the run do
not inherit it. In the process under test, a callback of the event loop runs every 5 ms. A gap between two of them is
the wall time minus these 5 ms, minus the time for which the loop's thread was ready to run but had no CPU, which
Linux reports in `/proc/thread-self/schedstat`, and minus the time that a hypervisor took from this machine (`steal`
in `/proc/stat`, which counts all CPUs, so on a machine that shares its CPUs it can hide a gap; `Heartbeat(...,
steal=False)` does not subtract it). What remains is work in the loop, a blocking system call, or waiting for the
interpreter lock. Three more things are subtracted, because no answer causes them repeatedly and they take long on a
busy machine: imports; the start of a worker, for which the kernel suspends this process until the new program runs;
and the syncs of `run.json` and its like before and after the cases. A test that fails because of a gap is repeated up
to twice (`conftest.py`): what an input causes happens every time.

With AGENTV_TEST_HEARTBEAT_TRACES=1 in the environment of the tests, `faulthandler` notes what the process does when a
gap gets long, and a failed assertion says where it was. This is off by default: `faulthandler` reads the stacks of
running threads without the interpreter lock, which now and then crashes the process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIMIT_MS = 50
"""No input may block the event loop for longer than this."""

_SITECUSTOMIZE = r"""import asyncio, builtins, faulthandler, json, os, subprocess, sys, threading, time

FILE = os.environ.pop("AGENTV_TEST_HEARTBEAT", None)
INTERVAL, SUSPICIOUS = 0.005, 0.03
TRACES = False
STEAL = True
HERE = os.path.dirname(os.path.abspath(__file__))
PATHS = [path for path in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if path and path != HERE]
if PATHS:
    os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)
sys.path[:] = [path for path in sys.path if path != HERE]


class Beat:
    def __init__(self):
        self.thread = threading.get_ident()
        self.beats, self.longest, self.where, self.seen = 0, 0.0, "", open(FILE + ".seen", "w+")
        self.subtracted, self.depth = 0.0, 0
        try:
            self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.schedstat = None
        try:
            self.stat = os.open("/proc/stat", os.O_RDONLY | os.O_CLOEXEC) if STEAL else None
            self.tick = os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            self.stat = None
        builtins.__import__ = self.left_out(builtins.__import__, always=False)
        if hasattr(subprocess, "_fork_exec"):
            subprocess._fork_exec = self.left_out(subprocess._fork_exec, always=True)
        os.fsync = self.left_out(os.fsync, always=True)

    def start(self, loop):
        self.loop, self.last = loop, self.now() - INTERVAL
        self.next = loop.call_soon(self.beat)

    def stop(self):
        self.next.cancel()
        self.measure()
        if TRACES:
            faulthandler.cancel_dump_traceback_later()
        self.write()

    def now(self):
        waited = int(os.pread(self.schedstat, 100, 0).split()[1]) / 1e9 if self.schedstat is not None else 0.0
        stolen = int(os.pread(self.stat, 200, 0).split()[8]) / self.tick if self.stat is not None else 0.0
        return time.monotonic() - waited - stolen - self.subtracted

    def left_out(self, function, always):
        def run(name, *arguments, **options):
            if self.depth or threading.get_ident() != self.thread or not (always or name not in sys.modules):
                return function(name, *arguments, **options)
            self.depth, began = 1, self.now()
            try:
                return function(name, *arguments, **options)
            finally:
                self.depth = 0
                self.subtracted += self.now() - began

        return run

    def beat(self):
        self.beats += 1
        self.measure()
        self.next = self.loop.call_later(INTERVAL, self.beat)

    def measure(self):
        gap = self.now() - self.last - INTERVAL
        if gap > self.longest:
            self.longest = gap
            if TRACES:
                faulthandler.cancel_dump_traceback_later()
                self.seen.seek(0)
                self.where = self.seen.read().split("\n\n")[-1]
            self.write()
        if TRACES:
            if self.seen.seek(0, os.SEEK_END):
                self.seen.truncate(0)
            faulthandler.dump_traceback_later(SUSPICIOUS, file=self.seen)
        self.last = self.now()

    def write(self):
        data = {"beats": self.beats, "longest_ms": self.longest * 1000, "where": self.where}
        with open(FILE + ".new", "w") as file:
            json.dump(data, file)
        os.replace(FILE + ".new", FILE)


beats = []


def watched(run_forever):
    def run(self):
        if not beats:
            beats.append(Beat())
        if threading.get_ident() != beats[0].thread:
            return run_forever(self)
        beats[0].start(self)
        try:
            return run_forever(self)
        finally:
            beats[0].stop()
    return run


if FILE:
    asyncio.BaseEventLoop.run_forever = watched(asyncio.BaseEventLoop.run_forever)
"""


class LoopBlockedError(AssertionError):
    """The event loop was blocked for too long."""


class Heartbeat:
    """Measures the event loop of one process. Start the process with `env` added to its environment."""

    def __init__(self, directory: Path, *, steal: bool = True) -> None:
        self._folder = directory / "heartbeat"
        self._folder.mkdir()
        traces = bool(os.environ.get("AGENTV_TEST_HEARTBEAT_TRACES"))
        program = _SITECUSTOMIZE.replace("TRACES = False", f"TRACES = {traces}").replace(
            "STEAL = True", f"STEAL = {steal}"
        )
        (self._folder / "sitecustomize.py").write_text(program, encoding="utf-8")
        self._file = self._folder / "measured.json"

    @property
    def env(self) -> Mapping[str, str]:
        """Variables for the environment of the process."""
        paths = [str(self._folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(paths), "AGENTV_TEST_HEARTBEAT": str(self._file)}

    @property
    def measured(self) -> dict[str, Any]:
        """`beats` (how often the callback ran), `longest_ms`, and `where` the loop was during the longest gap."""
        data: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return data

    def assert_steady(self, limit_ms: float = LIMIT_MS) -> None:
        """Assert that the loop ran, and was never blocked for longer than the limit."""
        measured = self.measured
        assert measured["beats"] > 0
        longest = measured["longest_ms"]
        where = measured["where"] or "an unknown place; set AGENTV_TEST_HEARTBEAT_TRACES=1 to see it"
        if longest > limit_ms:
            raise LoopBlockedError(f"the event loop was blocked for {longest:.0f} ms in\n{where}")
