"""`agentv init`: write example suites, a judge script and a configuration."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import click

from agentv.cli.new_files import write_files
from agentv.errors import UsageError

TEMPLATES = {
    "agentv.config.yaml": "agentv.config.yaml",
    "evals/hello.yaml": "hello.yaml",
    "evals/judged.yaml": "judged.yaml",
    "evals/judges/supported.py": "supported.py.txt",
}
"""Path of each file to write -> its template."""


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option(
    "--from", "kind", type=click.Choice(["promptfoo", "csv", "openapi"]), help="Start from FILE of this kind."
)
@click.option("--operation", "operations", multiple=True, metavar="NAME", help="With openapi: only this operation.")
@click.option("--path", "folder", default=".", metavar="DIR", help="Directory to write to.  [.]")
@click.option("--force", is_flag=True, help="Overwrite existing files without asking.")
def command(file: str | None, kind: str | None, operations: tuple[str, ...], folder: str, force: bool) -> int:
    """Create two example suites, a judge script and a configuration.

    The examples use scripted models, so they run without an API key or network access.

    \b
    agentv init --from promptfoo [FILE]  convert a promptfoo configuration
    agentv init --from csv FILE          read questions from a CSV file
    agentv init --from openapi FILE      call the POST operations of an API
    """
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(
            f"--path must be a directory, got the file {folder}.",
            next_step="The directory is created if it does not exist.",
        )
    if kind is not None:
        from agentv.cli.init_from import start_from  # noqa: PLC0415 - the examples need none of it

        return start_from(kind, file, Path(folder), operations, force=force)
    if file is not None or operations:
        given = "FILE" if file is not None else "--operation"
        raise UsageError(
            f"{given} can only be used with --from.", next_step="For example: agentv init --from csv qa.csv"
        )
    write_files(Path(folder), {name: template(source) for name, source in TEMPLATES.items()}, force=force)
    cd = "" if folder == "." else f"cd {shlex.quote(folder)} && "
    click.echo(f"\nRun it:  {cd}agentv eval")
    return 0


def template(name: str) -> str:
    """The content of a template shipped with agentv."""
    return (files("agentv.cli") / "templates" / name).read_text("utf-8")
