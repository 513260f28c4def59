"""The runs that `agentv merge` joins: whether they are shards of one run, which are missing, the merged `run.json`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.errors import RecordError, RunLockedError, UsageError
from agentv.plan.options import OPTIONS
from agentv.plan.shards import Shard
from agentv.record.catalog import read_entry
from agentv.record.labels import RunLabels
from agentv.record.manifest import writer_of
from agentv.record.merging import MergedPart, RecordMerge
from agentv.record.run_dir import RunDirectory, find_run
from agentv.report.labels import replayed_id
from agentv.run_manifest import self_graded_note
from agentv.text import plural, short_path

PARTIAL = "partial"
"""The status of a merged run that lacks rows."""
_ENDED = ("finished", "out of budget")
_LISTED = 10
_NOT_COMPARED = {"shard", "workers", *(name for name, option in OPTIONS.items() if option.may_change)}
_SPENT = ("max_cost", "max_judge_calls", "spent_usd", "judge_calls", "unpriced_calls")


@dataclass(frozen=True, slots=True)
class ShardRun:
    """A run with `--shard`, as the user named it."""

    name: str
    directory: RunDirectory
    manifest: Mapping[str, Any]
    shard: Shard
    status: str

    @property
    def run_id(self) -> str:
        return str(self.manifest.get("run_id"))

    @property
    def total(self) -> int:
        return _whole(self.manifest.get("total"))

    @property
    def all_cases(self) -> int:
        return _whole(_mapping(self.manifest.get("shard")).get("all_cases"))

    def part(self) -> MergedPart:
        return MergedPart(self.directory, self.run_id, self.shard.index)


def shard_runs(names: Sequence[str], cwd: Path) -> list[ShardRun]:
    """The runs, oldest first. UsageError unless they are shards of one division, RunLockedError if one is written."""
    runs: dict[Path, ShardRun] = {}
    for name in names:
        directory = find_run(name, cwd)
        runs.setdefault(directory.path.resolve(), _shard_run(name, directory))
    first, *others = runs.values()
    for other in others:
        if other.shard.count != first.shard.count:
            raise UsageError(
                f"The runs are shards of different divisions: {first.name} is shard {first.shard}, {other.name} is "
                f"shard {other.shard}.",
                next_step="Merge runs with the same N in `--shard I/N`.",
            )
    return sorted(runs.values(), key=lambda run: (run.shard.index, str(run.manifest.get("started_at")), run.run_id))


def _shard_run(name: str, directory: RunDirectory) -> ShardRun:
    manifest = directory.read_manifest()
    if manifest.get("merged") is not None:
        raise UsageError(f"The run {name} is already merged.", next_step="Merge the runs of its shards instead.")
    written = _mapping(manifest.get("options")).get("shard")
    shard = Shard.parse(written) if isinstance(written, str) else None
    if shard is None:
        raise UsageError(
            f"The run {name} is not a shard.", next_step="`agentv merge` joins runs of `agentv eval --shard I/N`."
        )
    status = read_entry(directory.path).status()
    if status == "running":
        writer = writer_of(directory.path)
        process = f"process {writer}" if writer is not None else "another process"
        raise RunLockedError(
            f"the run {name} (shard {shard}) is being written by {process}", next_step="Merge when it has finished."
        )
    return ShardRun(name, directory, manifest, shard, status)


def differences(runs: Sequence[ShardRun]) -> list[str]:
    """How the suites, the configuration and the options of the runs differ from those of the first, as lines."""
    first, *others = runs
    wanted = _compared(first)
    lines = []
    for other in others:
        own = _compared(other)
        lines += [
            f"{what} of {other.name} differs from that of {first.name}"
            for what in sorted(wanted.keys() | own.keys())
            if wanted.get(what) != own.get(what)
        ]
        # A shard without cases of a suite does not need the Python of its scripts.
        of_first, of_other = _packages(first), _packages(other)
        lines += [
            f"the packages of {name} in {other.name} differ from those in {first.name}"
            for name in sorted(of_first.keys() & of_other.keys())
            if of_first[name] != of_other[name]
        ]
    return lines


def _packages(run: ShardRun) -> dict[str, Any]:
    """The packages of each Python of scripts."""
    cwd = str(run.manifest.get("cwd"))
    interpreters = _mapping(run.manifest.get("interpreters"))
    return {_near(name, cwd): _mapping(each).get("packages") for name, each in interpreters.items()}


def _compared(run: ShardRun) -> dict[str, Any]:
    """Everything that must be the same in all shards, by its name in messages."""
    cwd, manifest = str(run.manifest.get("cwd")), run.manifest
    options = {
        f"`{OPTIONS[name].flag if OPTIONS[name].keyword else 'PATHS'}`": value
        for name, value in _mapping(manifest.get("options")).items()
        if name in OPTIONS and name not in _NOT_COMPARED
    }
    digests = {_near(path, cwd): sha256 for path, sha256 in _mapping(manifest.get("digests")).items()}
    configs = {
        _near(path, cwd): _mapping(config).get("sha256")
        for path, config in _mapping(manifest.get("configuration")).items()
    }
    return {
        **{name: value for name, value in options.items() if value not in (None, [], False)},
        **digests,
        **configs,
        "the version of agentv": manifest.get("agentv"),
        "the number of cases in all shards": run.all_cases,
        "the replayed run": replayed_id(manifest),
        "the list of chosen cases": manifest.get("chosen"),
    }


def _near(path: str, cwd: str) -> str:
    """The path relative to the working directory of its run: shards may run on machines with other directories."""
    return os.path.relpath(path, cwd) if Path(path).is_absolute() and Path(cwd).is_absolute() else path


def missing_shards(runs: Sequence[ShardRun], merge: RecordMerge) -> dict[str, str]:
    """The shards that are missing or incomplete after a survey, each with the reason."""
    count = runs[0].shard.count
    missing: dict[str, str] = {}
    by_shard: dict[int, list[ShardRun]] = {}
    for run in runs:
        by_shard.setdefault(run.shard.index, []).append(run)
    for index in range(1, count + 1):
        shard, own = Shard(index, count), by_shard.get(index, [])
        if (reason := _why_missing(own, merge.rows_of_shard[index])) is not None:
            missing[str(shard)] = reason
    return missing


def _why_missing(runs: Sequence[ShardRun], rows: int) -> str | None:
    if not runs:
        return "no run of it was named"
    ended = [run for run in runs if run.status in _ENDED]
    run = (ended or runs)[-1]
    if any(run.status == "out of budget" or rows >= run.total for run in ended):
        return None
    rows_of = f"{rows:,} of {plural(run.total, 'row')}"
    if ended:
        return f"{run.name} has {rows_of}; the others are missing or damaged"
    return f"{run.name} is not finished ({run.status}, {rows_of}); resume it: {run.directory.resume_command}"


def refuse_incomplete(missing: Mapping[str, str], runs: Sequence[ShardRun]) -> None:
    """RecordError that names the shards without which the merged run would be incomplete."""
    if not missing:
        return
    listed = [f"  shard {shard}: {reason}" for shard, reason in list(missing.items())[:_LISTED]]
    if (more := len(missing) - len(listed)) > 0:
        listed.append(f"  and {plural(more, 'other shard')}")
    raise RecordError(
        f"{len(missing):,} of {plural(runs[0].shard.count, 'shard')} {'is' if len(missing) == 1 else 'are'} missing or "
        "incomplete:\n" + "\n".join(listed),
        next_step="Complete them and merge again, or use --partial to merge what there is.",
    )


def not_run(runs: Sequence[ShardRun]) -> tuple[int, str | None]:
    """How many cases the budgets of the shards did not allow, and why."""
    left: dict[int, int] = {}
    reasons: list[str] = []
    for run in runs:
        summary = _mapping(run.manifest.get("summary"))
        left[run.shard.index] = min(left.get(run.shard.index, 1 << 62), _whole(summary.get("not_run")))
    for run in runs:
        reason = _mapping(run.manifest.get("summary")).get("why_not_run")
        if left[run.shard.index] and isinstance(reason, str):
            reasons.append(reason)
    return sum(left.values()), "; ".join(dict.fromkeys(reasons[:_LISTED])) or None


def merged_manifest(
    runs: Sequence[ShardRun], merge: RecordMerge, missing: Mapping[str, str], run_id: str, name: str | None
) -> dict[str, Any]:
    """The `run.json` of the merged run, which is being written."""
    first = runs[0].manifest
    manifests = [run.manifest for run in runs]
    return {
        **{key: value for key, value in first.items() if key != "shard"},
        "run_id": run_id,
        **_labels(manifests, name).to_dict(),
        "status": "running",
        "started_at": min(str(manifest.get("started_at")) for manifest in manifests),
        "finished_at": None,
        "platform": _joined(manifest.get("platform") for manifest in manifests),
        "python": _joined(manifest.get("python") for manifest in manifests),
        "git": _git(manifests),
        "options": {**_mapping(first.get("options")), "shard": None, "out": None},
        "total": sum(_largest(runs, lambda run: run.total)),
        "scripted": any(manifest.get("scripted") is True for manifest in manifests),
        "scripted_part": _scripted_part(runs),
        "summary_notes": [*_notes(runs), f"merged from {plural(runs[0].shard.count - len(missing), 'complete shard')}"],
        "suites": _suites(runs),
        "digests": _union(manifests, "digests"),
        "configuration": _union(manifests, "configuration"),
        **({"interpreters": pythons} if (pythons := _union(manifests, "interpreters")) else {}),
        "budget": _budget(runs),
        "merged": {
            "shards": runs[0].shard.count,
            "missing": list(missing),
            "duplicates": merge.duplicates,
            "damaged": sum(part.damaged for part in merge.parts),
            "parts": [
                {
                    "run_id": run.run_id,
                    "run_dir": str(short_path(run.directory.path, Path.cwd())),
                    "shard": str(run.shard),
                    "status": run.status,
                    "rows": part.lines,
                }
                for run, part in zip(runs, merge.parts, strict=True)
            ],
        },
        "summary": None,
    }


def duration_of(runs: Sequence[ShardRun]) -> float | None:
    """The duration of the slowest shard."""
    seconds = [_mapping(run.manifest.get("summary")).get("duration_seconds") for run in runs]
    return max((each for each in seconds if isinstance(each, int | float)), default=None)


def finished_at(runs: Sequence[ShardRun]) -> str | None:
    """When the last shard ended."""
    times = [time for run in runs if isinstance(time := run.manifest.get("finished_at"), str)]
    return max(times, default=None)


def _labels(manifests: Sequence[Mapping[str, Any]], name: str | None) -> RunLabels:
    """The labels that all parts have."""
    labels = [RunLabels.of(manifest) for manifest in manifests]

    def shared(values: Iterable[str | None]) -> str | None:
        found = set(values)
        return found.pop() if len(found) == 1 else None

    return RunLabels(
        name or shared(each.name for each in labels),
        shared(each.experiment for each in labels),
        shared(each.note for each in labels),
    )


def _git(manifests: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The commit of all parts; None if they have several."""
    commits = [manifest.get("git") for manifest in manifests]
    known = [git for git in commits if isinstance(git, Mapping)]
    if len(known) < len(commits) or len({git.get("commit") for git in known}) > 1:
        return None
    return {**known[0], "dirty": max((git.get("dirty") for git in known), key=bool)}


