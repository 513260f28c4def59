"""What changed between two runs: what measures the scores, and everything else that their `run.json` tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from agentv.errors import RecordError
from agentv.record.reading import RunReader
from agentv.record.run_dir import RunDirectory
from agentv.report.compare import Comparison
from agentv.report.ruler import Change, Ruler, changed_settings, shown_value

_MODEL_ROWS = 50
"""Rows that are read to see which models answered."""
_COMPARED_OTHERWISE = frozenset({"paths", "targets", "judge_target", "config", "out", "judge_io"})
"""Options whose effects are compared, or which have none on the results."""
_OPTION_NAMES = {"cases": "case", "tags": "tag", "exclude_tags": "exclude-tag"}
_SHORT_COMMIT = 12


@dataclass(frozen=True, slots=True)
class RecordedSetup:
    """What a run has recorded about how it was made."""

    manifest: Mapping[str, Any]
    targets: Sequence[str]
    """The targets that have rows."""
    hashes: Mapping[str, Mapping[tuple[str, str], tuple[str, str]]] = field(default_factory=dict)
    """The SHA-256 and the file of each case, by suite, and by suite and id."""
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The models that answered first, as reported, by target."""

    @classmethod
    def read(cls, reader: RunReader, targets: Sequence[str]) -> RecordedSetup:
        hashes: dict[str, dict[tuple[str, str], tuple[str, str]]] = {}
        for key, value in reader.case_hashes().items():
            hashes.setdefault(key[0], {})[key] = value
        models: dict[str, dict[str, None]] = {}
        for row in islice(reader.rows(), _MODEL_ROWS):
            if row.model:
                models.setdefault(row.target, {})[row.model] = None
        return cls(reader.manifest, targets, hashes, {target: sorted(names) for target, names in models.items()})

    def ruler(self, suite: str, target: str) -> Ruler:
        return Ruler.of(self.manifest, suite, target, self.hashes.get(suite, {}))


def changes_between(
    one: RecordedSetup,
    two: RecordedSetup,
    shared: Mapping[tuple[str, str], Iterable[str]],
    targets: Iterable[tuple[str, str]],
) -> list[Change]:
    """What changed from the first run to the second: first what measures the scores, then the rest.

    `shared` are the ids of the cases that were compared, by the names of their suite in both runs; `targets` the names
    of the targets that were compared with each other.
    """
    pairs = sorted(set(targets))
    found: dict[Change, None] = {}
    for suite1, suite2 in sorted(shared):
        cases = sorted(shared[suite1, suite2])
        for target1, target2 in pairs:
            before, after = one.ruler(suite1, target1), two.ruler(suite2, target2)
            found.update(dict.fromkeys(after.differences(before, cases)))
            if target1 != target2 and target1 in before.settings and target2 in after.settings:
                settings = before.settings[target1], after.settings[target2]
                change = changed_settings("the target", *settings, is_ruler=False)
                found.update({} if change is None else {change: None})
    changes = [*found, *_targets(one, two, pairs), *_options(one, two), *_versions(one, two)]
    return sorted(changes, key=lambda change: not change.is_ruler)


def changed_measurement(comparison: Comparison) -> tuple[str, ...]:
    """What measures the scores and changed between two compared runs; empty if one of them is only a results file."""
    sides = comparison.baseline, comparison.candidate
    if sides[0].source.path == sides[1].source.path or not all(side.source.manifest for side in sides):
        return ()
    try:
        one, two = (
            RecordedSetup.read(RunReader(RunDirectory(side.source.path.parent)), side.targets) for side in sides
        )
    except RecordError:
        return ()
    shared: dict[tuple[str, str], set[str]] = {}
    renamed = {} if len(sides[1].suites) > 1 else dict.fromkeys(sides[0].suites, sides[1].suites[0])
    for pair in comparison.pairs:
        suite = pair.key.suite
        shared.setdefault((suite, renamed.get(suite, suite)), set()).add(pair.key.eval_id)
    targets = [(name, name) for name in one.targets if name in two.targets]
    if len(one.targets) == len(two.targets) == 1:
        targets = [(one.targets[0], two.targets[0])]
    changes = changes_between(one, two, shared, targets)
    return tuple(change.text for change in changes if change.is_ruler)


def _targets(one: RecordedSetup, two: RecordedSetup, pairs: Sequence[tuple[str, str]]) -> list[Change]:
    found = []
    before, after = ", ".join(sorted(one.targets)), ", ".join(sorted(two.targets))
    if before != after:
        noun = "target" if len(one.targets) == len(two.targets) == 1 else "targets"
        found.append(Change("target", f"{noun} changed: {before} -> {after}", False, before, after))
    for target1, target2 in pairs:
        models = [", ".join(side.models.get(name, ())) for side, name in ((one, target1), (two, target2))]
        if models[0] != models[1] and all(models):
            text = f"model of target '{target2}' changed: {models[0]} -> {models[1]}"
            found.append(Change("target", text, False, *models))
    return found


def _options(one: RecordedSetup, two: RecordedSetup) -> list[Change]:
    """Options that differ. `--threshold` does not change scores, but which of them pass."""
    before, after = (_mapping(side.manifest.get("options")) for side in (one, two))
    found = []
    for key in sorted({*before, *after} - _COMPARED_OTHERWISE):
        if before.get(key) != after.get(key):
            values = [shown_value(side.get(key)) for side in (before, after)]
            text = f"--{_OPTION_NAMES.get(key, key.replace('_', '-'))} changed"
            found.append(Change("options", text, key == "threshold", *values))
    return found


def _versions(one: RecordedSetup, two: RecordedSetup) -> list[Change]:
    found = []
    for key, name in (("agentv", "agentv"), ("python", "Python"), ("platform", "platform")):
        before, after = one.manifest.get(key), two.manifest.get(key)
        if isinstance(before, str) and isinstance(after, str) and before != after:
            found.append(Change("version", f"{name} changed", False, before, after))
    commits = [_commit(side.manifest.get("git")) for side in (one, two)]
    if commits[0] != commits[1] and all(commits):
        found.append(Change("git", "commit changed", False, *commits))
    return found


def _commit(git: Any) -> str | None:
    """The commit of a run, marked if there were uncommitted changes; None if unknown."""
    commit = _mapping(git).get("commit")
    if not isinstance(commit, str):
        return None
    return f"{commit[:_SHORT_COMMIT]}{' with changes' if _mapping(git).get('dirty') is True else ''}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
