"""`agentv runs`: list recorded runs, remove them, and write notes about them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click

from agentv.cli import quick_start
from agentv.cli.lazy_group import LazyGroup
from agentv.errors import RunLockedError, UsageError
from agentv.record.catalog import Catalog, read_entry
from agentv.record.labels import check_note
from agentv.record.run_dir import RUNS, find_run
from agentv.report.run_list import ListedRun, render_runs
from agentv.report.terminal import Look, can_print_unicode, clean, no_commands, terminal_width, wants_color
from agentv.text import all_of, did_you_mean, plural, short_path

SHOWN = 20
COMMANDS = {
    "rm": ("agentv.cli.runs:remove", "Remove runs."),
    "note": ("agentv.cli.runs:note", "Set the note of a run."),
    "prune": ("agentv.cli.runs:prune", "Remove old runs."),
}
_AGE = re.compile(r"([0-9]{1,4})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@click.group(cls=LazyGroup, table=COMMANDS, invoke_without_command=True)
@click.option("--suite", metavar="SUITE", help="Only runs of this suite (name or file).")
@click.option("--experiment", metavar="NAME", help="Only runs of this experiment.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help=f"Number of runs to list.  [{SHOWN}; with --json, all]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the runs as a JSON list.")
@click.pass_context
def command(context: click.Context, suite: str | None, experiment: str | None, limit: int | None, as_json: bool) -> int:
    """List the runs in .agentv/runs, newest first.

    MEAN is the mean score with the reach of its 95% interval. A commit with * had uncommitted changes. Every command
    that takes a run accepts its name, the beginning of its id or name, `latest`, `latest~1` and so on, or a directory.
    """
    if context.invoked_subcommand is not None:
        return 0
    quick_start.end()
    cwd = Path.cwd()
    catalog = Catalog(cwd)
    runs = [ListedRun(entry) for entry in catalog.entries()] if suite or experiment else None
    if runs is not None:
        runs = selected(runs, suite, experiment, cwd)
    shown = _first(catalog, runs, limit if limit is not None or as_json else SHOWN)
    if as_json:
        click.echo(json_text([run.to_dict() for run in shown]))
        return 0
    if not shown:
        click.echo(f"There are no runs in {RUNS}. `agentv eval` records one.")
        return 0
    look = Look(wants_color(sys.stdout, os.environ), terminal_width(), can_print_unicode(sys.stdout))
    lines = render_runs(shown, catalog.ids(), look, datetime.now(UTC))
    total = len(catalog.ids()) if runs is None else len(runs)
    if (more := total - len(shown)) > 0:
        lines += ["", look.style(f"{plural(more, 'older run')} not shown (--limit {total})", "dim")]
    click.echo("\n".join(lines), color=True)
    return 0


def _first(catalog: Catalog, runs: Sequence[ListedRun] | None, limit: int | None) -> list[ListedRun]:
    if runs is not None:
        return list(runs[:limit])
    return [ListedRun(catalog.entry(name)) for name in catalog.ids()[:limit]]


def selected(runs: list[ListedRun], suite: str | None, experiment: str | None, cwd: Path) -> list[ListedRun]:
    """The runs with this suite and this experiment. UsageError, with the names that exist, if there are none."""
    if suite is not None:
        matching = [run for run in runs if run.has_suite(suite, cwd)]
        runs = matching or _none("suite", suite, {name for run in runs for name in run.suites})
    if experiment is not None:
        matching = [run for run in runs if run.entry.labels.experiment == experiment]
        names = {run.entry.labels.experiment for run in runs}
        runs = matching or _none("experiment", experiment, {name for name in names if name is not None})
    return runs


def _none(what: str, wanted: str, names: set[str]) -> NoReturn:
    near = did_you_mean(wanted, sorted(names)).replace("`", "'")
    known = f"Recorded: {', '.join(sorted(names)[:10])}." if names else f"No run in {RUNS} has one."
    raise UsageError(f"No run has the {what} '{wanted}'{near}.", next_step=known)


@click.command(name="rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def remove(runs: tuple[str, ...], yes: bool) -> int:
    """Remove runs with all their files. A run that is being written is refused."""
    from agentv.record.removal import removable  # noqa: PLC0415 - not needed to list runs

    cwd = Path.cwd()
    directories = dict.fromkeys(_directory(run, cwd) for run in runs)
    doomed = [_Doomed(directory, removable(directory, cwd)) for directory in directories]
    return _remove(doomed, cwd, yes=yes)


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("text", metavar="TEXT")
def note(run: str, text: str) -> int:
    """Set the note of a run, shown by `agentv runs`. An empty TEXT removes it."""
    check_note(text)
    directory = find_run(run, Path.cwd())
    with directory.lock():
        directory.write_manifest({**directory.read_manifest(), "note": text.strip() or None})
    click.echo(f"{'noted' if text.strip() else 'removed the note of'} {directory.path.name}")
    return 0


@click.command()
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the newest N runs.")
@click.option("--older-than", metavar="AGE", help="Remove only runs older than this: 12h, 30d, 8w.")
@click.option("--all", "everything", is_flag=True, help="Also remove runs with a name or a note.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def prune(keep: int | None, older_than: str | None, everything: bool, dry_run: bool, yes: bool) -> int:
    """Remove old runs from .agentv/runs.

    Runs that are being written, and directories that cannot be read, are kept. Without --all, runs with a name or a
    note are kept, too.
    """
    from agentv.record.removal import removable  # noqa: PLC0415 - not needed to list runs

    if keep is None and older_than is None:
        raise UsageError(
            "--keep or --older-than is needed.", next_step="For example: agentv runs prune --older-than 30d"
        )
    cwd, oldest = Path.cwd(), datetime.now(UTC) - _age(older_than)
    readable = [entry for entry in Catalog(cwd).entries() if entry.problem is None]
    old = [entry for entry in readable[keep or 0 :] if entry.started is not None and entry.started <= oldest]
    spared = [] if everything else [entry for entry in old if entry.labels.name or entry.labels.note]
    doomed = [entry for entry in old if entry not in spared and entry.status() != "running"]
    if spared:
        click.echo(f"kept {plural(len(spared), 'run')} with a name or a note (--all removes them, too)")
    if not doomed:
        click.echo("There are no runs to remove.")
        return 0
    return _remove([_Doomed(e.directory, removable(e.directory, cwd)) for e in doomed], cwd, yes=yes, dry_run=dry_run)


class _Doomed(NamedTuple):
    directory: Path
    size: int


def _remove(runs: Sequence[_Doomed], cwd: Path, *, yes: bool, dry_run: bool = False) -> int:
    """Show the runs, ask, and remove them. The exit code is 3 if one of them is being written."""
    from agentv.record.removal import remove_run  # noqa: PLC0415 - not needed to list runs

    for directory, size in runs:
        click.echo(f"{_described(directory, cwd)}  {format_bytes(size)}")
    total = f"{plural(len(runs), 'run')}, {format_bytes(sum(size for _, size in runs))}"
    if dry_run:
        click.echo(f"{total}: nothing was removed (--dry-run)")
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"{total}: nothing was removed.", next_step="Use --yes to remove without being asked.")
        if not click.confirm(f"Remove {total}?", default=False):
            click.echo("nothing was removed")
            return 0
    code, freed, removed = 0, 0, 0
    for directory, size in runs:
        try:
            left = remove_run(directory, cwd)
        except RunLockedError as error:
            click.echo(f"agentv: {error.message}; it was not removed", err=True)
            code = 3
            continue
        freed, removed = freed + size, removed + 1
        if left:
            click.echo(f"kept in {directory}, because it is not part of the run: {all_of(left)}")
    click.echo(f"removed {plural(removed, 'run')}, {format_bytes(freed)}")
    return code


def _directory(run: str, cwd: Path) -> Path:
    """The directory of a run. A broken one in `.agentv/runs` is found by its whole id."""
    inside = cwd / RUNS / run
    if run and "/" not in run and run not in (".", "..") and os.path.lexists(inside):
        return inside
    return find_run(run, cwd).path


def _described(directory: Path, cwd: Path) -> str:
    labels = read_entry(directory).labels
    words = [str(short_path(directory, cwd / RUNS)), labels.name and f"({labels.name})", labels.note]
    return clean(no_commands("  ".join(word for word in words if word)))


def _age(text: str | None) -> timedelta:
    if text is None:
        return timedelta(0)
    if match := _AGE.fullmatch(text.strip()):
        return int(match[1]) * _UNITS[match[2]]
    raise UsageError(
        f"--older-than must be a number of hours, days or weeks, got {text!r}.", next_step="Use 12h, 30d or 8w."
    )


def json_text(value: Any) -> str:
    """Indented JSON. CI systems run `##[command]` anywhere in a log; escaping the first `#` keeps the JSON equal."""
    return json.dumps(value, indent=2, allow_nan=False).replace("##", "\\u0023#")


def format_bytes(count: int) -> str:
    """A size: "512 bytes", "12 kB", "3.4 MB"."""
    if count < 1000:
        return plural(count, "byte")
    value, units = count / 1000, iter(("kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if value >= 9.95 else f"{value:.1f} {unit}"
