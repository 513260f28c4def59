"""What the page of a run shows besides its rows: `RunInfo` in `static/types.js`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from agentv.codec import DecodeError, decode
from agentv.record.files import failure, open_recorded
from agentv.record.run_dir import RunDirectory
from agentv.report.console import scripted_label
from agentv.report.row_source import RowSource
from agentv.report.run_list import ListedRun
from agentv.report.summary import Summary, SummaryBuilder, remarks

_READ = 1 << 20


def notes_of(run: ListedRun, directory: RunDirectory, rows: int) -> list[str]:
    """What readers of the numbers should know, in sentences."""
    manifest = run.manifest
    source = RowSource(directory.path.name, directory.results, manifest)
    summary = _summary(run)
    notes = []
    if run.status != "running" and (gap := source.gap(rows)) is not None:
        notes.append(gap)
    if source.replayed is not None:
        notes.append(f"replayed: made from the record of run {source.replayed}")
    if summary.scripted:
        notes.append(scripted_label(summary))
    return [*notes, *summary.notes, *remarks(summary)]


def _summary(run: ListedRun) -> Summary:
    try:
        return decode(Summary, dict(run.summary))
    except DecodeError:
        return SummaryBuilder.of(run.manifest).build()


def planned(run: ListedRun) -> int | None:
    """The number of rows of the whole run."""
    total = run.manifest.get("total")
    return total if isinstance(total, int) and not isinstance(total, bool) and total >= 0 else None


def limits(run: ListedRun) -> tuple[float | None, int | None]:
    """The most that the run may spend, in US dollars and in judge calls."""
    options = _mapping(run.manifest.get("options"))
    cost, calls = options.get("max_cost"), options.get("max_judge_calls")
    return (
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
        calls if isinstance(calls, int) and not isinstance(calls, bool) else None,
    )


def spent(run: ListedRun, cost_usd: float, calls: int) -> tuple[float, int]:
    """What the run has spent: as recorded when it ended, or by its rows, whatever is more.

    Only the record includes rows that were superseded, and only the rows are complete while the run is resumed.
    """
    budget = _mapping(run.manifest.get("budget"))
    recorded_usd, recorded_calls = budget.get("spent_usd"), budget.get("judge_calls")
    return (
        max(cost_usd, recorded_usd if isinstance(recorded_usd, int | float) and recorded_usd < 1e15 else 0.0),
        max(calls, recorded_calls if isinstance(recorded_calls, int) else 0),
    )


def budget_of(run: ListedRun, cost_usd: float, calls: int) -> dict[str, Any] | None:
    """The budget of a run; None if it has no limits."""
    limit_usd, limit_calls = limits(run)
    if limit_usd is None and limit_calls is None:
        return None
    spent_usd, made = spent(run, cost_usd, calls)
    return {"spent_usd": spent_usd, "limit_usd": limit_usd, "calls": made, "limit_calls": limit_calls}


def repeats_of(run: ListedRun) -> dict[str, Any] | None:
    repeats = run.summary.get("repeats")
    return dict(repeats) if isinstance(repeats, Mapping) else None


def suites_of(run: ListedRun) -> list[dict[str, Any]]:
    """The suites of a run with their judges."""
    suites = run.manifest.get("suites")
    found = []
    for suite in suites if isinstance(suites, list) else []:
        if not isinstance(suite, Mapping) or not isinstance(suite.get("name"), str):
            continue
        path, cases = suite.get("path"), suite.get("cases")
        lists = [judges for judges in _mapping(suite.get("targets")).values() if isinstance(judges, list)]
        judges = dict.fromkeys(name for names in lists for name in names if isinstance(name, str))
        found.append(
            {
                "name": suite["name"],
                "path": path if isinstance(path, str) else "",
                "cases": cases if isinstance(cases, int) else 0,
                "judges": list(judges),
            }
        )
    return found


def commands_of(run: ListedRun, directory: RunDirectory, head: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Commands to continue with."""
    name, status = quote(directory.name), run.status
    is_merged = run.manifest.get("merged") is not None  # then its shards are resumed
    if not is_merged and status in ("interrupted", "failed", "out of budget"):
        usd, calls = limits(run)
        more = [flag for flag, limit in (("--max-cost", usd), ("--max-judge-calls", calls)) if limit is not None]
        raised = "".join(f" {flag} MORE" for flag in more) if status == "out of budget" else ""
        yield {"title": "resume this run", "command": f"{directory.resume_command}{raised}"}
    if not is_merged and status != "running" and head["errors"]:
        yield {"title": "run errored cases again", "command": directory.retry_command}
    if status != "running" and (head["failed"] or head["borderline"] or head["errors"]):
        yield {"title": "run cases that did not pass, as a new run", "command": f"agentv eval --last-failed {name}"}
    yield {"title": "write an HTML file", "command": f"agentv report {name} --format html -o report.html"}
    yield {"title": "show the worst case in the terminal", "command": directory.show_command}


def file_hashes(directory: RunDirectory) -> list[dict[str, Any]]:
    """The SHA-256 of the files of the record. Raises RecordError if one cannot be read."""
    hashes = []
    for path in (directory.results, directory.cases, directory.judge_calls):
        digest, size = hashlib.sha256(), 0
        try:
            with open_recorded(path) as file:
                while data := file.read(_READ):
                    digest.update(data)
                    size += len(data)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise failure("read", path, error) from error
        hashes.append({"name": path.name, "sha256": digest.hexdigest(), "bytes": size})
    return hashes


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
