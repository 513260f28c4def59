"""`agentv eval --last-failed [RUN]`: a new run of the cases that did not pass in another run."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agentv.cli.new_run import NewRun
from agentv.errors import RecordError, UsageError
from agentv.plan.chosen import ChosenCases
from agentv.plan.options import OPTIONS, RECORD_JUDGE_IO, RunOptions
from agentv.record.labels import LATEST, RunLabels
from agentv.record.reading import RunReader
from agentv.record.run_dir import MANIFEST, RunDirectory, find_run
from agentv.recorded import outputs_file
from agentv.report.trials import not_passed
from agentv.run_manifest import resumed_options
from agentv.text import plural

NEWEST = "latest"
_NOT_INHERITED = ("cases", "tags", "exclude_tags", "where", "sample", "seed", "shard", "out")
"""Options of the other run that already took effect there, or that would overwrite its output."""


def last_failed(arguments: dict[str, Any], is_given: Callable[[str], bool]) -> NewRun | None:
    """The new run, or None if every case of the other run passed. Options that are not given come from that run."""
    here = Path.cwd()
    directory, path = _run_or_path(arguments["last_failed"] or NEWEST, here)
    if path is not None:
        arguments["paths"] = (path, *arguments["paths"])
    reader = RunReader(directory)
    recorded, cwd = resumed_options(reader.manifest, directory)
    rows = list(reader.heads())
    failed = not_passed(reader.rows(), reader.manifest)
    run_id = str(reader.manifest["run_id"])
    if not rows:
        raise UsageError(f"The run {run_id} has no rows.", next_step=f"Resume it: {directory.resume_command}")
    if not failed:
        click.echo(f"Every case of run {run_id} passed; nothing to run.", err=arguments["as_json"])
        return None
    given = {name: arguments[name] for name in OPTIONS if is_given(name) or (name == "paths" and arguments["paths"])}
    # Recorded paths are relative to the directory of that run.
    for name in ("paths", "prompts", "config", "outputs", "out"):
        if name in given and cwd != here:
            given[name] = _from(here, given[name])
    if is_given(RECORD_JUDGE_IO):
        given[RECORD_JUDGE_IO] = arguments[RECORD_JUDGE_IO]
    if given.get("outputs"):
        given["outputs"] = outputs_file(given["outputs"], cwd)
    if given.get("replay"):
        given["replay"] = os.path.relpath(find_run(given["replay"], here).path, cwd)
    kept = {name: getattr(recorded, name) for name in OPTIONS if name not in _NOT_INHERITED}
    labels = RunLabels(
        arguments["name"], arguments["experiment"] or RunLabels.of(reader.manifest).experiment, arguments["note"]
    )
    chosen = ChosenCases.of_rows(f"did not pass in run {run_id}", failed, {row.key.target for row in rows})
    note = f"running {plural(len(failed), 'case')} again that did not pass in run {run_id}"
    missing = int(reader.manifest.get("total") or 0) - len(rows)
    notes = [note]
    if missing > 0:
        notes.append(
            f"{plural(missing, 'row')} of that run {'is' if missing == 1 else 'are'} missing; to run them: "
            f"{directory.resume_command}"
        )
    options = RunOptions.from_dict({**kept, **given})
    return NewRun(options, cwd, labels, arguments["run_dir"], chosen, notes)


def _from(here: Path, value: Any) -> Any:
    """A path, or several, relative to `here` instead of the directory of the other run."""
    if isinstance(value, tuple):
        return tuple(str(here / item) for item in value)
    return value if value in (None, "-") else str(here / value)


def _run_or_path(value: str, here: Path) -> tuple[RunDirectory, str | None]:
    """The run that the word after `--last-failed` names. If it is the path of a suite, the newest run and the path.

    A path loses only against a run with exactly this name.
    """
    is_path = glob.has_magic(value) or ((here / value).exists() and not (here / value / MANIFEST).exists())
    if not is_path or LATEST.fullmatch(value):
        return find_run(value, here), None
    with suppress(RecordError):
        directory = find_run(value, here)
        if value in (directory.path.name, RunLabels.of(directory.read_manifest()).name):
            return directory, None
    return find_run(NEWEST, here), value
