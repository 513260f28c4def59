"""`agentv schema`: print the JSON Schemas of suites and of the configuration, or set up an editor with them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentv.cli.editor_files import FOLDER, SCHEMAS, SETTINGS, add_modeline, add_to_settings, write_schemas
from agentv.errors import UsageError
from agentv.plan.discovery import find_suites
from agentv.text import short_path


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--only", type=click.Choice(["suite", "config"]), help="Print only this schema (for editors).")
@click.option("--install", is_flag=True, help="Write the schemas to .agentv/schema and add them to VS Code's settings.")
@click.option("--modeline", is_flag=True, help="Name the schema in the first line of the files in PATHS.")
def command(paths: tuple[str, ...], only: str | None, install: bool, modeline: bool) -> int:
    """Print the JSON Schemas of suites and of the configuration, or set up an editor with them.

    The output is a JSON object with the keys `suite` and `config`. With --install or --modeline, files are written
    instead. PATHS are suite files, directories, globs or configuration files, for --modeline.
    """
    if only and (install or modeline):
        raise UsageError(f"--only and --{'install' if install else 'modeline'} cannot be used together.")
    if bool(paths) is not modeline:
        problem = "--modeline needs the files to change." if modeline else "PATHS can only be used with --modeline."
        raise UsageError(problem, next_step="For example: agentv schema --modeline evals/")
    if not (install or modeline):
        output = SCHEMAS[only]() if only else {name: make() for name, make in SCHEMAS.items()}
        click.echo(json.dumps(output, indent=2))
        return 0
    root = Path.cwd()
    files = find_suites(paths, root) if modeline else []
    for path in write_schemas(root):
        click.echo(f"wrote {short_path(path, root)}")
    if install:
        click.echo(f"wrote {SETTINGS}" if add_to_settings(root) else f"{SETTINGS} already names the schemas")
        click.echo(
            f"\nVS Code needs the extension redhat.vscode-yaml. After an update of agentv, write {FOLDER} again."
        )
    for file in files:
        click.echo(f"changed {file}" if add_modeline(file, root) else f"{file} already names the schema")
    return 0
