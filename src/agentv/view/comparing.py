"""The comparison of two runs for the viewer: the numbers of `agentv compare`, by group, and what changed between them.

Rows come from the columns of the runs, which the viewer has in memory: no row is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agentv.errors import UsageError
from agentv.record.reading import RunReader
from agentv.record.run_dir import RunDirectory
from agentv.report.compare import Comparison, Outcome, Unjudged, compare, decide, keyed_cases
from agentv.report.compared_run import ComparedCase, ComparedRun
from agentv.report.comparison_numbers import comparison_headline, explained
from agentv.report.groups import MOST_VALUES, chosen_groups, compare_groups
from agentv.report.row_source import RowSource
from agentv.report.run_changes import RecordedSetup, changes_between
from agentv.results import CaseKey
from agentv.view.folding import Columns, cases_of
from agentv.view.row_columns import ERROR

CONFIDENCE = 0.95
_OUTCOMES = {Outcome.TIE: 0, Outcome.WIN: 1, Outcome.LOSS: 2}


def compare_runs(a: RunDirectory, b: RunDirectory, columns_a: Columns, columns_b: Columns) -> dict[str, Any]:
    """Compare run `b`, the candidate, with run `a`, the baseline: `CompareData` without the heads of the runs.

    Raises UsageError if the runs have no cases in common.
    """
    readers = RunReader(a), RunReader(b)
    baseline, candidate = (
        _compared_run(reader, columns) for reader, columns in zip(readers, (columns_a, columns_b), strict=True)
    )
    comparison = compare(baseline, candidate, confidence=CONFIDENCE)
    pairing = _Pairing(comparison, columns_a, columns_b)
    places, left_out = chosen_groups(pairing.groups(), len(comparison.pairs))
    decision = decide(comparison)
    notes = comparison.notes()
    if left_out:
        names = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5:,} more" if len(left_out) > 5 else "")
        notes.append(f"not shown as groups, because there would be too many: {names}")
    setups = [
        RecordedSetup.read(reader, run.targets) for reader, run in zip(readers, (baseline, candidate), strict=True)
    ]
    changes = changes_between(setups[0], setups[1], pairing.shared_cases(), pairing.targets())
    return {
        "headline": comparison_headline(comparison),
        "decision": decision.to_dict(),
        "summary": comparison.to_dict()["summary"],
        "notes": notes,
        "changes": [change.to_dict() for change in changes],
        "pairs": pairing.columns(),
        "groups": [group.to_dict() for group in compare_groups(comparison.pairs, places, CONFIDENCE)],
        "only_a": [pairing.place(key, pairing.cases1[key]) for key in comparison.only_baseline],
        "only_b": [pairing.place(key, pairing.cases2[key]) for key in comparison.only_candidate],
        "unjudged": [pairing.unjudged(case) for case in comparison.unjudged],
    }


def _compared_run(reader: RunReader, columns: Columns) -> ComparedRun:
    """One side of the comparison, from its columns."""
    directory = reader.directory
    run = ComparedRun(RowSource(directory.path.name, directory.results, reader.manifest), cases_of(columns))
    if not run.cases:
        raise UsageError(f"{directory.path.name} cannot be compared: it has no rows")
    run.rows = len(columns["score"])
    run.error_rows = sum(outcome == ERROR for outcome in columns["outcome"])
    run.targets = list(dict.fromkeys(key.target for key in run.cases))
    return run


class _Pairing:
    """The cases of a comparison in the rows of both runs."""

    def __init__(self, comparison: Comparison, columns1: Columns, columns2: Columns) -> None:
        self.comparison = comparison
        self._columns1, self._columns2 = columns1, columns2
        self.cases1, self.cases2 = keyed_cases(comparison.baseline, comparison.candidate)
        self._rows1 = [self.cases1[pair.key].first_row for pair in comparison.pairs]
        self._rows2 = [self.cases2[pair.key].first_row for pair in comparison.pairs]

    def columns(self) -> dict[str, Any]:
        """`Pairs`, sorted by key."""
        pairs = self.comparison.pairs
        return {
            "count": len(pairs),
            "suite": [pair.key.suite for pair in pairs],
            "eval_id": [pair.key.eval_id for pair in pairs],
            "target1": list(_named(self._columns1, "target", self._rows1)),
            "target2": list(_named(self._columns2, "target", self._rows2)),
            "score1": [pair.score1 for pair in pairs],
            "score2": [pair.score2 for pair in pairs],
            "passed1": [int(pair.passed1) for pair in pairs],
            "passed2": [int(pair.passed2) for pair in pairs],
            "outcome": [_OUTCOMES[pair.outcome] for pair in pairs],
            "reason": [explained(pair) for pair in pairs],
            "row1": self._rows1,
            "row2": self._rows2,
        }

    def place(self, key: CaseKey, case: ComparedCase) -> dict[str, Any]:
        """A case that only one of the runs has."""
        columns = self._columns1 if self.cases1.get(key) is case else self._columns2
        target = columns["targets"][columns["target"][case.first_row]]
        return {"suite": key.suite, "eval_id": key.eval_id, "target": target, "row": case.first_row}

    def unjudged(self, case: Unjudged) -> dict[str, Any]:
        row1, row2 = self.cases1[case.key].first_row, self.cases2[case.key].first_row
        return {
            **case.to_dict(),
            "target": self._columns2["targets"][self._columns2["target"][row2]],
            "row1": row1,
            "row2": row2,
        }

    def targets(self) -> set[tuple[str, str]]:
        """The targets that were compared with each other."""
        names = (
            _named(columns, "target", rows)
            for columns, rows in ((self._columns1, self._all1()), (self._columns2, self._all2()))
        )
        return set(zip(*names, strict=True))

    def shared_cases(self) -> dict[tuple[str, str], set[str]]:
        """The ids of the compared cases by the names of their suite in both runs."""
        shared: dict[tuple[str, str], set[str]] = {}
        suites = zip(
            _named(self._columns1, "suite", self._all1()), _named(self._columns2, "suite", self._all2()), strict=True
        )
        for names, key in zip(suites, self._common(), strict=True):
            shared.setdefault(names, set()).add(key.eval_id)
        return shared

    def groups(self) -> dict[str, dict[str, list[int]]]:
        """The positions of the pairs for each value that cases can be grouped by, as recorded by the candidate."""
        columns, rows = self._columns2, self._rows2
        keys: dict[str, dict[str, list[int]]] = {"suite": {}, "target": {}, "tag": {}}
        for by in ("suite", "target"):
            for place, name in enumerate(_named(columns, by, rows)):
                keys[by].setdefault(name, []).append(place)
        tags, sets = columns["tags"], columns["tag_sets"]
        for place, row in enumerate(rows):
            for tag in sets[columns["tag_set"][row]]:
                keys["tag"].setdefault(tags[tag], []).append(place)
        for key, values in columns["metadata"].items():
            index, found = columns["metadata_index"][key], keys.setdefault(f"metadata.{key}", {})
            for place, row in enumerate(rows):
                if index[row] >= 0:
                    found.setdefault(values[index[row]], []).append(place)
            if len(found) > MOST_VALUES:
                del keys[f"metadata.{key}"]  # such as ids: never meant as groups
        return keys

    def _common(self) -> Iterable[CaseKey]:
        return [key for key in self.cases1 if key in self.cases2]

    def _all1(self) -> Iterator[int]:
        return (self.cases1[key].first_row for key in self._common())

    def _all2(self) -> Iterator[int]:
        return (self.cases2[key].first_row for key in self._common())


def _named(columns: Columns, what: str, rows: Iterable[int]) -> Iterator[str]:
    """The suite or the target of each of these rows."""
    names, index = columns[f"{what}s"], columns[what]
    return (names[index[row]] for row in rows)
