"""`agentv init`: a suite and a configuration to start from."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import click

from agentv.errors import UsageError

TEMPLATES = {
    "agentv.config.yaml": "agentv.config.yaml",
    "evals/hello.yaml": "hello.yaml",
}
"""Where a file goes -> which template it is."""


@click.command()
@click.option("--path", "folder", default=".", metavar="DIR", help="Where to write.  [the working directory]")
@click.option("--force", is_flag=True, help="Overwrite without asking.")
def command(folder: str, force: bool) -> int:
    """Write a small suite and configuration. They use the scripted model: no key, no network."""
    root = Path(folder)
    written = [name for name in TEMPLATES if _may_write(root / name, force)]
    for name in written:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template(TEMPLATES[name]), encoding="utf-8")
        click.echo(f"wrote {path}")
    where = "" if folder == "." else f"cd {folder} && "
    click.echo(f"\nRun it:  {where}agentv eval evals/hello.yaml")
    return 0


def template(name: str) -> str:
    """The text of a template shipped with agentv."""
    return (files("agentv.cli") / "templates" / name).read_text("utf-8")


def _may_write(path: Path, force: bool) -> bool:
    if force or not path.exists():
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{path} exists already.", next_step="Nothing was written. Use --force to overwrite it.")
    return click.confirm(f"{path} exists already. Overwrite it?", default=False)
