"""`agentv generate`: let a model write parts of a suite."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.lazy_group import LazyGroup

COMMANDS = {
    "rubrics": ("agentv.cli.generate_rubrics:command", "Add generated rubrics to the cases of a suite."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def command(**_: Any) -> None:
    """Generate parts of a suite with a model. Review the result before you rely on it.

    \b
    Start with:
      agentv generate rubrics evals/suite.yaml --stdout
    """
