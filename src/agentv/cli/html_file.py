"""Write a run, or a comparison of two, as one HTML file: for `agentv report` and `agentv compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentv.cli.out_file import write_out
from agentv.errors import UsageError
from agentv.record.run_dir import MANIFEST, RESULTS, RunDirectory, find_run
from agentv.report.terminal import is_terminal

if TYPE_CHECKING:
    from agentv.view.file import WithDetails

STDOUT = "-"
ANOTHER_FILE = "Choose another file."


def write_html(
    run: str,
    out: str | None,
    *,
    option: str = "--out",
    baseline: str | None = None,
    details: WithDetails | None = None,
    share: bool = False,
    at_comparison: bool = False,
) -> None:
    """Write the file, and print its size and what is not in it to stderr. `option` is the one that named the file."""
    from agentv.view.file import RunFile, shown_size  # noqa: PLC0415 - only for this format
    from agentv.view.file_rows import LARGEST  # noqa: PLC0415
    from agentv.view.library import Library  # noqa: PLC0415

    _refuse(out, option)
    root = Path.cwd()
    chosen = _directory(run, root)
    other = None if baseline is None else _directory(baseline, root)
    if other is not None and other.path.resolve() == chosen.path.resolve():
        raise UsageError(f"{baseline} and {run} are the same run.", next_step="Choose another run to compare with.")
    library = Library(root, [str(directory.path) for directory in (chosen, other) if directory is not None])
    addresses = {library.directory(head["address"]).path: head["address"] for head in library.runs()["runs"]}
    second = None if other is None else addresses[other.path]
    file = RunFile(library, addresses[chosen.path], second, details, share=share, at_comparison=at_comparison)
    write_out(out, file)
    for note in file.notes:
        click.echo(f"note: {note}", err=True)
    if out is not None and out != STDOUT:
        size = Path(out).stat().st_size
        if size > LARGEST and details != "failures" and file.is_complete:
            click.echo("note: The file is large. --with failures writes only the cases that did not pass.", err=True)
        click.echo(f"wrote {out} ({shown_size(size)})", err=True)


def _directory(name: str, root: Path) -> RunDirectory:
    path = root / name
    if path.name == RESULTS and (path.parent / MANIFEST).is_file():
        return RunDirectory.open(path.parent)
    if name and path.is_file():
        raise UsageError(
            f"{name} is a file without its run.", next_step="Specify a run for the HTML file: its id or its directory."
        )
    return find_run(name, root)


def _refuse(out: str | None, option: str) -> None:
    """Raise UsageError if the file cannot be written there."""
    if out is None or out == STDOUT:
        if option != "--out":
            raise UsageError(f"{option} must be a file, got '{out}'.")
        if is_terminal(sys.stdout):
            raise UsageError("The HTML file is not printed to a terminal.", next_step="Add --out report.html.")
    elif Path(out).is_dir():
        raise UsageError(f"{option} must be a file, got the directory '{out}'.", next_step=ANOTHER_FILE)
    elif (Path(out).resolve().parent / MANIFEST).is_file():
        raise UsageError(f"{option} {out} is in the directory of a run.", next_step=ANOTHER_FILE)
