"""`agentv judge`: for those who write judge scripts."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.lazy_group import LazyGroup

COMMANDS = {
    "run": ("agentv.cli.judge.run:command", "Run a script on one case and show everything it does."),
    "serve": ("agentv.cli.judge.serve:command", "Open a judge proxy for interactive work."),
    "new": ("agentv.cli.judge.new:command", "Write a judge script to start from, with a test."),
}
"""name -> (where the command is, one line of help)."""


@click.group(cls=LazyGroup, table=COMMANDS)
def command(**_: Any) -> None:
    """Write judge scripts: start one, run it on a case, ask the judge by hand.

    \b
    Start with:
      agentv judge new my_judge
    """
