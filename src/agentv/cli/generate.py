"""`agentv generate`: parts of a suite that a model can write."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.lazy_group import LazyGroup

COMMANDS = {
    "rubrics": ("agentv.cli.generate_rubrics:command", "Write rubrics for the cases of a suite, into its file."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def command(**_: Any) -> None:
    """Let a model write parts of a suite, to be read and corrected by you.

    \b
    Start with:
      agentv generate rubrics evals/suite.yaml --stdout
    """
