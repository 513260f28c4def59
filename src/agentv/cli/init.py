"""`agentv init`: write example suites, a judge script and a configuration."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import click

from agentv.errors import UsageError

TEMPLATES = {
    "agentv.config.yaml": "agentv.config.yaml",
    "evals/hello.yaml": "hello.yaml",
    "evals/judged.yaml": "judged.yaml",
    "evals/judges/supported.py": "supported.py.txt",
}
"""Path of each file to write -> its template."""


@click.command()
@click.option("--path", "folder", default=".", metavar="DIR", help="Directory to write to.  [.]")
@click.option("--force", is_flag=True, help="Overwrite existing files without asking.")
def command(folder: str, force: bool) -> int:
    """Create two example suites, a judge script and a configuration.

    The examples use scripted models, so they run without an API key or network access.
    """
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(
            f"--path must be a directory, got the file {folder}.",
            next_step="The directory is created if it does not exist.",
        )
    write_files(Path(folder), {name: template(source) for name, source in TEMPLATES.items()}, force=force)
    cd = "" if folder == "." else f"cd {shlex.quote(folder)} && "
    click.echo(f"\nRun it:  {cd}agentv eval")
    return 0


def template(name: str) -> str:
    """The content of a template shipped with agentv."""
    return (files("agentv.cli") / "templates" / name).read_text("utf-8")


def write_files(root: Path, contents: Mapping[str, str], *, force: bool) -> None:
    """Write files into a directory and print their paths. Asks before overwriting a file; if stdin is not a terminal,
    an existing file is an error and nothing is written."""
    for name in [name for name in contents if _may_write(root / name, force)]:
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(contents[name], encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from None
        click.echo(f"wrote {path}")


def _may_write(path: Path, force: bool) -> bool:
    if force or not path.exists():
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{path} already exists.", next_step="Nothing was written. Use --force to overwrite it.")
    return click.confirm(f"{path} already exists. Overwrite it?", default=False)
