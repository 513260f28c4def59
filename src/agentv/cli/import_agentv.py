"""`agentv import agentv`: rewrite a project of AgentV (npm) in our form."""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

import click

from agentv.cli.program import clean_lines
from agentv.errors import InvalidFilesError, UsageError
from agentv.importing.agentv import ImportedProject, import_project, write_copy
from agentv.text import plural


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--out", metavar="DIR", help="New directory for the converted project.  [write nothing]")
def command(directory: str, out: str | None) -> int:
    """Rewrite the suites and targets of a project of AgentV in our form, with their comments.

    This is optional: projects of AgentV run unchanged. Without --out, nothing is written, and the files that would
    change are listed. With it, the project is copied, and the copy is converted.

    \b
    Exit codes: 0 the project can be converted, or was converted
                2 a suite has an error or is not supported; nothing was written
    """
    root = Path(directory)
    if not root.is_dir():
        raise UsageError(f"{directory} is not a directory.", next_step="Pass the directory of the project.")
    target = Path(out) if out is not None else None
    if target is not None:
        if os.path.lexists(target):
            raise UsageError(f"{out} already exists.", next_step="Choose a new directory with --out.")
        if target.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"--out {out} is in the project.", next_step="Choose a directory outside of it.")
    project = import_project(root)
    if project.problems:
        raise InvalidFilesError(list(dict.fromkeys(project.problems)), next_step="Nothing was written.")
    if not (project.contents or project.unchanged):
        raise UsageError(f"{directory} contains no suites and no targets of AgentV.")
    _convert(project, target)
    for note in project.notes:
        click.echo(clean_lines(f"note: {note}"), err=True)
    verb = "would convert" if target is None else "converted"
    for path in project.contents:
        click.echo(f"{verb} {path}")
    unchanged = f"; {plural(len(project.unchanged), 'suite')} unchanged" if project.unchanged else ""
    click.echo(f"\n{plural(len(project.contents), 'file')}{unchanged}")
    if target is not None:
        click.echo(f"Compare them:  git diff --no-index {root} {target}")
    elif project.contents:
        click.echo("Nothing was written. To write a converted copy, add --out DIR.")
    return 0


def _convert(project: ImportedProject, target: Path | None) -> None:
    """Convert a copy, which becomes the target if it is complete and has the same cases."""
    parent = project.root.resolve().parent if target is None else target.resolve().parent
    draft = parent / f".agentv-import-{secrets.token_hex(4)}"
    try:
        if different := write_copy(project, draft):
            raise UsageError(
                f"{project.root / different[0]} would have other cases after the conversion, so nothing was written.",
                next_step="This is a bug in agentv. Please report it with the suite.",
            )
        if target is not None:
            draft.rename(target)
    except InvalidFilesError as error:
        problems = [
            replace(problem, path=project.root / problem.path.resolve().relative_to(draft))
            if problem.path.resolve().is_relative_to(draft)
            else problem
            for problem in error.problems
        ]
        raise InvalidFilesError(
            problems, next_step="The converted files have these problems. Pass the root of the project."
        ) from None
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