def _scripted_part(runs: Sequence[ShardRun]) -> str:
    parts = {run.manifest.get("scripted_part") for run in runs if run.manifest.get("scripted") is True}
    whole = [run for run in runs if run.manifest.get("scripted") is not True and run.total]
    part = parts.pop() if len(parts) == 1 and not whole else ""
    return part if isinstance(part, str) else ""


def _notes(runs: Sequence[ShardRun]) -> list[str]:
    """The notes of all parts, without those that are about one shard."""
    notes: dict[str, None] = {}
    graded: dict[str, dict[int, int]] = {}
    for run in runs:
        shard = _mapping(run.manifest.get("shard"))
        own = _mapping(shard.get("self_graded"))
        about_shard = (shard.get("note"), self_graded_note(own))
        listed = run.manifest.get("summary_notes")
        notes |= {note: None for note in (listed if isinstance(listed, list) else []) if note not in about_shard}
        for target, count in own.items():
            shards = graded.setdefault(target, {})
            shards[run.shard.index] = max(_whole(count), shards.get(run.shard.index, 0))
    note = self_graded_note({target: sum(shards.values()) for target, shards in graded.items()})
    return [*notes, *([note] if note else [])]


def _suites(runs: Sequence[ShardRun]) -> list[dict[str, Any]]:
    """The suites of all parts, each with its cases and its targets in all shards."""
    suites: dict[tuple[Any, Any], dict[str, Any]] = {}
    cases: dict[tuple[Any, Any], dict[int, int]] = {}
    for run in runs:
        listed = run.manifest.get("suites")
        for suite in listed if isinstance(listed, list) else []:
            key = suite["path"], suite["name"]
            merged = suites.setdefault(key, {**suite, "targets": {}})
            for target, judges in suite["targets"].items():
                known = merged["targets"].get(target, [])
                merged["targets"][target] = sorted({*known, *judges})
            counts = cases.setdefault(key, {})
            counts[run.shard.index] = max(counts.get(run.shard.index, 0), suite["cases"])
    return [{**suite, "cases": sum(cases[key].values())} for key, suite in suites.items()]


def _union(manifests: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    union: dict[str, Any] = {}
    for manifest in reversed(manifests):
        union |= _mapping(manifest.get(name))
    return union


def _budget(runs: Sequence[ShardRun]) -> dict[str, Any]:
    """What all parts spent, and the limits of one part of each shard."""
    budgets = [_mapping(run.manifest.get("budget")) for run in runs]
    merged: dict[str, Any] = {}
    for name in _SPENT:
        if not name.startswith("max_"):
            merged[name] = sum(each.get(name) or 0 for each in budgets)
            continue
        last = {run.shard.index: budget.get(name) for run, budget in zip(runs, budgets, strict=True)}
        limits = [limit for limit in last.values() if limit is not None]
        merged[name] = round(sum(limits), 12) if limits else None
    return {**merged, "exhausted": not_run(runs)[1]}


def _largest(runs: Sequence[ShardRun], value: Any) -> Iterable[int]:
    """The largest value of each shard."""
    largest: dict[int, int] = {}
    for run in runs:
        largest[run.shard.index] = max(largest.get(run.shard.index, 0), value(run))
    return largest.values()


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(sorted({value for value in values if isinstance(value, str)}))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
