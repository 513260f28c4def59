"""`agentv judge`: for those who write judge scripts."""

from __future__ import annotations

import importlib
from typing import Any

import click

COMMANDS = {
    "run": ("agentv.cli.judge.run:command", "Run a script on one case and show everything it does."),
    "serve": ("agentv.cli.judge.serve:command", "Open a judge proxy for interactive work."),
    "new": ("agentv.cli.judge.new:command", "Write a judge script to start from, with a test."),
}
"""name -> (where the command is, one line of help)."""


class _Group(click.Group):
    """Lists commands from the table; imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Group)
def command(**_: Any) -> None:
    """Write judge scripts: start one, run it on a case, ask the judge by hand.

    \b
    Start with:
      agentv judge new my_judge
    """
