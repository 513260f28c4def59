"""`agentv init`: suites, a judge script and a configuration to start from."""

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
"""Where a file goes -> which template it is."""


@click.command()
@click.option("--path", "folder", default=".", metavar="DIR", help="Where to write.  [the working directory]")
@click.option("--force", is_flag=True, help="Overwrite without asking.")
def command(folder: str, force: bool) -> int:
    """Write two small suites, a judge script and a configuration. They use scripted models: no key, no network."""
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(f"--path {folder} is a file.", next_step="Name a directory; it is made if there is none.")
    write_files(Path(folder), {name: template(source) for name, source in TEMPLATES.items()}, force=force)
    where = "" if folder == "." else f"cd {shlex.quote(folder)} && "
    click.echo(f"\nRun it:  {where}agentv eval evals/")
    return 0


def template(name: str) -> str:
    """The text of a template shipped with agentv."""
    return (files("agentv.cli") / "templates" / name).read_text("utf-8")


def write_files(root: Path, texts: Mapping[str, str], *, force: bool) -> None:
    """Write files under a directory, and say so. Asks before one is overwritten; where nobody can be asked, nothing is
    written."""
    for name in [name for name in texts if _may_write(root / name, force)]:
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[name], encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from None
        click.echo(f"wrote {path}")


def _may_write(path: Path, force: bool) -> bool:
    if force or not path.exists():
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{path} exists already.", next_step="Nothing was written. Use --force to overwrite it.")
    return click.confirm(f"{path} exists already. Overwrite it?", default=False)
