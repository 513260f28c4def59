"""`agentv import`: suites from the files of other tools."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.lazy_group import LazyGroup

COMMANDS = {
    "promptfoo": ("agentv.cli.import_promptfoo:command", "Write suites and targets from a promptfoo configuration."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def command(**_: Any) -> None:
    """Make suites from the files of another tool, and say what could not be carried over.

    \b
    Start with:
      agentv import promptfoo promptfooconfig.yaml
    """
