"""Judge noise: how scores and verdicts of a judge differ for identical answers to the same case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agentv.record.run_dir import RunDirectory
from agentv.report.agreement import pooled_sd
from agentv.report.statistics import wilson
from agentv.results import DEFAULT_THRESHOLD
from agentv.view.judge_scores import IN, EvaluatorScores
from agentv.view.ledger_lines import LedgerLines, parsed

MOST_LISTED = 20
"""Answers whose verdict differed, and rubric checks, that are listed."""

Columns = Mapping[str, Any]
PassLines = Mapping[tuple[str, str], Mapping[str, float]]
"""The thresholds of the evaluators of each case, by suite and id."""


def noise_of(
    evaluator: EvaluatorScores, columns: Columns, groups: Mapping[int, int], lines: PassLines
) -> dict[str, Any] | None:
    """`Noise` of an evaluator; None if it did not judge identical answers again. `groups`: rows with the same answer.

    Rows with judge replies from the cache, or from another run, were not judged again and are left out.
    """
    places: dict[int, list[int]] = {}
    for place, row in enumerate(evaluator.rows):
        group = groups.get(row)
        if group is not None and not evaluator.repeated[place]:
            places.setdefault(group, []).append(place)
    answers = {group: found for group, found in places.items() if len(found) > 1}
    sd = pooled_sd([evaluator.scores[place] for place in found] for found in answers.values())
    if sd is None:
        return None
    flips = sorted(
        _flips(evaluator, answers.values()), key=lambda flip: (flip["lowest"] - flip["highest"], flip["row"])
    )
    return {
        "answers": len(answers),
        "rows": sum(map(len, answers.values())),
        "sd": sd,
        "flipped": len(flips),
        "flip_interval": list(wilson(len(flips), len(answers))),
        "near": _near(evaluator, columns, lines, sd),
        "flips": flips[:MOST_LISTED],
        "checks": _checks(evaluator),
    }


def _flips(evaluator: EvaluatorScores, answers: Any) -> Iterator[dict[str, Any]]:
    """`Flip` of each answer with different verdicts."""
    for places in answers:
        passed = sum(evaluator.passed[place] for place in places)
        if 0 < passed < len(places):
            scores = [evaluator.scores[place] for place in places]
            row = evaluator.rows[places[0]]
            yield {"row": row, "rows": len(places), "passed": passed, "lowest": min(scores), "highest": max(scores)}


def _checks(evaluator: EvaluatorScores) -> list[dict[str, Any]]:
    """Rubric checks of answers that were judged more than once, the least certain first."""
    answers: Counter[str] = Counter()
    flipped: Counter[str] = Counter()
    for judged, satisfied in evaluator.checks.values():
        for check, count in judged.items():
            if count > 1:
                answers[check] += 1
                flipped[check] += 0 < satisfied[check] < count
    order = sorted(answers, key=lambda check: (-flipped[check] / answers[check], -answers[check], check))
    return [{"id": check, "answers": answers[check], "flipped": flipped[check]} for check in order[:MOST_LISTED]]


def _near(evaluator: EvaluatorScores, columns: Columns, lines: PassLines, sd: float) -> int | None:
    """Rows whose score is within one SD of the pass line of the evaluator; None if the line is not recorded."""
    suites, suite, ids = columns["suites"], columns["suite"], columns["eval_id"]
    near = 0
    for row, score in zip(evaluator.rows, evaluator.scores, strict=True):
        line = lines.get((suites[suite[row]], ids[row]), {}).get(evaluator.name)
        if line is None:
            return None
        near += sd > 0 and abs(score - line) <= sd + 1e-9
    return near


def pass_lines(directory: RunDirectory) -> PassLines:
    """The thresholds of all evaluators, from `cases.jsonl`; empty if the run was recorded without its cases."""
    lines: dict[tuple[str, str], Mapping[str, float]] = {}
    same: dict[tuple[tuple[str, float], ...], Mapping[str, float]] = {}  # most cases have the same evaluators
    for _, line in LedgerLines(directory.cases).read():
        try:
            case = parsed(line)
        except (ValueError, RecursionError):
            continue
        if type(case) is dict and type(case.get("suite")) is str and type(case.get("eval_id")) is str:
            found = tuple(_thresholds(case.get("evaluators"), ""))
            lines[case["suite"], case["eval_id"]] = same.setdefault(found, dict(found))
    return lines


def _thresholds(evaluators: Any, prefix: str) -> Iterator[tuple[str, float]]:
    waiting = [(evaluator, prefix) for evaluator in (evaluators if type(evaluators) is list else ())]
    while waiting:
        evaluator, prefix = waiting.pop()
        if type(evaluator) is not dict or type(evaluator.get("name")) is not str:
            continue
        name, line = prefix + evaluator["name"], evaluator.get("threshold")
        line = DEFAULT_THRESHOLD if line is None else line
        if (type(line) is float or type(line) is int) and 0 <= line <= 1:
            yield name, float(line)
        if type(members := evaluator.get("members")) is list:
            waiting += [(member, f"{name}{IN}") for member in members]
