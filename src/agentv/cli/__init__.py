"""The command line: a table of commands, each imported when it is used."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes, as a shell has them for SIGINT and SIGTERM."""


def main() -> None:
    """The `agentv` program. `--version` answers without loading anything else."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from agentv import __version__  # noqa: PLC0415 - nothing else is needed

        print(f"agentv {__version__}")
        return
    _fill_standard_streams()
    # Until a command listens itself: nothing has been run yet that would have to end in order.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
    from agentv.cli import quick_start  # noqa: PLC0415 - not needed for the version

    quick_start.begin()
    try:
        from agentv.cli.program import run  # noqa: PLC0415 - click is not needed for the version

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    _leave(code)


def _fill_standard_streams() -> None:
    """A standard stream that was closed goes nowhere. Else the first file opened would take its number, and output
    meant for nobody would end up in it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _leave(code: int) -> NoReturn:
    """End the process. Python would take every module apart first, which costs as much as loading asyncio."""
    atexit._run_exitfuncs()  # noqa: SLF001 - what else would be skipped
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # nobody reads any more, or the disk is full: Python's own code for it
        code = code or 120
    with suppress(OSError, ValueError):  # progress that nobody reads changes no result
        sys.stderr.flush()
    os._exit(code)
