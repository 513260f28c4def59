"""The judges of a run: what they cost, how noisy they are, and how far they agree with each other and with people.

The rows and the judge calls are streamed: only scores and verdicts of evaluators are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from agentv.record.run_dir import RunDirectory
from agentv.report.agreement import Verdicts, spearman, spearman_p
from agentv.report.labels import replayed_id
from agentv.results import variant_of
from agentv.text import plural
from agentv.view.judge_labels import RunLabels
from agentv.view.judge_noise import PassLines, noise_of, pass_lines
from agentv.view.judge_scores import IN, AllScores, EvaluatorScores
from agentv.view.judge_targets import JudgeTargets
from agentv.view.ledger_lines import LedgerLines, parsed
from agentv.view.row_columns import ERROR, MOST_EVALUATORS, PASS

MOST_COMPARED = 10
"""Evaluators whose agreement is computed: each with each other."""

Columns = Mapping[str, Any]
"""Rows as columns, as described in `static/types.js`."""


class Judging:
    """The judges of a run. Everything is read when it is created; labels are added later, because they change."""

    def __init__(self, columns: Columns, directory: RunDirectory, manifest: Mapping[str, Any]) -> None:
        """`columns` are all rows of the run."""
        groups = _same_answers(columns)
        targets = JudgeTargets()
        scores = AllScores(targets, groups, replayed=replayed_id(manifest) is not None)
        read = 0
        for row, data in _rows(columns, directory):
            read += 1
            scores.add(row, data.get("evaluator_results"))
        targets.read(directory)
        self._evaluators = list(scores.evaluators.values())
        lines = pass_lines(directory) if groups else {}
        compared, left_out = _compared(self._evaluators)
        self._scored = [row for row, outcome in enumerate(columns["outcome"]) if outcome != ERROR]
        self._passed = [columns["outcome"][row] == PASS for row in self._scored]
        self._targets = targets.to_list()
        self._described = [_described(evaluator, columns, groups, lines) for evaluator in self._evaluators]
        self._agreement = [pair for one, other in compared if (pair := _agreement(one, other)) is not None]
        self._notes = list(_notes(len(columns["outcome"]) - read, targets, scores, left_out, groups))

    def data(self, labels: RunLabels) -> dict[str, Any]:
        """`JudgesData` with these labels."""
        return {
            "targets": self._targets,
            "evaluators": [
                {**described, "labels": labels.agreement(evaluator.rows, evaluator.passed)}
                for evaluator, described in zip(self._evaluators, self._described, strict=True)
            ],
            "agreement": self._agreement,
            "labels": labels.agreement(self._scored, self._passed),
            "people": labels.people(),
            "notes": [*self._notes, *labels.notes()],
        }


def _rows(columns: Columns, directory: RunDirectory) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of the columns with their lines, in the same order. Lines that the columns do not have are skipped."""
    suites, targets = columns["suites"], columns["targets"]
    names = ("suite", "eval_id", "target", "attempt")
    keys = zip(*(columns[name] for name in names), strict=True)
    expected = next(keys, None)
    row = 0
    for _, line in LedgerLines(directory.results).read():
        if expected is None:
            return
        try:
            data = parsed(line)
        except (ValueError, RecursionError):
            continue
        suite, eval_id, target, attempt = expected
        if type(data) is not dict or data.get("eval_id") != eval_id or data.get("attempt") != attempt:
            continue
        if data.get("suite") == suites[suite] and _variant(data) == targets[target]:
            yield row, data
            expected = next(keys, None)
            row += 1


def _same_answers(columns: Columns) -> dict[int, int]:
    """The rows whose answer occurs more than once for its case and target. The value is the first of these rows."""
    first: dict[tuple[int, str, int, int], int] = {}
    groups: dict[int, int] = {}
    keys = zip(*(columns[name] for name in ("suite", "eval_id", "target", "answer")), strict=True)
    for row, key in enumerate(keys):
        earlier = first.setdefault(key, row)
        if earlier != row:
            groups[earlier] = groups[row] = earlier
    return groups


def _described(
    evaluator: EvaluatorScores,
    columns: Columns,
    groups: Mapping[int, int],
    lines: PassLines,
) -> dict[str, Any]:
    """`JudgeEvaluator` without labels."""
    is_judge = evaluator.is_judge
    return {
        **evaluator.to_dict(),
        "noise": noise_of(evaluator, columns, groups, lines) if is_judge else None,
        "length": _length(evaluator, columns) if is_judge else None,
    }


