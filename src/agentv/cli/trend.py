"""`agentv trend`: how the mean score of suites develops over runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import click

from agentv.cli.runs import json_text, selected
from agentv.record.catalog import Catalog, RunEntry, read_entry
from agentv.record.run_dir import RUNS, find_run
from agentv.report.run_list import ListedRun
from agentv.report.terminal import Look, can_print_unicode, terminal_width, wants_color
from agentv.report.trend import TrendLine, build_trend
from agentv.report.trend_console import render_trend


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--suite", metavar="SUITE", help="Only this suite (name or file).")
@click.option("--target", metavar="NAME", help="Only this target.")
@click.option("--experiment", metavar="NAME", help="Only runs of this experiment.")
@click.option(
    "--last", type=click.IntRange(1), default=10, metavar="N", help="Number of runs per suite and target.  [10]"
)
@click.option("--fail-on-degrading", is_flag=True, help="Exit with 1 if the latest run is significantly worse.")
@click.option("--json", "as_json", is_flag=True, help="Print the trend as a JSON object.")
def command(
    *,
    runs: tuple[str, ...],
    suite: str | None,
    target: str | None,
    experiment: str | None,
    last: int,
    fail_on_degrading: bool,
    as_json: bool,
) -> int:
    """Show the mean score of each suite and target over its latest runs.

    Only finished runs count, and only cases that all runs have scored. The line breaks where cases, a judge script, a
    judge or the configuration changed. RUNs are the runs to use instead of those in .agentv/runs.

    \b
    Exit codes: 0 the trend was shown
                1 with --fail-on-degrading: the latest run is significantly
                  worse than the runs before it
                2 invalid options or files
    """
    cwd = Path.cwd()
    catalog = Catalog(cwd)
    entries = _entries(catalog, runs, cwd)
    suites = None
    if suite is not None or experiment is not None:
        listed = selected([ListedRun(entry) for entry in entries], suite, experiment, cwd)
        entries = [run.entry for run in listed]
        suites = {name for run in listed for name in run.names_of(suite, cwd)} if suite is not None else None
    lines = build_trend(entries, suites=suites, target=target, last=last)
    degrading = any(line.is_degrading for line in lines)
    if as_json:
        found = {"lines": [line.to_dict() for line in lines], "degrading": degrading}
        click.echo(json_text(found))
    else:
        look = Look(wants_color(sys.stdout, os.environ), terminal_width(), can_print_unicode(sys.stdout))
        nothing = f"There are no finished runs{f' of target {target!r}' if target else ''} in {RUNS}."
        click.echo(render_trend(lines, catalog.ids(), look, datetime.now(UTC)) if lines else nothing, color=True)
    if fail_on_degrading:
        _explain(lines)
    return 1 if fail_on_degrading and degrading else 0


def _entries(catalog: Catalog, runs: Iterable[str], cwd: Path) -> list[RunEntry]:
    """The runs, newest first."""
    if not runs:
        return list(catalog.entries())
    entries = [read_entry(directory) for directory in dict.fromkeys(find_run(run, cwd).path for run in runs)]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(entries, key=lambda entry: (entry.started or oldest, entry.id), reverse=True)


def _explain(lines: Iterable[TrendLine]) -> None:
    """Say on stderr what decided the exit code."""
    tested = [line for line in lines if line.too_little() is None]
    for line in tested:
        if line.is_degrading:
            click.echo(f"exit code 1: {line.key.suite} is degrading with target {line.key.target}", err=True)
    if not tested:
        click.echo("exit code 0: too little data to test the latest run", err=True)
