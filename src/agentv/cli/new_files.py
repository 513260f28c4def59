"""Write files for the user, without overwriting any by accident."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from agentv.errors import UsageError


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
