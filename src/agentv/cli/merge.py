"""`agentv merge`: join the runs of shards in one run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from agentv.cli.shard_runs import (
    PARTIAL,
    ShardRun,
    differences,
    duration_of,
    finished_at,
    merged_manifest,
    missing_shards,
    not_run,
    refuse_incomplete,
    shard_runs,
)
from agentv.errors import RunChangedError
from agentv.record.merging import RecordMerge, discard
from agentv.record.run_dir import RUNS, RunDirectory, new_run_id
from agentv.report.console import render_summary
from agentv.report.questions import show_hint, with_questions
from agentv.report.summary import Summary, SummaryBuilder
from agentv.report.terminal import can_print_unicode, terminal_width, wants_color
from agentv.text import plural, short_path


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--run-dir", metavar="DIR", help="Directory for the merged run.  [.agentv/runs/<run-id>]")
@click.option("--name", metavar="NAME", help="Name of the merged run.  [the name of the shards, if they share one]")
@click.option("--allow-changed", is_flag=True, help="Merge shards of different suites, configurations or options.")
@click.option("--partial", is_flag=True, help="Merge although shards are missing or incomplete (exit code 3).")
@click.option("--quiet", "-q", is_flag=True, help="Do not print notes or the summary.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as a JSON object on stdout.")
def command(
    *,
    runs: tuple[str, ...],
    run_dir: str | None,
    name: str | None,
    allow_changed: bool,
    partial: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Join the runs of shards (`agentv eval --shard I/N`) in one run.

    RUN... are ids, names or directories. If several runs have a row of the same attempt, the first one without an
    error counts, else the last; the others go to superseded.jsonl. The runs of the shards are not changed.

    Exit codes are those of `agentv eval` for all rows.
    """
    cwd = Path.cwd()
    parts = shard_runs(runs, cwd)
    changed = differences(parts)
    if changed and not allow_changed:
        raise RunChangedError(
            "the runs are not shards of the same run:\n" + "\n".join(f"  {line}" for line in changed[:20]),
            next_step="Run all shards with the same files and options, or use --allow-changed to mix the results.",
        )
    with RecordMerge([part.part() for part in parts]) as merge:
        merge.survey()
        missing = missing_shards(parts, merge)
        if not partial:
            refuse_incomplete(missing, parts)
        run_id = new_run_id()
        manifest = merged_manifest(parts, merge, missing, run_id, name)
        run = RunDirectory.create(cwd / (run_dir or RUNS / run_id), manifest)
        notes = [f"merged despite a difference: {line}" for line in changed[:20]]
        notes += [f"shard {shard} is missing or incomplete: {reason}" for shard, reason in list(missing.items())[:20]]
        summary = _merged(merge, run, manifest, parts)
    notes += _notes(merge)
    if not quiet:
        for note in notes:
            click.echo(f"note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(_report(summary, run, run_id), indent=2, allow_nan=False))
    elif not quiet:
        click.echo(_shown(summary, run, cwd))
    return summary.exit_code


def _merged(merge: RecordMerge, run: RunDirectory, manifest: dict[str, Any], parts: list[ShardRun]) -> Summary:
    """Write the record. Until the last write of `run.json`, the run counts as running; after a kill, as interrupted."""
    builder = SummaryBuilder.of(manifest)
    builder.not_run, builder.why_not_run = not_run(parts)
    with run.lock():
        try:
            merge.write(run, manifest["run_id"], builder.add)
            summary = builder.build(duration_seconds=duration_of(parts))
            if summary.worst:
                summary = with_questions(summary, run.results, indexed=False)
            manifest["status"] = (
                PARTIAL if summary.missing_shards else "out of budget" if summary.not_run else "finished"
            )
            manifest["finished_at"] = finished_at(parts)
            manifest["summary"] = summary.to_dict()
            run.write_manifest(manifest)
        except BaseException:
            discard(run)
            raise
    return summary


def _notes(merge: RecordMerge) -> list[str]:
    notes = []
    if merge.duplicates:
        rows = plural(merge.duplicates, "duplicate row")
        notes.append(f"{rows} {'was' if merge.duplicates == 1 else 'were'} set aside in superseded.jsonl")
    notes += [
        f"{part.directory.results}: {plural(part.damaged, 'damaged line')} set aside in results.corrupt.jsonl "
        f"(the first is line {part.first_damaged})"
        for part in merge.parts
        if part.damaged
    ]
    return notes


def _report(summary: Summary, run: RunDirectory, run_id: str) -> dict[str, Any]:
    return {**summary.to_dict(), "run_id": run_id, "run_dir": str(run.path), "exit_code": summary.exit_code}


def _shown(summary: Summary, run: RunDirectory, cwd: Path) -> str:
    return render_summary(
        summary,
        run_dir=str(short_path(run.path, cwd)),
        resume_hint=None,
        retry_hint=f"agentv eval --last-failed {run.name}",
        show_hint=show_hint(summary, run) if summary.worst or summary.error_groups else None,
        interrupted=False,
        color=wants_color(sys.stdout, os.environ),
        width=terminal_width(),
        unicode=can_print_unicode(sys.stdout),
    )
