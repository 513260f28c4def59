"""`agentv judge`: create, run and debug judge scripts."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.lazy_group import LazyGroup

COMMANDS = {
    "run": ("agentv.cli.judge.run:command", "Run a judge script on one case and show what it does."),
    "serve": ("agentv.cli.judge.serve:command", "Start a judge proxy for interactive use."),
    "agreement": ("agentv.cli.judge.agreement:command", "Compare the verdicts of a run with labels of people."),
    "new": ("agentv.cli.judge.new:command", "Create a judge script and its test."),
}
"""name -> (`module:attribute`, one line of help)."""


@click.group(cls=LazyGroup, table=COMMANDS)
def command(**_: Any) -> None:
    """Create, run and debug judge scripts.

    \b
    Start with:
      agentv judge new my_judge
    """
