"""Several attempts as one verdict: every rule, open attempts, and when the outcome is settled."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from agentv.results import CaseError, CaseResult, PassIf, Trials, Verdict, verdict_for
from agentv.trials import Attempts

VECTORS = Path(__file__).resolve().parents[1] / "conformance" / "trials.json"
SCORES = {"p": 1.0, "b": 0.7, "f": 0.0}


def attempts(rule: PassIf, ended: str, count: int | None = None) -> Attempts:
    """`ended` has one letter per attempt: pass, borderline, fail or error."""
    case = Attempts(Trials(count or len(ended), rule))
    for number, letter in enumerate(ended, 1):
        score = SCORES.get(letter, 0.0)
        error = CaseError("target", "down") if letter == "e" else None
        case.add(CaseResult("r", "a", "s", "t", number, score, verdict_for(score), error, threshold=0.8))
    return case


@pytest.mark.parametrize(
    ("rule", "ended", "verdict"),
    [
        ("any", "fpf", "pass"),
        ("any", "fbf", "borderline"),
        ("any", "fff", "fail"),
        ("any", "epf", "pass"),
        ("any", "eff", None),
        ("all", "ppp", "pass"),
        ("all", "pbp", "borderline"),
        ("all", "pbf", "fail"),
        ("all", "fep", "fail"),
        ("all", "ppe", None),
        ("majority", "ppf", "pass"),
        ("majority", "pf", "fail"),  # half is not more than half
        ("majority", "ppff", "fail"),
        ("majority", "pbbf", "borderline"),
        ("majority", "pppee", "pass"),
        ("majority", "fffee", "fail"),
        ("majority", "ppfee", None),
        ("mean", "pppb", "pass"),
        ("mean", "pbb", "pass"),
        ("mean", "ppf", "borderline"),
        ("mean", "pff", "fail"),
        ("mean", "ffe", "fail"),
        ("mean", "ppppe", "pass"),  # even a score of 0 leaves a mean of 0.8
        ("mean", "pppbe", None),
    ],
)
def test_verdict_of_a_case(rule: str, ended: str, verdict: str | None):
    case = attempts(PassIf(rule), ended)
    assert case.verdict == (None if verdict is None else Verdict(verdict))
    assert not case.is_incomplete
    assert case.is_flaky is (0 < ended.count("p") < len(ended) - ended.count("e"))


@pytest.mark.parametrize("rule", list(PassIf))
@pytest.mark.parametrize("ended", ["", "p", "f", "e", "pf", "pe", "fe", "ppf", "ffe", "pfe"])
def test_outcome_is_settled_if_and_only_if_no_missing_attempt_can_change_it(rule: PassIf, ended: str):
    count = 4
    case = attempts(rule, ended, count)
    endings = ["".join(rest) for rest in product("pf", repeat=count - len(ended))]
    outcomes = {attempts(rule, ended + rest).passed for rest in endings}
    assert case.is_settled is (len(outcomes) == 1)
    assert case.is_incomplete is (len(outcomes) > 1)
    if case.passed is not None:
        assert outcomes == {case.passed}


@pytest.mark.parametrize("rule", list(PassIf))
@pytest.mark.parametrize("ended", ["", "p", "f", "e", "pf", "pfpf"])
def test_needed_attempts_are_the_fewest_that_can_settle_the_outcome(rule: PassIf, ended: str):
    case = attempts(rule, ended, 5)
    settled = [
        number
        for number in range(5 - len(ended) + 1)
        if any(attempts(rule, ended + "".join(next_), 5).is_settled for next_ in product("pfe", repeat=number))
    ]
    assert case.needed == min(settled)


def test_scores_at_the_threshold_have_a_mean_at_the_threshold():
    case = Attempts(Trials(3, PassIf.MEAN))
    for number in range(3):
        case.add(CaseResult("r", "a", "s", "t", number + 1, 0.8, Verdict.PASS, threshold=0.8))
    assert (case.passed, case.score) == (True, 0.8)


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text(encoding="utf-8")), ids=lambda vector: vector["name"])
def test_verdicts_agree_with_the_conformance_vectors(vector: dict[str, Any]):
    case = Attempts(Trials(vector["trials"]["count"], PassIf(vector["trials"]["pass_if"])))
    for number, attempt in enumerate(vector["attempts"], 1):
        score, is_error = attempt["score"], attempt["outcome"] == "error"
        verdict = verdict_for(score, vector["threshold"])
        assert attempt["outcome"] == ("error" if is_error else verdict.value)
        error = CaseError("target", "down") if is_error else None
        case.add(CaseResult("r", "a", "s", "t", number, score, verdict, error, threshold=vector["threshold"]))
    without = "incomplete" if case.is_incomplete else "error"
    assert (without if case.verdict is None else case.verdict.value) == vector["verdict"]
    assert (case.score, case.passes, case.is_flaky) == (vector["score"], vector["passes"], vector["flaky"])
