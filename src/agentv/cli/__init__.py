"""The `agentv` command line. Each command is imported only when it is used."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes for SIGINT and SIGTERM, as used by shells."""


def main() -> None:
    """Run the `agentv` program. `--version` is answered without importing anything else."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from agentv import __version__  # noqa: PLC0415 - nothing else is needed

        print(f"agentv {__version__}")
        return
    _fill_standard_streams()
    # Until a command installs its own handler, nothing is running that needs a clean shutdown.
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
    """Connect closed standard streams to the null device. Otherwise the first file opened would get the descriptor
    of a closed stream, and output would be written into that file."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _leave(code: int) -> NoReturn:
    """End the process without the interpreter's teardown, which takes as long as importing asyncio."""
    atexit._run_exitfuncs()  # noqa: SLF001 - os._exit would skip them
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # closed pipe or full disk: the exit code Python uses
        code = code or 120
    with suppress(OSError, ValueError):  # lost progress output does not change the result
        sys.stderr.flush()
    os._exit(code)
