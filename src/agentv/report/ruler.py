"""What scores are measured with: cases, judge scripts, judges and configuration. Tells what changed between two runs.

Paths are compared relative to the working directory of their run, so that runs of two checkouts can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_SHOWN_CASES, _SHOWN_KEYS = 3, 4


@dataclass(frozen=True, slots=True)
class Ruler:
    """What the scores of one suite with one target depend on, as far as a run has recorded it."""

    cases: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each case by id; empty for runs of older versions."""
    suite_files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of the files that define cases."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of all other files: judge scripts, prompts, attachments."""
    judges: tuple[str, ...] | None = None
    """The names of the judge targets; None if unknown."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The configuration of the target and of its judges."""

    @classmethod
    def of(
        cls, manifest: Mapping[str, Any], suite: str, target: str, hashes: Mapping[tuple[str, str], tuple[str, str]]
    ) -> Ruler:
        """What `run.json` and the hashes of its cases say about this suite and target."""
        recorded = _suite(manifest, suite)
        cwd = manifest.get("cwd") if isinstance(manifest.get("cwd"), str) else ""
        digests = {
            path: sha256 for path, sha256 in _mapping(manifest.get("digests")).items() if isinstance(sha256, str)
        }
        named = recorded.get("files")
        if isinstance(named, list):
            digests = {path: digests[path] for path in named if isinstance(path, str) and path in digests}
        short = {_relative(path, cwd): sha256 for path, sha256 in digests.items()}
        cases = {eval_id: sha256 for (name, eval_id), (sha256, _) in hashes.items() if name == suite}
        homes = {_relative(file, cwd) for (name, _), (_, file) in hashes.items() if name == suite}
        homes.update(_relative(path, cwd) for path in _paths(manifest))
        judges = _mapping(recorded.get("targets")).get(target)
        names = tuple(name for name in judges if isinstance(name, str)) if isinstance(judges, list) else None
        if names is None and isinstance(option := _mapping(manifest.get("options")).get("judge_target"), str):
            names = (option,)
        return cls(
            cases,
            {path: sha256 for path, sha256 in short.items() if path in homes},
            {path: sha256 for path, sha256 in short.items() if path not in homes},
            names,
            _settings(manifest, recorded.get("config"), {target, *(names or ())}),
        )

    def changes(self, earlier: Ruler, shared: Iterable[str]) -> list[str]:
        """What changed since an earlier run, in words. Of the cases, only `shared` ones count."""
        lines = []
        if self.cases and earlier.cases:
            edited = [name for name in shared if self.cases.get(name) != earlier.cases.get(name)]
            if edited:
                more = f" and {len(edited) - _SHOWN_CASES:,} more" if len(edited) > _SHOWN_CASES else ""
                noun = "case" if len(edited) == 1 else "cases"
                lines.append(f"{noun} changed: {', '.join(edited[:_SHOWN_CASES])}{more}")
        else:
            lines += _changed_files(self.suite_files, earlier.suite_files)
        lines += _changed_files(self.files, earlier.files)
        if self.judges is not None and earlier.judges is not None and self.judges != earlier.judges:
            lines.append(f"judge changed: {_names(earlier.judges)} -> {_names(self.judges)}")
        for name in sorted(self.settings.keys() & earlier.settings.keys()):
            before, after = earlier.settings[name], self.settings[name]
            keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
            if keys:
                role = "judge" if name in (self.judges or ()) else "target"
                lines.append(f"configuration of {role} '{name}' changed: {', '.join(keys[:_SHOWN_KEYS])}")
        return lines


def _changed_files(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    return [f"{path} changed" for path in sorted(now) if path in before and now[path] != before[path]]


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _settings(manifest: Mapping[str, Any], config: Any, names: set[str]) -> dict[str, Mapping[str, Any]]:
    configurations = _mapping(manifest.get("configuration"))
    chosen = (
        [configurations[config]] if isinstance(config, str) and config in configurations else configurations.values()
    )
    found: dict[str, Mapping[str, Any]] = {}
    for configuration in chosen:
        for name, settings in _mapping(_mapping(configuration).get("targets")).items():
            if name in names and isinstance(settings, Mapping):
                found.setdefault(name, settings)
    return found


def _suite(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    suites = manifest.get("suites")
    found = [suite for suite in suites if isinstance(suite, Mapping)] if isinstance(suites, list) else []
    return next((suite for suite in found if suite.get("name") == name), {})


def _paths(manifest: Mapping[str, Any]) -> list[str]:
    suites = manifest.get("suites")
    found = [suite.get("path") for suite in suites if isinstance(suite, Mapping)] if isinstance(suites, list) else []
    return [path for path in found if isinstance(path, str)]


def _relative(path: str, cwd: Any) -> str:
    return os.path.relpath(path, cwd) if cwd and path.startswith("/") else os.path.normpath(path)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
