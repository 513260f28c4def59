"""`agentv import promptfoo`: convert a promptfoo configuration to suites and targets."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from agentv.cli.program import clean_lines
from agentv.errors import InvalidFilesError, Problem, UsageError
from agentv.importing.promptfoo import Imported, import_promptfoo
from agentv.importing.source import Note
from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions
from agentv.report.terminal import clean
from agentv.suite.edit import yaml_lines
from agentv.text import plural

CONFIG = "agentv.config.yaml"


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--out", default="suite.yaml", metavar="FILE", help="Suite file to write.  [suite.yaml]")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(file: str, out: str, force: bool) -> int:
    """Convert a promptfoo configuration to a suite, with agentv.config.yaml next to it.

    Each prompt becomes a suite. Anything that cannot be converted is listed with its line, and in a comment in the
    suite.

    \b
    Exit codes: 0 everything was converted    1 some parts were left out
                2 FILE is invalid, nothing was written
    """
    source, target = Path(file), Path(out)
    if target.suffix not in (".yaml", ".yml") or target.name == CONFIG:
        raise UsageError(f"--out must be a .yaml file other than {CONFIG}, got {out}.")
    imported = import_promptfoo(source, target.parent)
    contents = _files(imported, source, target)
    existing = [path for path in contents if path.exists()]
    if existing and not force:
        raise UsageError(
            f"{existing[0]} already exists.", next_step="Nothing was written. Use --force to overwrite it."
        )
    _validate(contents)
    for path, text in contents.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from None
        click.echo(f"wrote {path}")
    return _print_report(imported, [path for path in contents if path.name != CONFIG])


def _files(imported: Imported, source: Path, out: Path) -> dict[Path, str]:
    """The content of each file to write."""
    left_out = [note for note in imported.notes if note.left_out]
    contents = {}
    for suffix, suite in imported.suites.items():
        path = out.with_name(f"{out.stem}-{suffix}{out.suffix}") if suffix else out
        contents[path] = _render(f"Created from {source} by `agentv import promptfoo`.", suite, left_out)
    contents[out.with_name(CONFIG)] = _render(f"Created from the providers in {source}.", imported.config, [])
    return contents


def _render(title: str, data: Mapping[str, object], left_out: Sequence[Note]) -> str:
    comments = [title, *(["", "Left out:"] if left_out else []), *(f"- {note}" for note in left_out)]
    lines = [f"# {clean(line)}".rstrip() for line in comments]
    return "\n".join([*lines, "", *yaml_lines(data)]) + "\n"


def _validate(contents: Mapping[Path, str]) -> None:
    """Check all files as `agentv validate` does, before any of them is written."""
    with tempfile.TemporaryDirectory(prefix="agentv-import-") as name:
        folder = Path(name).resolve()
        for path, text in contents.items():
            (folder / path.name).write_text(text, encoding="utf-8")
        suites = tuple(str(folder / path.name) for path in contents if path.name != CONFIG)
        try:
            # Programs are not searched: the files are not yet where they will be.
            build_plan(RunOptions(paths=suites, config=str(folder / CONFIG)), folder, only_check=True, search=False)
        except InvalidFilesError as error:
            raise InvalidFilesError(
                [Problem(Path(p.path.name), p.line, p.column, p.message, p.source) for p in error.problems],
                next_step="The converted files have these problems, so nothing was written.",
            ) from None


def _print_report(imported: Imported, suites: Sequence[Path]) -> int:
    left_out = [note for note in imported.notes if note.left_out]
    for note in imported.notes:
        click.echo(clean_lines(f"{note}" if note.left_out else f"{note} (note)"), err=True)
    cases = sum(len(suite["evalcases"]) for suite in imported.suites.values())
    click.echo(f"\n{plural(cases, 'case')}, {plural(len(imported.targets), 'target')}; {len(left_out)} left out")
    shown_targets = imported.targets if len(imported.targets) > 1 else ()
    words = ["agentv", "eval", *map(str, suites), *(word for name in shown_targets for word in ("--target", name))]
    click.echo(f"Run it:  {shlex.join(words)}")
    if len(suites) > 1:
        click.echo("Compare two prompts:")
        for run, suite in zip("ab", suites, strict=False):
            click.echo(f"  {shlex.join(['agentv', 'eval', str(suite), '--run-dir', run])}")
        click.echo("  agentv compare a b")
    return 1 if left_out else 0
