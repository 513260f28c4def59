"""`agentv schema`: the JSON Schema of both files."""

from __future__ import annotations

import json

import click

from agentv.plan.schema import config_schema, suite_schema


@click.command()
@click.option("--only", type=click.Choice(["suite", "config"]), help="Print this schema alone, as an editor wants it.")
def command(only: str | None) -> int:
    """Print one JSON object with `suite` and `config`: the JSON Schema of suite files and of the configuration.

    For VS Code's YAML extension, write each to a file with --only and name it under `yaml.schemas`.
    """
    schemas = {"suite": suite_schema, "config": config_schema}
    shown = schemas[only]() if only else {name: make() for name, make in schemas.items()}
    click.echo(json.dumps(shown, indent=2))
    return 0
