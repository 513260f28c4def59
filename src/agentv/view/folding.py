"""Rows in columns as cases: the attempts of a case with one target, and what they add up to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from agentv.report.accumulate import Tally
from agentv.report.compared_run import ComparedCase
from agentv.report.summary import interval_of
from agentv.results import CaseKey, PassIf, Trials, Verdict
from agentv.trials import Attempts
from agentv.view.columns import Totals
from agentv.view.row_columns import ERROR, OUTCOMES

Columns = Mapping[str, Any]
"""Rows as columns, as described in `static/types.js`."""

_PASS, _BORDERLINE = OUTCOMES[Verdict.PASS.value], OUTCOMES[Verdict.BORDERLINE.value]


def cases_of(columns: Columns) -> dict[CaseKey, ComparedCase]:
    """The cases of a run, in the order of their first rows."""
    trials = [Trials(each["count"], PassIf(each["pass_if"]), each["stop_early"]) for each in columns["trials"]]
    cases: dict[CaseKey, ComparedCase] = {}
    for row, key in enumerate(_case_keys(columns)):
        case = cases.get(key)
        if case is None:
            case = cases[key] = ComparedCase(Attempts(trials[columns["trial"][row]]), first_row=row)
        _add(case, columns, row)
    return cases


def _case_keys(columns: Columns) -> Iterator[CaseKey]:
    suites, targets = columns["suites"], columns["targets"]
    for suite, eval_id, target in zip(columns["suite"], columns["eval_id"], columns["target"], strict=True):
        yield CaseKey(suites[suite], eval_id, targets[target])


def _add(case: ComparedCase, columns: Columns, row: int) -> None:
    """Add an attempt to its case, as `ComparedCase.add` and `Attempts.add` do with a whole row."""
    outcome, score, threshold = columns["outcome"][row], columns["score"][row], columns["threshold"][row]
    attempts = case.attempts
    if threshold is not None:
        attempts.threshold = threshold
    if outcome == ERROR:
        attempts.errors += 1
        case.error = case.error or columns["reason"][row] or "error"
        return
    attempts.scores.append(score)
    attempts.passes += outcome == _PASS
    attempts.borderline += outcome == _BORDERLINE
    if score < case.lowest:
        case.lowest = score
        case.reason = columns["reason"][row] if score < 1 else ""


def outcome_of(attempts: Attempts) -> int:
    """The outcome of a case, as in the columns. Without a verdict, it errored."""
    verdict = attempts.verdict
    return ERROR if verdict is None else OUTCOMES[verdict.value]


def counted(columns: Columns, totals: Totals) -> dict[str, Any]:
    """The numbers of a `RunHead`, from the rows that there are. Cases that lack attempts are not counted."""
    tally = Tally(spread=True)
    for case in cases_of(columns).values():
        if not case.attempts.is_incomplete:
            tally.count(case.attempts.verdict, case.attempts.score)
    interval = interval_of(tally)
    asked = zip(columns["cost_usd"], columns["outcome"], strict=True)
    judged = zip(columns["judge_cost_usd"], columns["judge_calls"], strict=True)
    costs = [cost for cost, outcome in asked if cost is not None or outcome != ERROR]
    costs += [cost for cost, calls in judged if calls]
    known = [cost for cost in costs if cost is not None]
    return {
        "targets": columns["targets"],
        "total": tally.total,
        "passed": tally.passed,
        "borderline": tally.borderline,
        "failed": tally.failed,
        "errors": tally.errors,
        "mean_score": tally.scores.mean,
        "mean_interval": list(interval) if interval else None,
        "cost_usd": math.fsum(known) if known else None,
        "cost_complete": len(known) == len(costs) and not totals.unpriced_judges,
        "judge_calls": sum(columns["judge_calls"]),
    }
