"""`agentv generate`: parts of a suite that a model can write."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.generate_rubrics import command as rubrics


@click.group()
def command(**_: Any) -> None:
    """Let a model write parts of a suite, to be read and corrected by you.

    \b
    Start with:
      agentv generate rubrics evals/suite.yaml --stdout
    """


command.add_command(rubrics, "rubrics")
