"""`agentv import`: suites from the files of other tools."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.import_promptfoo import command as promptfoo


@click.group()
def command(**_: Any) -> None:
    """Make suites from the files of another tool, and say what could not be carried over.

    \b
    Start with:
      agentv import promptfoo promptfooconfig.yaml
    """


command.add_command(promptfoo, "promptfoo")
