"""The comparison of two runs for the viewer: the numbers of `agentv compare`, by group, and what changed between them.

Rows come from the columns of the runs, which the viewer has in memory: no row is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from agentv.errors import UsageError
from agentv.record.reading import RunReader
from agentv.record.run_dir import RunDirectory
from agentv.report.compare import Comparison, Outcome, Unjudged, compare, decide, keyed_cases
from agentv.report.compared_run import ComparedCase, ComparedRun
from agentv.report.comparison_numbers import comparison_headline, explained
from agentv.report.groups import MOST_VALUES, chosen_groups, compare_groups
from agentv.report.row_source import RowSource
from agentv.report.run_changes import RecordedSetup, changes_between
from agentv.results import CaseKey, variant_of
from agentv.view.folding import Columns, cases_of

CONFIDENCE = 0.95
_ONE_RUN = "A prompt can only be compared with another prompt of the same run."
_OUTCOMES = {Outcome.TIE: 0, Outcome.WIN: 1, Outcome.LOSS: 2}


class Side(NamedTuple):
    """A run, or one of its prompts. In addresses, it is written like a variant: `RUN [prompt]`."""

    run: str
    prompt: str | None = None

    def __str__(self) -> str:
        return variant_of(self.run, self.prompt)


def compare_sides(
    a: Side, b: Side, directories: tuple[RunDirectory, RunDirectory], columns: tuple[Columns, Columns]
) -> dict[str, Any]:
    """Compare side `b`, the candidate, with side `a`, the baseline: `CompareData` without the heads of the runs.

    Two prompts are sides of one run, compared as by `agentv compare --by prompt`. Raises UsageError if the sides have
    no cases in common.
    """
    if a.prompt != b.prompt and (a.run != b.run or a.prompt is None or b.prompt is None):
        raise UsageError(_ONE_RUN)
    columns_a, columns_b = columns
    readers = RunReader(directories[0]), RunReader(directories[1])
    baseline = _compared_run(readers[0], columns_a, a.prompt)
    candidate = _compared_run(readers[1], columns_b, b.prompt)
    comparison = compare(baseline, candidate, confidence=CONFIDENCE)
    pairing = _Pairing(comparison, columns_a, columns_b, by_prompt=a.prompt is not None)
    places, left_out = chosen_groups(pairing.groups(), len(comparison.pairs))
    decision = decide(comparison)
    notes = comparison.notes()
    if left_out:
        names = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5:,} more" if len(left_out) > 5 else "")
        notes.append(f"not shown as groups, because there would be too many: {names}")
    changes = []
    if a.run != b.run:
        one, two = (
            RecordedSetup.read(*each) for each in zip(readers, (baseline.targets, candidate.targets), strict=True)
        )
        changes = changes_between(one, two, pairing.shared_cases(), pairing.targets())
    return {
        "prompts": [a.prompt, b.prompt],
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


def _compared_run(reader: RunReader, columns: Columns, prompt: str | None) -> ComparedRun:
    """One side of the comparison, from its columns: the whole run, or the rows of a prompt, paired by target."""
    directory, cases = reader.directory, cases_of(columns)
    if prompt is not None:
        names = {name: target for name, (target, of) in _variants(columns) if of == prompt}
        cases = {key._replace(target=names[key.target]): case for key, case in cases.items() if key.target in names}
    run = ComparedRun(RowSource(directory.path.name, directory.results, reader.manifest), cases)
    if not run.cases:
        what = "rows" if prompt is None else f"rows of prompt '{prompt}'"
        raise UsageError(f"{directory.path.name} cannot be compared: it has no {what}")
    run.rows = sum(case.attempts.finished for case in cases.values())
    run.error_rows = sum(case.attempts.errors for case in cases.values())
    if prompt is None and any(of is not None for _, of in columns["variants"]):
        run.paired_by = "variant"
    run.targets = list(dict.fromkeys(key.target for key in run.cases))
    return run


class _Pairing:
    """The cases of a comparison in the rows of both runs."""

    def __init__(self, comparison: Comparison, columns1: Columns, columns2: Columns, *, by_prompt: bool) -> None:
        self.comparison = comparison
        self._by_prompt = by_prompt
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
            "target1": list(self._targets_of(self._columns1, self._rows1)),
            "target2": list(self._targets_of(self._columns2, self._rows2)),
            "score1": [pair.score1 for pair in pairs],
            "score2": [pair.score2 for pair in pairs],
            "passed1": [int(pair.passed1) for pair in pairs],
            "passed2": [int(pair.passed2) for pair in pairs],
            "outcome": [_OUTCOMES[pair.outcome] for pair in pairs],
            "reason": [explained(pair) for pair in pairs],
            "row1": self._rows1,
            "row2": self._rows2,
        }

    def _targets_of(self, columns: Columns, rows: Iterable[int]) -> Iterator[str]:
        """The variant of each row; only the target if two prompts are compared."""
        names = dict(_variants(columns))
        return (names[name][0] if self._by_prompt else name for name in _named(columns, "target", rows))

    def place(self, key: CaseKey, case: ComparedCase) -> dict[str, Any]:
        """A case that only one of the runs has."""
        columns = self._columns1 if self.cases1.get(key) is case else self._columns2
        target = columns["targets"][columns["target"][case.first_row]]
        return {"suite": key.suite, "eval_id": key.eval_id, "target": target, "row": case.first_row}

    def unjudged(self, case: Unjudged) -> dict[str, Any]:
        row1, row2 = self.cases1[case.key].first_row, self.cases2[case.key].first_row
        return {
            **case.to_dict(),
            "target1": self._columns1["targets"][self._columns1["target"][row1]],
            "target": self._columns2["targets"][self._columns2["target"][row2]],
            "row1": row1,
            "row2": row2,
        }

    def targets(self) -> set[tuple[str, str]]:
        """The targets that were compared with each other, without their prompts."""
        pairs = zip(
            _named(self._columns1, "target", self._all1()), _named(self._columns2, "target", self._all2()), strict=True
        )
        one, two = (dict(_variants(columns)) for columns in (self._columns1, self._columns2))
        return {(one[before][0], two[after][0]) for before, after in set(pairs)}

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
        keys: dict[str, dict[str, list[int]]] = {"suite": {}, "target": {}, "prompt": {}, "tag": {}}
        for place, row in enumerate(rows):
            target, prompt = columns["variants"][columns["target"][row]]
            keys["suite"].setdefault(columns["suites"][columns["suite"][row]], []).append(place)
            keys["target"].setdefault(target, []).append(place)
            if prompt is not None:
                keys["prompt"].setdefault(prompt, []).append(place)
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


def _variants(columns: Columns) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """The target and the prompt of each variant."""
    return (
        (name, (target, prompt)) for name, (target, prompt) in zip(columns["targets"], columns["variants"], strict=True)
    )


def _named(columns: Columns, what: str, rows: Iterable[int]) -> Iterator[str]:
    """The suite or the target of each of these rows."""
    names, index = columns[f"{what}s"], columns[what]
    return (names[index[row]] for row in rows)
