"""Which cases of the suites run: `--case`, `--tag`, `--exclude-tag`, `--where` and `--sample`."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from agentv.errors import UsageError
from agentv.plan.options import RunOptions
from agentv.suite.suite import EvalCase, EvalSuite
from agentv.text import did_you_mean, one_of, plural, some_of

METADATA = "metadata."
ATTRIBUTES = ("id", "suite", "tag")
DEFAULT_SEED = 0
_REMEMBERED = 1_000
"""Tags and metadata keys that are remembered for messages."""
_EXAMPLE = "metadata.lang=fr"


class Condition(NamedTuple):
    """One `--where` expression: `metadata.lang=fr`, `tag!=slow`, ..."""

    written: str
    key: str
    value: str
    negated: bool

    @classmethod
    def parse(cls, written: str) -> Condition:
        """UsageError unless the expression is `KEY=VALUE` or `KEY!=VALUE` with a known key."""
        key, operator, value = written.partition("=")
        key, negated = (key[:-1], True) if key.endswith("!") else (key, False)
        key, value = key.strip(), value.removeprefix("=").strip()
        if not operator or not key:
            raise UsageError(
                f"--where must be KEY=VALUE or KEY!=VALUE, got '{written}'.",
                next_step=f"For example: --where {_EXAMPLE}",
            )
        if key in ATTRIBUTES or (key.startswith(METADATA) and key != METADATA):
            return cls(written, key, value, negated)
        first, dot, rest = key.partition(".")
        near = did_you_mean(first, [METADATA[:-1]]) if dot else did_you_mean(key, ATTRIBUTES)
        if dot and near:
            near = f" (did you mean `{METADATA}{rest}`?)"
        raise UsageError(
            f"--where has an unknown key `{key}`{near or f' (did you mean `{METADATA}{key}`?)'}.",
            next_step=f"The key must be {one_of(ATTRIBUTES)}, or `{METADATA}` followed by the path of a value.",
        )

    def holds(self, case: EvalCase, suite: str) -> bool:
        if self.key == "tag":
            found: Iterable[Any] = case.tags
        elif self.key in ATTRIBUTES:
            found = (case.id if self.key == "id" else suite,)
        else:
            found = _values(case.metadata, self.key.removeprefix(METADATA))
        return any(_equals(value, self.value) for value in found) is not self.negated


def _values(data: Any, path: str) -> Iterator[Any]:
    """The values at a dotted path; the items of a list count as values. Keys may contain dots themselves."""
    if not isinstance(data, Mapping):
        return
    if path in data:
        value = data[path]
        yield from value if isinstance(value, list) else (value,)
    for key, value in data.items():
        if isinstance(key, str) and path.startswith(f"{key}."):
            yield from _values(value, path[len(key) + 1 :])


def _equals(value: Any, wanted: str) -> bool:
    if isinstance(value, str):
        return value == wanted
    if isinstance(value, Mapping | list):
        return False
    try:
        scalar = json.loads(wanted)
    except ValueError:
        return False
    return bool(value == scalar) and isinstance(value, bool) is isinstance(scalar, bool)


@dataclass(slots=True)
class CaseFilter:
    """The conditions of a run on the contents of its cases, and what it saw, for messages."""

    tags: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    tags_seen: dict[str, int] = field(default_factory=dict)
    keys_seen: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, options: RunOptions) -> CaseFilter | None:
        """The filter, or None if the options accept every case."""
        conditions = tuple(map(Condition.parse, options.where))
        if not (options.tags or options.exclude_tags or conditions):
            return None
        return cls(options.tags, options.exclude_tags, conditions)

    def accepts(self, case: EvalCase, suite: str) -> bool:
        for tag in case.tags:
            if tag in self.tags_seen or len(self.tags_seen) < _REMEMBERED:
                self.tags_seen[tag] = self.tags_seen.get(tag, 0) + 1
        if self.conditions and len(self.keys_seen) < _REMEMBERED:
            self.keys_seen.update(dict.fromkeys(_paths(case.metadata)))
        if self.tags and not any(tag in case.tags for tag in self.tags):
            return False
        if any(tag in case.tags for tag in self.excluded):
            return False
        return all(condition.holds(case, suite) for condition in self.conditions)

    def notes(self) -> list[str]:
        """Tags and keys in the options that no case has. They are likely typos."""
        unknown = [
            f"{flag} {tag}: no case has this tag{did_you_mean(tag, self.tags_seen)}"
            for flag, tags in (("--tag", self.tags), ("--exclude-tag", self.excluded))
            for tag in tags
            if tag not in self.tags_seen
        ]
        return unknown + [
            f"--where {each.written}: no case has `{each.key}`{did_you_mean(each.key, self.keys_seen)}"
            for each in self.conditions
            if each.key.startswith(METADATA) and each.key not in self.keys_seen
        ]

    def nothing(self, options: RunOptions, total: int) -> UsageError:
        """The error if no case is accepted: what was asked for, and what exists."""
        asked = [f"--case {glob}" for glob in options.cases]
        asked += [f"--tag {tag}" for tag in self.tags] + [f"--exclude-tag {tag}" for tag in self.excluded]
        asked += [f"--where {condition.written}" for condition in self.conditions]
        near = (*self.tags, *self.excluded, "")[0]
        tags = some_of(sorted(self.tags_seen), near=near)
        lines = [f"Tags in these suites: {tags}." if self.tags_seen else "No case has tags."]
        if self.conditions:
            keys = some_of(sorted(self.keys_seen), near=self.conditions[0].key)
            lines.append(f"Metadata in these suites: {keys}." if self.keys_seen else "No case has metadata.")
        notes = "".join(f"\n  {note}" for note in self.notes())
        return UsageError(
            f"None of the {plural(total, 'case')} is selected by {' '.join(asked)}.{notes}", next_step=" ".join(lines)
        )


def _paths(data: Mapping[str, Any], prefix: str = METADATA, depth: int = 0) -> Iterator[str]:
    for key, value in data.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < 8:
            yield from _paths(value, f"{prefix}{key}.", depth + 1)


def select_ids(suites: Sequence[EvalSuite], globs: Sequence[str]) -> dict[Path, frozenset[str]]:
    """The ids that `--case` selects, by suite. UsageError for a pattern that matches no case."""
    if not globs:
        return {suite.path: frozenset(suite.ids) for suite in suites}
    every = [case_id for suite in suites for case_id in suite.ids]
    for pattern in globs:
        if not any(fnmatchcase(case_id, pattern) for case_id in every):
            raise no_such_case(pattern, every)
    return {
        suite.path: frozenset(i for i in suite.ids if any(fnmatchcase(i, pattern) for pattern in globs))
        for suite in suites
    }


def no_such_case(pattern: str, ids: Sequence[str]) -> UsageError:
    """The error for a `--case` that matches none of the ids."""
    return UsageError(
        f"--case '{pattern}' matches no case{did_you_mean(pattern, ids)}.",
        next_step=f"{'The only id is' if len(ids) == 1 else 'The ids are'} {some_of(ids, near=pattern)}. "
        "The pattern must match the whole id; `*` matches any characters.",
    )


def sampled(
    suites: Sequence[EvalSuite], selected: Mapping[Path, frozenset[str]], count: int, seed: int
) -> dict[Path, frozenset[str]]:
    """`count` of the selected cases, drawn uniformly over all suites. The same seed draws the same cases, whatever the
    order of the files, and a larger sample contains every smaller one."""

    def rank(drawn: tuple[Path, str, str]) -> bytes:
        _, suite, case_id = drawn
        return hashlib.sha256(json.dumps([seed, suite, case_id]).encode()).digest()

    every = ((suite.path, suite.name, case_id) for suite in suites for case_id in selected[suite.path])
    ids: dict[Path, set[str]] = {suite.path: set() for suite in suites}
    for path, _, case_id in heapq.nsmallest(count, every, key=rank):
        ids[path].add(case_id)
    return {path: frozenset(own) for path, own in ids.items()}
