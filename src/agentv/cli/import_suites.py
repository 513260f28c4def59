"""`agentv import`: convert files of other tools to suites."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.lazy_group import LazyGroup

COMMANDS = {
    "promptfoo": ("agentv.cli.import_promptfoo:command", "Convert a promptfoo configuration to suites and targets."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def command(**_: Any) -> None:
    """Convert the files of another tool to suites, and list what could not be converted.

    \b
    Start with:
      agentv import promptfoo promptfooconfig.yaml
    """
