"""Threads that imports of warm scripts start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agentv.processes.launcher import Launcher

from .warm_support import script, warm, why_cold, write

WORKER = """
import os, queue, threading
JOBS, DONE = queue.Queue(), queue.Queue()

class Worker(threading.Thread):
    def __init__(self):
        super().__init__(name="worker", daemon=True)
    def start(self):
        super().start()
        self.started_by = os.getpid()
    def run(self):
        while True:
            DONE.put((JOBS.get(), os.getpid()))

WORKER = Worker()
WORKER.start()
assert WORKER.is_alive()
"""


async def test_daemon_threads_of_imports_run_in_each_execution(launcher: Launcher, tmp_path: Path) -> None:
    write(tmp_path, WORKER, "worker.py")
    write(
        tmp_path,
        """
        import worker
        import os, sys, threading
        worker.JOBS.put(sys.stdin.read())
        job, pid = worker.DONE.get()
        print(job, pid == os.getpid(), worker.WORKER.is_alive(), [each.name for each in threading.enumerate()])
        print(threading.Thread.start.__module__, threading.Condition.wait.__code__.co_filename == threading.__file__)
        """,
    )
    for number in range(3):
        outcome = await warm(launcher, script(tmp_path, stdin=b"%d" % number))
        assert outcome.stdout == b"%d True True ['MainThread', 'worker']\nthreading True\n" % number, outcome.stderr


async def test_thread_that_ends_during_the_imports_does_not_matter(launcher: Launcher, tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import threading
        FOUND = []
        for daemon in (True, False):
            thread = threading.Thread(target=FOUND.append, args=(daemon,), daemon=daemon)
            thread.start()
            thread.join()
        """,
        "waits.py",
    )
    write(tmp_path, "import waits\nprint(waits.FOUND)")
    assert (await warm(launcher, script(tmp_path))).stdout == b"[True, False]\n"


THREAD = "import threading, time\n"
REFUSED = {
    "not a daemon": (
        THREAD + "threading.Thread(target=time.sleep, args=(0.5,), name='slow').start()\nTHREADS = 1",
        "its imports start threads (slow of `starts`)",
    ),
    "without an object": (
        "import _thread, time\ndef watch():\n    time.sleep(0.5)\n_thread.start_new_thread(watch, ())\nTHREADS = 1",
        "its imports start threads (watch of `starts`)",
    ),
    "waited for": (
        THREAD + "READY = threading.Event()\ndef run():\n    READY.set()\n    time.sleep(60)\n"
        "threading.Thread(target=run, name='waited', daemon=True).start()\nREADY.wait()\nTHREADS = 1",
        "its imports start threads (waited of `starts`)",
    ),
    "restarted": (
        THREAD + "import os\ndef start():\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "start()\nos.register_at_fork(after_in_child=start)\nTHREADS = 1",
        "its imports start threads again after a fork",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_threads_that_cannot_be_postponed_start_the_script_cold(
    launcher: Launcher, tmp_path: Path, name: str
) -> None:
    code, expected = REFUSED[name]
    write(tmp_path, code, "starts.py")
    write(tmp_path, "import starts\nprint(starts.THREADS)")
    started = time.monotonic()
    outcome, reasons = await why_cold(launcher, script(tmp_path))
    assert (outcome.stdout, reasons) == (b"1\n", [expected])
    assert time.monotonic() - started < 25, "the zygote waited for the thread"


async def test_script_with_a_postponed_thread_ends_as_one_without(launcher: Launcher, tmp_path: Path) -> None:
    """Exit handlers run, files are flushed, and the thread does not keep the process alive."""
    write(
        tmp_path,
        """
        import atexit, threading, time
        RUNNING = threading.Event()
        def run():
            RUNNING.set()
            time.sleep(60)
        threading.Thread(target=run, daemon=True).start()
        atexit.register(print, "bye")
        """,
        "starts.py",
    )
    write(
        tmp_path, "import starts\nstarts.RUNNING.wait()\nfile = open('out.txt', 'w')\nfile.write('kept')\nprint('end')"
    )
    started = time.monotonic()
    outcome = await warm(launcher, script(tmp_path))
    assert (outcome.stdout, outcome.stderr, outcome.returncode) == (b"end\nbye\n", b"", 0)
    assert (tmp_path / "out.txt").read_text() == "kept"
    assert time.monotonic() - started < 30