def _length(evaluator: EvaluatorScores, columns: Columns) -> dict[str, Any] | None:
    """The correlation of score and answer length. The unit is the case with a target: attempts are averaged."""
    lengths, ids, suites, targets = (columns[name] for name in ("answer_length", "eval_id", "suite", "target"))
    cases: dict[tuple[int, str, int], list[tuple[float, int]]] = {}
    for row, score in zip(evaluator.rows, evaluator.scores, strict=True):
        cases.setdefault((suites[row], ids[row], targets[row]), []).append((score, lengths[row]))
    if not cases:
        return None
    means = (
        (sum(score for score, _ in rows) / len(rows), sum(length for _, length in rows) / len(rows))
        for rows in cases.values()
    )
    rho = spearman(Counter(means))
    return {"rows": len(cases), "rho": rho, "p": spearman_p(rho, len(cases))}


# -- between evaluators


def _compared(
    evaluators: Sequence[EvaluatorScores],
) -> tuple[list[tuple[EvaluatorScores, EvaluatorScores]], list[str]]:
    """The pairs of evaluators to compare, judges first, and the names of those that are left out.

    A composite is not compared with its members: it is made from them. Other members are parts of its score.
    """
    scored = [each for each in evaluators if each.rows and (each.is_judge or each.member_of is None)]
    scored.sort(key=lambda each: not each.is_judge)
    chosen = scored[:MOST_COMPARED]
    pairs = [
        (one, other)
        for one, other in combinations(chosen, 2)
        if not (f"{one.name}{IN}".startswith(f"{other.name}{IN}") or f"{other.name}{IN}".startswith(f"{one.name}{IN}"))
    ]
    return pairs, [each.name for each in scored[MOST_COMPARED:]]


def _agreement(one: EvaluatorScores, other: EvaluatorScores) -> dict[str, Any] | None:
    """`Agreement` of two evaluators on the rows that both judged; None if there are none."""
    places = _common(one.rows, other.rows)
    verdicts = Verdicts.of((bool(one.passed[i]), bool(other.passed[k])) for i, k in places)
    if not verdicts.total:
        return None
    rho = spearman(Counter((one.scores[i], other.scores[k]) for i, k in places))
    return {
        "one": one.name,
        "other": other.name,
        "rows": verdicts.total,
        "agree": verdicts.agree,
        "kappa": verdicts.kappa,
        "rho": rho,
    }


def _common(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """The positions of the rows that are in both lists, which are ascending."""
    if one == other:
        return [(i, i) for i in range(len(one))]
    places = {row: i for i, row in enumerate(one)}
    return [(places[row], k) for k, row in enumerate(other) if row in places]


# -- notes


def _variant(row: Mapping[str, Any]) -> str:
    prompt = row.get("prompt")
    return variant_of(str(row.get("target")), prompt if isinstance(prompt, str) else None)


def _not_fresh(evaluators: Iterable[EvaluatorScores], groups: Mapping[int, int]) -> int:
    """Rows that would show noise, but were judged with replies from the cache."""
    rows: set[int] = set()
    for evaluator in evaluators:
        rows.update(
            row for row, repeated in zip(evaluator.rows, evaluator.repeated, strict=True) if repeated and row in groups
        )
    return len(rows)


def _notes(
    missing: int, targets: JudgeTargets, scores: AllScores, left_out: Sequence[str], groups: Mapping[int, int]
) -> Iterator[str]:
    if missing > 0:
        yield f"{plural(missing, 'row')} not counted, because the run has changed. Reload the page."
    if targets.damaged:
        yield f"{plural(targets.damaged, 'line')} of judge_calls.jsonl could not be read."
    if scores.replayed:
        yield "This run was replayed: no judge was called, so noise is not measured."
    elif not_fresh := _not_fresh(scores.evaluators.values(), groups):
        rows = plural(not_fresh, "row")
        yield f"{rows} left out of the noise, because judge replies came from the cache (--cache)."
    if scores.left_out:
        yield f"Only the first {MOST_EVALUATORS} evaluators are shown."
    if left_out:
        names = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5:,} more" if len(left_out) > 5 else "")
        yield f"Agreement is computed for {MOST_COMPARED} evaluators. Left out: {names}."
