"""Labels of people against verdicts: how far a judge agrees with them, and they with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from agentv.record.human_labels import HumanLabel, LabelValue
from agentv.report.agreement import Verdicts
from agentv.report.statistics import wilson
from agentv.text import plural

MOST_ROWS = 50
"""Rows that are listed, of those where a judge disagrees with people."""
MOST_PEOPLE = 8

_SAID = {LabelValue.PASS: True, LabelValue.FAIL: False}


class LabelledRow(NamedTuple):
    """A label and the row that it is of. `current` is False if the row has another answer now."""

    row: int | None
    """None if the run does not have such a row."""
    label: HumanLabel
    current: bool


class RunLabels:
    """The labels of a run, as verdicts of people on rows."""

    def __init__(self, labels: Iterable[LabelledRow]) -> None:
        self._people: dict[str, dict[int, bool]] = {}
        self._stale = self._unsure = self._disputed = self._missing = 0
        said: dict[int, list[bool]] = {}
        for row, label, current in labels:
            if row is None:
                self._missing += 1
            elif not current:
                self._stale += 1
            elif label.label not in _SAID:
                self._unsure += 1
            else:
                self._people.setdefault(label.by, {})[row] = _SAID[label.label]
                said.setdefault(row, []).append(_SAID[label.label])
        self.verdicts: dict[int, bool] = {}
        """Whether most people passed the answer of a row."""
        for row, verdicts in said.items():
            passes = sum(verdicts)
            if 2 * passes == len(verdicts):
                self._disputed += 1
            else:
                self.verdicts[row] = 2 * passes > len(verdicts)

    def agreement(self, rows: Sequence[int], passed: Sequence[int]) -> dict[str, Any] | None:
        """`LabelAgreement` of a judge that gave these verdicts to these rows; None if none of them has a label."""
        if not self.verdicts:
            return None
        given = zip(rows, passed, strict=True)
        pairs = [(row, self.verdicts[row], bool(verdict)) for row, verdict in given if row in self.verdicts]
        if not pairs:
            return None
        verdicts = Verdicts.of((label, verdict) for _, label, verdict in pairs)
        return {
            "labels": verdicts.total,
            "agree": verdicts.agree,
            "interval": list(wilson(verdicts.agree, verdicts.total)),
            "kappa": verdicts.kappa,
            "wrongly_passed": verdicts.only_other,
            "wrongly_failed": verdicts.only_one,
            "rows": [row for row, label, verdict in pairs if label != verdict][:MOST_ROWS],
        }

    def people(self) -> list[dict[str, Any]]:
        """`PeopleAgreement` of each two people with labels of the same rows."""
        names = sorted(self._people, key=lambda name: (-len(self._people[name]), name))[:MOST_PEOPLE]
        return [
            {"one": one, "other": other, "rows": both.total, "agree": both.agree, "kappa": both.kappa}
            for one, other in combinations(names, 2)
            if (both := Verdicts.of(_shared(self._people[one], self._people[other]))).total
        ]

    def notes(self) -> list[str]:
        notes = []
        if self._missing:
            notes.append(f"{plural(self._missing, 'label')} not used: this run does not have the row.")
        if self._stale:
            notes.append(f"{plural(self._stale, 'label')} not used: the answer has changed since.")
        if self._unsure:
            notes.append(f"{plural(self._unsure, 'label')} not used: “unsure”.")
        if self._disputed:
            notes.append(f"{plural(self._disputed, 'row')} not used: as many people say pass as fail.")
        return notes


def _shared(one: Mapping[int, bool], other: Mapping[int, bool]) -> Iterable[tuple[bool, bool]]:
    return ((passed, other[row]) for row, passed in one.items() if row in other)
