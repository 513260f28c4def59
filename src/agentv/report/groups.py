"""A comparison by group: suites, targets, tags and metadata, corrected for the number of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agentv.report.compare import Conclusion, Pair, over_cases
from agentv.report.statistics import Interval, bootstrap_limit, holm, paired_bootstrap

MOST_GROUPS = 200
"""Groups of one comparison. With more, the correction leaves nothing significant."""
MOST_VALUES = 50
"""Values of one key. Keys with more, such as ids, do not group the cases."""

_RESAMPLES = 2_000
"""Fewer than for the whole comparison: there may be many groups."""


class GroupName(NamedTuple):
    """A value of what the cases are grouped by."""

    by: str
    """`suite`, `target`, `prompt`, `tag` or `metadata.KEY`."""
    name: str


@dataclass(frozen=True, slots=True)
class Group:
    """The cases of one group in both runs."""

    group: GroupName
    cases: int
    mean_delta: float | None
    interval: Interval | None
    newly_passed: int
    newly_failed: int
    p: float
    """The sign test."""
    p_holm: float
    """The same, corrected for the number of groups."""
    conclusion: Conclusion
    """From the interval alone, which is not corrected."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.group._asdict(),
            "cases": self.cases,
            "mean_delta": self.mean_delta,
            "interval": list(self.interval) if self.interval else None,
            "newly_passed": self.newly_passed,
            "newly_failed": self.newly_failed,
            "p": self.p,
            "p_holm": self.p_holm,
            "conclusion": self.conclusion.value,
        }


def compare_groups(pairs: Sequence[Pair], members: Mapping[GroupName, Sequence[int]], confidence: float) -> list[Group]:
    """Each group with the positions of its pairs, as a comparison of these pairs."""
    groups = [_compared(name, [pairs[place] for place in places], confidence) for name, places in members.items()]
    adjusted = holm([group.p for group in groups])
    return [replace(group, p_holm=p) for group, p in zip(groups, adjusted, strict=True)]


def _compared(name: GroupName, pairs: Sequence[Pair], confidence: float) -> Group:
    test = over_cases(pairs, confidence, _interval)
    return Group(
        group=name,
        cases=test.cases,
        mean_delta=test.mean_delta,
        interval=test.interval,
        newly_passed=sum(pair.passed2 and not pair.passed1 for pair in pairs),
        newly_failed=sum(pair.passed1 and not pair.passed2 for pair in pairs),
        p=test.sign_test_p,
        p_holm=test.sign_test_p,
        conclusion=test.conclusion,
    )


def _interval(deltas: Sequence[float], *, confidence: float) -> Interval:
    """Resampling a large group would take half a second, and 200 of them minutes."""
    limit = bootstrap_limit(deltas, confidence=confidence)
    return limit or paired_bootstrap(deltas, confidence=confidence, resamples=_RESAMPLES)


def chosen_groups(
    keys: Mapping[str, Mapping[str, Sequence[int]]], count: int
) -> tuple[dict[GroupName, Sequence[int]], list[str]]:
    """The groups to compare, and the keys that were left out because there would be too many groups.

    `keys` are the positions of the pairs for each value of `suite`, `target`, `prompt`, `tag` and `metadata.KEY`;
    `count` is the number of pairs. A key groups the cases if it has 2 to `MOST_VALUES` values. A tag needs no other tag
    beside it, but it must not be on all cases.
    """
    chosen: dict[GroupName, Sequence[int]] = {}
    left_out = []
    for by, values in keys.items():
        groups = {GroupName(by, name): places for name, places in sorted(values.items())}
        if by == "tag":
            groups = {group: places for group, places in groups.items() if len(places) < count}
        elif len(groups) < 2:
            continue
        if len(groups) > MOST_VALUES or len(chosen) + len(groups) > MOST_GROUPS:
            left_out.append(by)
            continue
        chosen |= groups
    return chosen, left_out
