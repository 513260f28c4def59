"""`agentv show`: look at one case of a run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import click

from agentv.errors import RecordError, UsageError
from agentv.record.catalog import Catalog
from agentv.record.labels import RunLabels
from agentv.record.reading import RunReader
from agentv.record.run_dir import RESULTS, RunDirectory, find_run
from agentv.report.case_commands import CaseCommands
from agentv.report.case_view import CaseView
from agentv.report.choosing import (
    Choice,
    Wanted,
    case_names,
    choose,
    counterpart,
    largest_drop,
    listed,
    matching,
    passed,
    worst_first,
)
from agentv.report.terminal import Look, can_print_unicode, is_terminal, terminal_width, wants_color
from agentv.text import did_you_mean, plural

LATEST = "latest"


@click.command()
@click.argument("run", metavar="[RUN]", required=False)
@click.argument("case", metavar="[CASE]", required=False)
@click.option("--target", metavar="NAME", help="Only rows of this target, or variant such as 'bot [terse]'.")
@click.option("--prompt", metavar="ID", help="Only rows of this prompt.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only rows of this attempt.")
@click.option("--diff", metavar="RUN", help="Compare with the same case in another run.")
@click.option("--list", "as_list", is_flag=True, help="List the rows, worst first, instead of showing one.")
@click.option("--failed", is_flag=True, help="List only rows that failed or errored.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option("--no-pager", is_flag=True, help="Print directly, even on a terminal.")
def command(
    *,
    run: str | None,
    case: str | None,
    target: str | None,
    prompt: str | None,
    attempt: int | None,
    diff: str | None,
    as_list: bool,
    failed: bool,
    as_json: bool,
    no_pager: bool,
) -> int:
    """Show a case of a run: what was asked and answered, how it was judged, and each judge call.

    \b
    agentv show                  the worst case of the latest run
    agentv show CASE             a case of the latest run
    agentv show RUN CASE         a case of another run
    agentv show --diff latest~1  the case that lost most since then

    CASE is the id of a case, `suite/id`, the beginning of an id, or a glob. If several rows match, the worst is shown.
    """
    as_list = as_list or failed
    if as_list and diff:
        raise UsageError(f"--{'failed' if failed else 'list'} and --diff cannot be used together.")
    reader, case = _find(run, case, Path.cwd())
    wanted = Wanted(case, target, attempt, prompt)
    if not reader.heads() and (damaged := reader.damaged.total()):
        raise UsageError(f"run {_name(reader)} has no valid rows: {plural(damaged, 'line')} of {RESULTS} damaged.")
    if case is not None and _has_no_row_yet(reader, case):
        raise UsageError(
            f"case '{case}' has no row in run {_name(reader)}: the run is not finished.",
            next_step=f"Resume the run: {reader.directory.resume_command}",
        )
    if as_list:
        text = _listed(reader, wanted, failed=failed, as_json=as_json)
    elif diff is not None:
        text = _compared(reader, _reader(diff, Path.cwd()), wanted, as_json=as_json)
    else:
        text = _shown(reader, wanted, as_json=as_json)
    _print(text, paged=not (as_json or no_pager))
    return 0


def _find(run: str | None, case: str | None, root: Path) -> tuple[RunReader, str | None]:
    """The run and the name of the case. A single argument that is not a run is a case of the latest run."""
    if run is None or case is not None:
        return _reader(run or LATEST, root), case
    try:
        reader = _reader(run, root)
    except RecordError as no_run:
        try:
            latest = _reader(LATEST, root)
        except RecordError:
            raise no_run from None
        if matching(latest.heads(), run) or _has_no_row_yet(latest, run):
            return latest, run
        catalog = Catalog(root)
        if any(name.startswith(run) for name in catalog.ids()):  # several runs begin with it
            raise
        names = [entry.labels.name for entry in catalog.entries() if entry.labels.name]
        suggestion = did_you_mean(run, [*case_names(latest.heads()), *names])
        raise UsageError(
            f"'{run}' is neither a run nor a case of the latest run ({_name(latest)}){suggestion}.",
            next_step="List runs with `agentv runs`, and the cases of the latest run with `agentv show --list`.",
        ) from None
    exact = {_name(reader), RunLabels.of(reader.manifest).name}
    if run not in exact and not run.startswith(LATEST) and not (root / run).exists():
        latest = _reader(LATEST, root)  # a case that is called `2` is not the run whose id begins with 2
        if any(run == head.key.eval_id for head in latest.heads()):
            return latest, run
    return reader, None


def _has_no_row_yet(reader: RunReader, case: str) -> bool:
    """Whether the case is part of the run, but was not judged yet."""
    return (
        reader.manifest.get("status") != "finished"
        and not matching(reader.heads(), case)
        and any(case in (eval_id, f"{suite}/{eval_id}") for suite, eval_id in reader.case_keys())
    )


def _reader(run: str, root: Path) -> RunReader:
    path = root / run
    if path.name == RESULTS and path.is_file():
        return RunReader(RunDirectory.open(path.parent))
    return RunReader(find_run(run, root))


def _name(reader: RunReader) -> str:
    return reader.directory.path.name


def _shown(reader: RunReader, wanted: Wanted, *, as_json: bool) -> str:
    if wanted == Wanted():
        wanted = _worst_repeated(reader) or wanted
    choice = choose(reader.heads(), wanted, _name(reader))
    view = CaseView.read(reader, choice.head)
    if as_json:
        return _json(view.to_dict())
    from agentv.cli.sent_messages import as_sent  # noqa: PLC0415 - not for --json and --list
    from agentv.report.show_case import render_case  # noqa: PLC0415 - as above

    return render_case(as_sent(view), choice, list(_commands(view, choice)), _look())


def _worst_repeated(reader: RunReader) -> Wanted | None:
    """The worst case of a finished run with repeats: a flaky case that passed is not worse than one that did not."""
    summary = reader.manifest.get("summary")
    worst = summary.get("worst") if isinstance(summary, dict) and summary.get("repeats") else None
    if not isinstance(worst, list) or not worst or not isinstance(worst[0], dict):
        return None
    suite, eval_id, target = (worst[0].get(name) for name in ("suite", "eval_id", "target"))
    keys = {head.key.case for head in reader.heads()}
    return Wanted(f"{suite}/{eval_id}", str(target)) if (suite, eval_id, target) in keys else None


def _compared(reader: RunReader, other: RunReader, wanted: Wanted, *, as_json: bool) -> str:
    heads = reader.heads()
    if wanted.case is None:
        head = largest_drop(listed(heads, wanted, _name(reader)), other.heads())
        head = head or choose(heads, wanted, _name(reader)).head
    else:
        head = choose(heads, wanted, _name(reader)).head
    twin = counterpart(head, other.heads())
    if twin is None:
        raise UsageError(
            f"run {_name(other)} has no case '{head.key.eval_id}' of suite '{head.key.suite}'.",
            next_step=f"List its cases with `{other.directory.show_command} --list`.",
        )
    before, after = CaseView.read(other, twin), CaseView.read(reader, head)
    if _started(before) > _started(after):
        before, after = after, before
    from agentv.report.show_diff import diff_to_dict, render_diff  # noqa: PLC0415 - only for --diff

    return _json(diff_to_dict(before, after)) if as_json else render_diff(before, after, _look())


def _started(view: CaseView) -> tuple[str, str]:
    return str(view.reader.manifest.get("started_at") or ""), view.run_id


def _listed(reader: RunReader, wanted: Wanted, *, failed: bool, as_json: bool) -> str:
    rows = listed(reader.heads(), wanted, _name(reader))
    rows = sorted((head for head in rows if not failed or not passed(head)), key=worst_first)
    if as_json:
        names = ("suite", "eval_id", "target", "attempt")
        return _json(
            [
                dict(zip(names, head.key, strict=True))
                | {"score": head.score, "verdict": head.verdict.value, "errored": head.errored}
                for head in rows
            ]
        )
    from agentv.report.show_case import render_list  # noqa: PLC0415 - only for --list

    return render_list(rows, _look()) if rows else "All rows passed."


def _commands(view: CaseView, choice: Choice) -> Iterator[tuple[str, str]]:
    """Commands to continue with, and what they do."""
    several = len({head.key.target for head in choice.siblings}) > 1
    yield from CaseCommands(view.reader, several_targets=several).of(view.row)
    if choice.next_worst is not None:
        key = choice.next_worst.key
        several = len({head.key.suite for head in (choice.head, choice.next_worst)}) > 1
        name = f"{key.suite}/{key.eval_id}" if several else key.eval_id
        yield f"{view.reader.directory.show_command} {quote(name)}", f"next worst of {choice.not_passed:,}"


def _look() -> Look:
    return Look(
        color=wants_color(sys.stdout, os.environ),
        width=max(40, terminal_width()),
        unicode=can_print_unicode(sys.stdout),
    )


def _json(value: object) -> str:
    # CI systems run `##[command]` anywhere in a log. Escaping the first `#` prevents that and keeps the JSON equal.
    return json.dumps(value, indent=2).replace("##", "\\u0023#")


def _print(text: str, *, paged: bool) -> None:
    """Print the text, in a pager if stdout is a terminal. `PAGER=cat` and an empty `PAGER` disable the pager."""
    pager = os.environ.get("PAGER")
    if not paged or not is_terminal(sys.stdout) or (pager is not None and pager.strip() in ("", "cat")):
        click.echo(text, color=True)
        return
    os.environ.setdefault("LESS", "-FRX")  # no pager for text that fits the screen, and the text stays on it
    click.echo_via_pager(text, color=wants_color(sys.stdout, os.environ))
