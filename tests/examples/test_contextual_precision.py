"""Contextual precision with both kinds of judge."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.examples.support import put_target, run

SUITE = "contextual-precision/suite.yaml"
JUDGES = ("one-call-per-passage", "one-prompt")

BY_HAND = {
    "return-a-book": 1.0,  # 1,0,0: 1/1
    "shipping-cost": 0.8333,  # 1,0,1: (1/1 + 2/3) / 2
    "open-on-sunday": 0.3333,  # 0,0,1: 1/3
    "student-discount": 0.0,  # 0,0,0
    "gift-wrapping": 1.0,  # 1,1,0: (1/1 + 2/2) / 2
    "lost-parcel": 0.5833,  # 0,1,1: (1/2 + 2/3) / 2
    "e-books": 0.5,  # 0,1,0: 1/2
    "payment": 1.0,  # 1,1,1
}


def found(*passages: str) -> dict[str, Any]:
    """An answer to grade with these retrieved passages."""
    calls = [{"tool": "search", "input": {}, "output": list(passages)}]
    return {
        "eval_id": "return-a-book",
        "output_messages": [{"role": "assistant", "content": "Here you are.", "tool_calls": calls}],
    }


def test_both_judges_give_the_expected_scores(folder: Path) -> None:
    ran = run(folder, SUITE)
    assert ran.code == 1  # four of eight cases score less than 0.8
    assert ran.scores == {name: dict(sorted(BY_HAND.items())) for name in JUDGES}


def test_single_judge_makes_three_times_as_many_calls(folder: Path) -> None:
    ran = run(folder, SUITE)
    for eval_id in BY_HAND:
        many, one = (ran.result(eval_id, name)["judge_proxy"] for name in JUDGES)
        assert (many["call_count"], many["batch_used"]) == (3, True)
        assert (one["call_count"], one["batch_used"]) == (1, False)
        assert sum(one["token_usage"].values()) < sum(many["token_usage"].values())
        assert one["cost_usd"] < many["cost_usd"]


def test_scripted_judge_reports_one_token_per_four_characters(folder: Path) -> None:
    run(folder, SUITE, "--record-judge-io", "--run-dir", "run")
    calls = [json.loads(line) for line in (folder / "run/judge_calls.jsonl").read_text(encoding="utf-8").splitlines()]
    for name in JUDGES:
        ours = [call for call in calls if call["evaluator"] == name]
        asked = statistics.mean(len(call["question"]) / 4 for call in ours)
        answered = statistics.mean(len(call["reply"]["rawText"]) / 4 for call in ours)
        (usage,) = {tuple(call["token_usage"].values()) for call in ours}
        assert usage == pytest.approx((asked, answered), abs=1)
        assert ours[0]["cost_usd"] == pytest.approx((usage[0] * 3 + usage[1] * 15) / 1e6)


def test_empty_search_scores_0_without_a_judge_call(folder: Path) -> None:
    (folder / "answers.jsonl").write_text(json.dumps(found()), encoding="utf-8")
    ran = run(
        folder, SUITE, "--outputs", "answers.jsonl", "--case", "return-a-book", "--judge-target", "scripted-judge"
    )
    for name in JUDGES:
        result = ran.result("return-a-book", name)
        assert (result["score"], result["error"], result["judge_proxy"]["call_count"]) == (0, None, 0)


@pytest.mark.parametrize(
    "broken",
    [
        {"response": "It depends."},
        {"response": '["yes", "no"]'},
        {"response": '["yes", "no", "perhaps"]'},
        {"status": 400},
    ],
    ids=str,
)
def test_unusable_judge_reply_is_an_error_not_a_low_score(folder: Path, broken: dict[str, Any]) -> None:
    put_target(folder, "contextual-precision", "broken", **broken)
    ran = run(folder, SUITE, "--judge-target", "broken", "--case", "payment")
    assert ran.code == 3
    assert all(result["error"] for result in ran.results)


def test_one_failed_judgment_of_three_is_an_error(folder: Path) -> None:
    rules = [{"match": "Passage: In the shop", "status": 400}]
    put_target(folder, "contextual-precision", "flaky", rules=rules, response="yes")
    result = run(folder, SUITE, "--judge-target", "flaky", "--case", "payment").result("payment", JUDGES[0])
    assert "could not be judged" in result["error"]
    assert (result["judge_proxy"]["call_count"], result["judge_proxy"]["failed_calls"]) == (3, 1)
