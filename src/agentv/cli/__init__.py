"""The command line: a table of commands, each imported when it is used."""

from __future__ import annotations

import sys


def main() -> None:
    """The `agentv` program. `--version` answers without loading anything else."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from agentv import __version__  # noqa: PLC0415 - nothing else is needed

        print(f"agentv {__version__}")
        return
    from agentv.cli.program import run  # noqa: PLC0415 - click is not needed for the version

    sys.exit(run(sys.argv[1:]))
