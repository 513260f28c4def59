"""`agentv init --from`: a first suite and configuration from files that exist already."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from agentv.cli.new_files import write_files
from agentv.cli.yaml_file import yaml_file
from agentv.errors import UsageError
from agentv.importing.csv_columns import CsvColumns, read_columns
from agentv.importing.openapi import read_operations
from agentv.suite.files import repository_root
from agentv.targets.config import config_in
from agentv.text import plural

CONFIG = "agentv.config.yaml"
_MOCK = {
    "targets": {"scripted": {"provider": "mock", "response": "Replace this scripted target with your own."}},
}
_ABOUT_MOCK = (
    "A scripted target, so that the suite runs offline and without an API key.",
    "Replace it with your application: a model, a command (`provider: cli`), or an HTTP API.",
)


def start_from(kind: str, file: str | None, folder: Path, operations: tuple[str, ...], *, force: bool) -> int:
    """Write the files and return the exit code."""
    if operations and kind != "openapi":
        raise UsageError("--operation can only be used with --from openapi.")
    if kind == "promptfoo":
        from agentv.cli.import_promptfoo import convert  # noqa: PLC0415 - the others do not need it

        return convert(Path(file or "promptfooconfig.yaml"), folder / "evals" / "suite.yaml", force=force)
    if file is None:
        example = "questions.csv" if kind == "csv" else "openapi.yaml"
        raise UsageError(f"--from {kind} needs a file.", next_step=f"For example: agentv init --from {kind} {example}")
    source = Path(file)
    if not source.is_file():
        raise UsageError(f"There is no file '{file}'.")
    suite = (
        _from_csv(source, folder, force=force)
        if kind == "csv"
        else _from_openapi(source, folder, operations, force=force)
    )
    click.echo(f"\nRun it:  {shlex.join(['agentv', 'eval', str(suite)])}")
    return 0


# -- CSV


def _from_csv(source: Path, folder: Path, *, force: bool) -> Path:
    columns = read_columns(source)
    suite = _suite_path(source, folder)
    dataset: dict[str, Any] = {"file": Path(os.path.relpath(source.absolute(), suite.absolute().parent)).as_posix()}
    if columns.mapping:
        dataset["columns"] = columns.mapping
    if columns.delimiter != "," and source.suffix.lower() == ".csv":
        dataset["delimiter"] = columns.delimiter
    contents = {
        str(suite): yaml_file(_about(source, columns), {"execution": _evaluators(columns), "evalcases": dataset})
    }
    if config_in(folder) is None:
        contents[str(folder / CONFIG)] = yaml_file(_ABOUT_MOCK, _MOCK)
    write_files(Path(), contents, force=force)
    click.echo(f"\n{plural(columns.rows, 'row')}, {plural(len(columns.names), 'column')}:")
    for field, column in columns.fields.items():
        click.echo(f"  {field:<18}{column}")
    others = [name for name in columns.names if name not in columns.fields.values()]
    if others:
        click.echo(f"  {'variables only':<18}{', '.join(others)}")
    return suite


def _suite_path(source: Path, folder: Path) -> Path:
    """In `evals` if the suite can read the file from there, else next to the file."""
    name = f"{source.stem}.yaml"
    root = repository_root(folder.absolute())
    inside = root is not None and source.resolve().is_relative_to(root.resolve())
    return folder / "evals" / name if inside else source.with_name(name)


def _about(source: Path, columns: CsvColumns) -> list[str]:
    lines = [f"Created from {source.name} by `agentv init --from csv`. Each row is a case.", ""]
    lines += [f"{field}: column '{column}'" for field, column in columns.fields.items()]
    return [*lines, "All columns are also variables, such as {{ column }}."]


def _evaluators(columns: CsvColumns) -> dict[str, Any]:
    """Evaluators that run without a model."""
    if "reference_answer" in columns.fields:
        return {"evaluators": [{"type": "icontains"}]}  # by default, the reference answer
    return {"evaluators": [{"name": "not-empty", "type": "regex", "pattern": r"\S"}]}


# -- OpenAPI


def _from_openapi(source: Path, folder: Path, wanted: tuple[str, ...], *, force: bool) -> Path:
    operations = read_operations(source, wanted)
    suite = folder / "evals" / f"{source.stem}.yaml"
    config = {
        "targets": {each.name: each.settings for each in operations},
        "defaults": {"target": operations[0].name},
    }
    notes = [f"target '{each.name}': {note}" for each in operations for note in each.notes]
    about = [f"Created from {source.name} by `agentv init --from openapi`.", *([""] if notes else []), *notes]
    case = {
        "id": "first-question",
        "input": "Write a question for your API here.",
        "evaluators": [{"name": "not-empty", "type": "regex", "pattern": r"\S"}],
    }
    write_files(
        Path(),
        {
            str(folder / CONFIG): yaml_file(about, config),
            str(suite): yaml_file([f"Questions for the API in {source.name}."], {"evalcases": [case]}),
        },
        force=force,
    )
    click.echo("")
    for each in operations:
        click.echo(f"target {each.name}: POST {each.settings['url']}")
    for note in notes:
        click.echo(f"note: {note}", err=True)
    return suite
