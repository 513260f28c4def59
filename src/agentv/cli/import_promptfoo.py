"""`agentv import promptfoo`: the common part of a promptfoo configuration as suites and targets."""

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
@click.option("--out", default="suite.yaml", metavar="FILE", help="The suite to write.  [suite.yaml]")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def command(file: str, out: str, force: bool) -> int:
    """Write a suite from a promptfoo configuration, and agentv.config.yaml beside it.

    Several prompts give a suite each. What is not carried over is listed with its place, and in the suite too.

    \b
    Exit code: 0 all was carried over    1 something was left out
               2 FILE cannot be read, nothing was written
    """
    source, target = Path(file), Path(out)
    if target.suffix not in (".yaml", ".yml") or target.name == CONFIG:
        raise UsageError(f"--out {out}: a suite is a .yaml file, and not {CONFIG}.")
    found = import_promptfoo(source, target.parent)
    texts = _texts(found, source, target)
    existing = [path for path in texts if path.exists()]
    if existing and not force:
        raise UsageError(
            f"{existing[0]} exists already.", next_step="Nothing was written. Use --force to overwrite it."
        )
    _validate(texts)
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from None
        click.echo(f"wrote {path}")
    return _tell(found, [path for path in texts if path.name != CONFIG])


def _texts(found: Imported, source: Path, out: Path) -> dict[Path, str]:
    """What goes into which file."""
    left_out = [note for note in found.notes if note.left_out]
    texts = {}
    for suffix, suite in found.suites.items():
        path = out.with_name(f"{out.stem}-{suffix}{out.suffix}") if suffix else out
        texts[path] = _text(f"Made from {source} by `agentv import promptfoo`.", suite, left_out)
    texts[out.with_name(CONFIG)] = _text(f"Made from the providers of {source}.", found.config, [])
    return texts


def _text(first: str, data: Mapping[str, object], left_out: Sequence[Note]) -> str:
    comments = [first, *(["", "Left out:"] if left_out else []), *(f"- {note}" for note in left_out)]
    lines = [f"# {clean(line)}".rstrip() for line in comments]
    return "\n".join([*lines, "", *yaml_lines(data)]) + "\n"


def _validate(texts: Mapping[Path, str]) -> None:
    """Everything that will be written is checked as `agentv validate` would, before any of it is."""
    with tempfile.TemporaryDirectory(prefix="agentv-import-") as name:
        folder = Path(name).resolve()
        for path, text in texts.items():
            (folder / path.name).write_text(text, encoding="utf-8")
        suites = tuple(str(folder / path.name) for path in texts if path.name != CONFIG)
        try:
            build_plan(RunOptions(paths=suites, config=str(folder / CONFIG)), folder, only_check=True)
        except InvalidFilesError as error:
            raise InvalidFilesError(
                [Problem(Path(p.path.name), p.line, p.column, p.message, p.source) for p in error.problems],
                next_step="What was made of the file has these mistakes, so nothing was written.",
            ) from None


def _tell(found: Imported, suites: Sequence[Path]) -> int:
    left_out = [note for note in found.notes if note.left_out]
    for note in found.notes:
        click.echo(clean_lines(f"{note}" if note.left_out else f"{note} (note)"), err=True)
    cases = sum(len(suite["evalcases"]) for suite in found.suites.values())
    click.echo(f"\n{plural(cases, 'case')}, {plural(len(found.targets), 'target')}; {len(left_out)} left out")
    several = found.targets if len(found.targets) > 1 else ()
    words = ["agentv", "eval", *map(str, suites), *(word for name in several for word in ("--target", name))]
    click.echo(f"Run it:  {shlex.join(words)}")
    return 1 if left_out else 0
