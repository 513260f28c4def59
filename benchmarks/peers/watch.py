"""Run one command and measure it with all its descendants: `python watch.py SECONDS COMMAND...`.

This is a small, separate process because the peak memory of a child starts at that of its parent. It adopts orphaned
descendants, so that background helpers are measured too, and kills those that keep running. Prints one JSON object:
wall (until the command itself exited), cpu, peak_mb (of the largest process), exit_code.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LEFT_BEHIND = 2.0
"""Seconds that descendants get to exit after the command has exited."""


def main(seconds: float, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open("output.txt", "wb") as output:  # noqa: PTH123 - pathlib is slower to load than all of this
        started = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = started + seconds
    cpu = peak = wall = 0.0
    code: int | None = None
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            cpu += used.ru_utime + used.ru_stime
            peak = max(peak, used.ru_maxrss / 1024)
            if pid == process.pid:
                wall, code = time.monotonic() - started, os.waitstatus_to_exitcode(status)
                process.returncode = code
                deadline = min(deadline, time.monotonic() + LEFT_BEHIND)
        elif time.monotonic() > deadline:
            _end_children()
            time.sleep(0.01)
        else:
            time.sleep(0.002)
    print(json.dumps({"wall": wall, "cpu": cpu, "peak_mb": peak, "exit_code": code, "late": wall > seconds}))


def _end_children() -> None:
    """Send SIGKILL to each child by its id; this process then adopts their children."""
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
