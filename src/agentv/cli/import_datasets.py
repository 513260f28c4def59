"""`agentv import deepeval` and `agentv import ragas`: convert their datasets to a suite."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from agentv import jsonio
from agentv.cli.import_files import print_notes, rendered, suite_path, write
from agentv.importing.datasets import DEEPEVAL, RAGAS, Kind, import_dataset
from agentv.text import plural

_OUT = click.option("--out", default="suite.yaml", metavar="FILE", help="Suite file to write.  [suite.yaml]")
_FORCE = click.option("--force", is_flag=True, help="Overwrite existing files.")


@click.command()
@click.argument("file", metavar="FILE")
@_OUT
@_FORCE
def deepeval(file: str, out: str, force: bool) -> int:
    """Convert goldens or test cases of DeepEval (JSON, JSON Lines, CSV) to a suite.

    The suite reads FILE as it is if it can. Otherwise its rows become cases, and recorded answers are written to a file
    for `agentv eval --outputs`.

    \b
    Exit codes: 0 everything was converted    1 some rows were left out
                2 FILE is invalid, nothing was written
    """
    return _convert(file, out, DEEPEVAL, force=force)


@click.command()
@click.argument("file", metavar="FILE")
@_OUT
@_FORCE
def ragas(file: str, out: str, force: bool) -> int:
    """Convert an evaluation dataset or testset of Ragas (JSON Lines, CSV, JSON) to a suite.

    The suite reads FILE as it is if it can. Otherwise its rows become cases, and recorded answers are written to a file
    for `agentv eval --outputs`.

    \b
    Exit codes: 0 everything was converted    1 some rows were left out
                2 FILE is invalid, nothing was written
    """
    return _convert(file, out, RAGAS, force=force)


def _convert(file: str, out: str, kind: Kind, *, force: bool) -> int:
    source, target = Path(file), suite_path(out)
    imported = import_dataset(source, target.parent, kind)
    left_out = [str(note) for note in imported.notes if note.left_out]
    title = f"Created from {source} by `agentv import {kind.name}`."
    contents = {target: rendered(title, imported.suite, {"Left out:": left_out})}
    answers = target.with_suffix(".answers.jsonl")
    if imported.answers:
        contents[answers] = "".join(_line(row) for row in imported.answers)
    write(contents, force=force)
    count = print_notes(imported.notes)
    click.echo(f"\n{plural(imported.cases, 'case')}; {count} left out")
    click.echo(f"Run it:  {shlex.join(['agentv', 'eval', str(target)])}")
    if imported.answers:
        click.echo(
            f"Grade the recorded answers:  {shlex.join(['agentv', 'eval', str(target), '--outputs', str(answers)])}"
        )
    return 1 if count else 0


def _line(row: dict[str, Any]) -> str:
    return jsonio.dump_line(row) + "\n"
