"""`agentv schema`: print the JSON Schemas of suites and of the configuration."""

from __future__ import annotations

import json

import click

from agentv.plan.schema import config_schema, suite_schema


@click.command()
@click.option("--only", type=click.Choice(["suite", "config"]), help="Print only this schema (for editors).")
def command(only: str | None) -> int:
    """Print the JSON Schemas of suites and of the configuration.

    The output is a JSON object with the keys `suite` and `config`. For VS Code's YAML extension, write each schema to
    a file with --only, and add the files to `yaml.schemas`.
    """
    schemas = {"suite": suite_schema, "config": config_schema}
    output = schemas[only]() if only else {name: make() for name, make in schemas.items()}
    click.echo(json.dumps(output, indent=2))
    return 0
