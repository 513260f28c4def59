"""`agentv import`: convert files of other tools to suites."""

from __future__ import annotations

from typing import Any

import click

from agentv.cli.lazy_group import LazyGroup

COMMANDS = {
    "promptfoo": ("agentv.cli.import_promptfoo:command", "Convert a promptfoo configuration to a suite and targets."),
    "agentv": ("agentv.cli.import_agentv:command", "Rewrite a project of AgentV (npm), which also runs unchanged."),
    "deepeval": ("agentv.cli.import_datasets:deepeval", "Convert goldens or test cases of DeepEval to a suite."),
    "ragas": ("agentv.cli.import_datasets:ragas", "Convert a dataset of Ragas to a suite."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def command(**_: Any) -> None:
    """Convert the files of another tool to suites, and list what could not be converted.

    \b
    Start with:
      agentv import promptfoo promptfooconfig.yaml
      agentv import agentv .
      agentv import deepeval goldens.json
      agentv import ragas testset.csv
    """
