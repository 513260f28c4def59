"""What scores are measured with: cases, judge scripts, judges and configuration. Tells what changed between two runs.

Paths are compared relative to the working directory of their run, so that runs of two checkouts can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentv import jsonio
from agentv.report.packages import package_changes
from agentv.results import is_of

_SHOWN_CASES, _SHOWN_KEYS = 3, 4
_SHOWN_DIGITS = 12
_SHOWN_VALUE = 200


class Change(NamedTuple):
    """Something that differs between two runs."""

    what: str
    """`case`, `file`, `packages`, `judge`, `configuration`, `target`, `version`, `git` or `options`."""
    text: str
    is_ruler: bool
    """Whether it changes what scores mean. The configuration of a target, for example, changes the answers only."""
    before: str | None = None
    """For a file, the first digits of its SHA-256; else a value. None if there is no single value."""
    after: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "ruler": self.is_ruler,
            "text": self.text,
            "before": self.before,
            "after": self.after,
        }


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
    interpreters: Mapping[str, Any] = field(default_factory=dict)
    """The Pythons of judge scripts with their packages, besides that of agentv. They are those of the whole run."""

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
        files = {file for (name, _), (_, file) in hashes.items() if name == suite}
        homes = {_relative(path, cwd) for path in (*files, *_paths(manifest))}
        judged = _mapping(recorded.get("targets"))
        if target not in judged:  # it may be a variant
            target = next((name for name in judged if is_of(target, name)), target)
        judges = judged.get(target)
        names = tuple(name for name in judges if isinstance(name, str)) if isinstance(judges, list) else None
        if names is None and isinstance(option := _mapping(manifest.get("options")).get("judge_target"), str):
            names = (option,)
        return cls(
            cases,
            {path: sha256 for path, sha256 in short.items() if path in homes},
            {path: sha256 for path, sha256 in short.items() if path not in homes},
            names,
            _settings(manifest, recorded.get("config"), {target, *(names or ())}),
            {
                _relative(name, cwd) if name.startswith("/") else name: each
                for name, each in _mapping(manifest.get("interpreters")).items()
            },
        )

    def changes(self, earlier: Ruler, shared: Iterable[str]) -> list[str]:
        """What changed since an earlier run, in words. Of the cases, only `shared` ones count."""
        return [change.text for change in self.differences(earlier, shared)]

    def differences(self, earlier: Ruler, shared: Iterable[str]) -> list[Change]:
        """What changed since an earlier run. Of the cases, only `shared` ones count."""
        found = []
        if self.cases and earlier.cases:
            edited = [name for name in shared if self.cases.get(name) != earlier.cases.get(name)]
            if edited:
                more = f" and {len(edited) - _SHOWN_CASES:,} more" if len(edited) > _SHOWN_CASES else ""
                noun = "case" if len(edited) == 1 else "cases"
                digits = [
                    _digits(side.get(edited[0])) if len(edited) == 1 else None for side in (earlier.cases, self.cases)
                ]
                found.append(Change("case", f"{noun} changed: {', '.join(edited[:_SHOWN_CASES])}{more}", True, *digits))
        else:
            found += _changed_files(self.suite_files, earlier.suite_files)
        found += _changed_files(self.files, earlier.files)
        for name in sorted(self.interpreters.keys() & earlier.interpreters.keys()):
            if lines := package_changes(self.interpreters[name], earlier.interpreters[name]):
                found.append(Change("packages", f"Python of scripts ({name}) changed: {', '.join(lines)}", True))
        if self.judges is not None and earlier.judges is not None and self.judges != earlier.judges:
            before, after = _names(earlier.judges), _names(self.judges)
            found.append(Change("judge", f"judge changed: {before} -> {after}", True, before, after))
        for name in sorted(self.settings.keys() & earlier.settings.keys()):
            judges = name in (self.judges or ())
            role = f"{'judge' if judges else 'target'} '{name}'"
            change = changed_settings(role, earlier.settings[name], self.settings[name], is_ruler=judges)
            found += [] if change is None else [change]
        return found


def changed_settings(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], *, is_ruler: bool
) -> Change | None:
    """The settings that differ; None if they are the same."""
    keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    if not keys:
        return None
    values = [shown_value(side.get(keys[0])) if len(keys) == 1 else None for side in (before, after)]
    text = f"configuration of {name} changed: {', '.join(keys[:_SHOWN_KEYS])}"
    return Change("configuration", text, is_ruler, *values)


def shown_value(value: Any) -> str | None:
    """A value of a setting as short text; None if it is not set."""
    text = value if value is None or isinstance(value, str) else jsonio.dump_line(value)
    return text if text is None or len(text) <= _SHOWN_VALUE else f"{text[: _SHOWN_VALUE - 1]}…"


def _changed_files(now: Mapping[str, str], before: Mapping[str, str]) -> list[Change]:
    return [
        Change("file", f"{path} changed", True, _digits(before[path]), _digits(now[path]))
        for path in sorted(now)
        if path in before and now[path] != before[path]
    ]


def _digits(sha256: str | None) -> str | None:
    return None if sha256 is None else sha256[:_SHOWN_DIGITS]


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
