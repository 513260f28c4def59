"""The metrics of the ready-metrics example."""

from __future__ import annotations

from pathlib import Path

from tests.examples.support import put_target, run


def test_metrics_score_answer_and_search(folder: Path) -> None:
    ran = run(folder, "ready-metrics/suite.yaml")
    assert ran.code == 1
    assert ran.scores == {
        "faithfulness": {"return-a-book": 1.0, "shipping-cost": 0.5},
        "answer_relevancy": {"return-a-book": 1.0, "shipping-cost": 0.6667},
        "contextual_precision": {"return-a-book": 1.0, "shipping-cost": 0.5},
        "contextual_recall": {"return-a-book": 1.0, "shipping-cost": 0.5},
        "tool_correctness": {"return-a-book": 1.0, "shipping-cost": 1.0},
    }
    assert "judge_proxy" not in ran.result("shipping-cost", "tool_correctness")


def test_only_metrics_that_call_the_judge_fail_if_it_fails(folder: Path) -> None:
    put_target(folder, "ready-metrics", "scripted-judge", status=400)
    ran = run(folder, "ready-metrics/suite.yaml")
    assert ran.code == 3
    assert {result["name"] for result in ran.results if result["error"] is None} == {"tool_correctness"}
