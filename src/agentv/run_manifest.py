"""What `run.json` says about a run: written from its plan, and compared with the plan when the run is resumed."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentv import __version__
from agentv.codec import encode
from agentv.errors import RecordError, UsageError
from agentv.git_state import GitState
from agentv.plan.chosen import ChosenCases
from agentv.plan.options import RunOptions
from agentv.plan.plan import PlannedSuite, RunPlan
from agentv.record.labels import RunLabels
from agentv.record.run_dir import RunDirectory, check_manifest, unusable
from agentv.redact import MASK, Redactor
from agentv.suite.files import digest
from agentv.targets.config import holds_secret
from agentv.text import all_of

_LISTED = 5


def resumed_options(manifest: dict[str, Any], directory: RunDirectory) -> tuple[RunOptions, Path]:
    """The options of a recorded run, and the directory that its paths are relative to."""
    check_manifest(manifest, directory.manifest)
    if not (recorded := Path(manifest["cwd"])).is_dir():  # moved since, or masked because it contains a secret
        manifest["cwd"] = str(recorded := Path.cwd())
    try:
        options = RunOptions.from_dict(manifest["options"])
    except UsageError as error:
        raise unusable(directory.manifest, f"in `options`, {error.message}") from None
    for name, path in (("outputs", options.outputs), ("config", options.config)):
        if path is not None and (recorded / path).exists() and not (recorded / path).is_file():
            raise unusable(directory.manifest, f"`options.{name}` must be a regular file, got {path}")
    return options, recorded


def refuse_merged(manifest: Mapping[str, Any], flag: str, directory: RunDirectory) -> None:
    """UsageError for a run of `agentv merge`: its shards are resumed, not the merged run."""
    if (merged := manifest.get("merged")) is None:
        return
    parts = merged.get("parts") if isinstance(merged, dict) else None
    runs = [part["run_dir"] for part in parts or [] if isinstance(part, dict) and isinstance(part.get("run_dir"), str)]
    listed = f" ({', '.join(runs[:_LISTED])}{', ...' if len(runs) > _LISTED else ''})" if runs else ""
    raise UsageError(
        f"{flag} cannot be used with {directory.name}: it is merged from shards{listed}.",
        next_step=f"Use {flag} with those, then merge again. `agentv eval --last-failed {directory.name}` runs its "
        "failed and errored cases in a new run.",
    )


def recorded_choice(manifest: dict[str, Any], directory: RunDirectory) -> ChosenCases | None:
    """The cases that a recorded run was restricted to; None if its options alone select them."""
    if manifest.get("chosen") is None:
        return None
    try:
        return ChosenCases.from_dict(manifest["chosen"])
    except (ValueError, KeyError, TypeError):
        raise unusable(directory.manifest, "`chosen` must be what agentv wrote") from None


def manifest_of(plan: RunPlan, run_id: str, cwd: Path, labels: RunLabels, git: GitState) -> dict[str, Any]:
    """The `run.json` of a new run."""
    graded = plan.self_graded()
    system = os.uname()  # platform.platform() is slow: it reads the interpreter binary to find its libc
    return {
        "run_id": run_id,
        **labels.to_dict(),
        "status": "running",
        "started_at": now(),
        "finished_at": None,
        "agentv": __version__,
        "python": platform.python_version(),
        "platform": f"{system.sysname} {system.release} {system.machine}",
        "cwd": str(cwd),
        "git": git.to_dict(),
        "options": plan.options.to_dict(),
        "total": plan.total,
        "scripted": plan.scripted or _answers_are_scripted(plan, cwd),
        "scripted_part": plan.scripted_part,
        "summary_notes": [
            note for note in (plan.sample, plan.shard and plan.shard.note, self_graded_note(graded)) if note
        ],
        "suites": [_recorded_suite(plan, planned) for planned in plan.suites],
        "digests": dict(plan.digests()),
        "configuration": {str(path.resolve()): _shown_config(config) for path, config in plan.configs().items()},
        **({"interpreters": interpreters_of(plan)} if plan.prepared else {}),
        **({} if plan.chosen is None else {"chosen": plan.chosen.to_dict()}),
        **({} if plan.shard is None else {"shard": {**plan.shard.to_dict(), "self_graded": graded}}),
        "summary": None,
    }


def self_graded_note(graded: Mapping[str, int]) -> str | None:
    """A note about cases without evaluators, given their number by the target that answers and grades them."""
    if not graded:
        return None
    count, names = max(graded.values()), all_of(sorted(graded))
    remedy = "set `judge_target` in the configuration, or add evaluators"
    if count == 1:
        return f"1 case has no evaluators and is graded by its own target {names}; {remedy}"
    return f"{count:,} cases have no evaluators and are graded by their own target {names}; {remedy}"


def _recorded_suite(plan: RunPlan, planned: PlannedSuite) -> dict[str, Any]:
    """A suite of the run, with its targets and their judges, and the files its results depend on."""
    return {
        "path": str(planned.suite.path),
        "name": planned.suite.name,
        "cases": len(planned.selected),
        "all_cases": len(planned.suite.ids),
        "trials": encode(planned.trials),
        **({"prompts": list(planned.suite.prompts)} if planned.suite.prompts else {}),
        "targets": {
            lane.target: plan.judges_of(lane, planned)
            for lane in plan.lanes
            if any(suite is planned and ids for suite, ids in lane.work)
        },
        "config": str(planned.config.path.resolve()) if planned.config is not None else None,
        "files": sorted(str(Path(path).resolve()) for path in planned.suite.digests),
    }


def _answers_are_scripted(plan: RunPlan, cwd: Path) -> bool:
    """Whether recorded answers come from a run with a scripted model, so that the new run is labelled, too."""
    if plan.options.outputs is None:
        return False
    try:
        manifest = RunDirectory.open((cwd / plan.options.outputs).parent).read_manifest()
    except RecordError:
        return False
    return manifest.get("scripted") is True


def _shown_config(config: Any) -> dict[str, Any]:
    return {
        "sha256": digest(config.path),
        "defaults": config.defaults.model_dump(exclude_none=True),
        "targets": {name: _without_secrets(spec.reading.shown) for name, spec in config.targets.items()},
    }


def _without_secrets(written: Any) -> dict[str, Any]:
    """The entry as written, with literal keys masked. References to variables are kept."""
    masked = dict(written)
    if _is_literal(masked.get("api_key")):
        masked["api_key"] = MASK
    for setting in ("headers", "env"):
        if isinstance(masked.get(setting), Mapping):
            masked[setting] = {
                name: MASK if holds_secret(name) and _is_literal(value) else value
                for name, value in masked[setting].items()
            }
    if isinstance(masked.get("body"), Mapping | list):
        masked["body"] = _without_keys(masked["body"])
    return masked


def _without_keys(value: Any) -> Any:
    """The body of a request as written, with literal keys masked."""
    if isinstance(value, list):
        return [_without_keys(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: MASK
        if isinstance(item, str) and holds_secret(str(name)) and _is_literal(item) and "{{" not in item
        else _without_keys(item)
        for name, item in value.items()
    }


def _is_literal(value: Any) -> bool:
    return value is not None and "${{" not in str(value)


def changes(now: Any, then: Any) -> list[str]:
    """The differences between the digests of a plan and those of `run.json`, as lines."""
    lines = [f"{path} has changed" for path in sorted(now) if path in then and now[path] != then[path]]
    lines += [f"{path} is new" for path in sorted(now) if path not in then]
    lines += [f"{path} is gone or no longer used" for path in sorted(then) if path not in now]
    return lines


def interpreters_of(plan: RunPlan) -> dict[str, Any]:
    """The interpreters that the scripts of a plan use besides that of agentv, with all their packages."""
    wanted = plan.interpreters
    return {each.name: prepared.to_dict() for each, prepared in plan.prepared.items() if each in wanted}


def interpreter_changes(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """What changed in the interpreters of scripts since the run started, as lines."""
    shared = sorted(now.keys() & then.keys())
    if not shared:
        return []
    from agentv.report.packages import package_changes  # noqa: PLC0415 - most runs use the Python of agentv

    return [f"Python of scripts ({name}): {line}" for name in shared for line in package_changes(now[name], then[name])]


def config_changes(plan: RunPlan, manifest: dict[str, Any], redactor: Redactor) -> list[str]:
    """The configuration files that have changed since the run started, as lines."""
    then = manifest.get("configuration") or {}
    now = {redactor.text(str(path.resolve())): digest(path) for path in plan.configs()}
    return [f"{path} has changed" for path, value in now.items() if then.get(path, {}).get("sha256") != value]


def now() -> str:
    """The current time, as written in `run.json`."""
    return datetime.now(UTC).isoformat(timespec="seconds")
