"""The rows of a run by case, and whether all attempts of a case are there."""

from __future__ import annotations

from agentv.results import CaseKey, CaseResult, Trials
from agentv.trials import Attempts


class RowsOfCases:
    """Collects rows in the order in which they are recorded."""

    def __init__(self) -> None:
        self._rows: dict[CaseKey, list[CaseResult]] = {}

    def add(self, row: CaseResult) -> None:
        self._rows.setdefault(row.key.case, []).append(row)

    def of(self, key: CaseKey) -> list[CaseResult]:
        return sorted(self._rows.get(key, ()), key=lambda row: row.attempt)

    def are_complete(self, key: CaseKey) -> bool:
        """Whether no further attempt of this case will be recorded."""
        rows = self._rows.get(key)
        if not rows:
            return False
        attempts = attempts_of(rows)
        return not attempts.missing or (attempts.trials.stop_early and attempts.is_settled)


def attempts_of(rows: list[CaseResult]) -> Attempts:
    """The attempts of a case as one."""
    attempts = Attempts(rows[0].trials or Trials())
    for row in rows:
        attempts.add(row)
    return attempts
