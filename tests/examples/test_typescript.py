"""The TypeScript judges give the same results as the Python judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.examples import typescript
from tests.examples.support import put_target, run

pytestmark = typescript.needed
EXAMPLES = ["contextual-precision", "contextual-recall", "hybrid", "multi-aspect"]


def said(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a case, and the number of calls per target."""
    claimed = {name: result[name] for name in ("name", "hits", "misses", "reasoning", "error")}
    asked = {name: result["judge_proxy"][name] for name in ("targets", "batch_used", "token_usage", "cost_usd")}
    return {"score": round(result["score"], 6), **claimed, **asked}


@pytest.mark.parametrize("example", EXAMPLES)
def test_both_languages_give_the_same_results_and_calls(built_folder: Path, example: str) -> None:
    in_python = run(built_folder, f"{example}/suite.yaml")
    in_typescript = run(built_folder, f"{example}/suite.typescript.yaml")
    assert in_typescript.code == in_python.code
    assert in_typescript.rows.keys() == in_python.rows.keys()
    for eval_id, row in in_typescript.rows.items():
        theirs = in_python.rows[eval_id]["evaluator_results"]
        assert [said(result) for result in row["evaluator_results"]] == [said(result) for result in theirs]


@pytest.mark.parametrize("example", EXAMPLES)
def test_unusable_judge_reply_is_an_error_not_a_low_score(built_folder: Path, example: str) -> None:
    put_target(built_folder, example, "broken", response="It depends.")
    ran = run(built_folder, f"{example}/suite.typescript.yaml", "--judge-target", "broken")
    assert ran.code == 3
    asked = [result for result in ran.results if result["judge_proxy"]["call_count"]]
    assert asked
    assert all(result["error"] for result in asked)


def test_too_few_judgments_are_an_error(built_folder: Path) -> None:
    put_target(built_folder, "contextual-precision", "hasty", response='["yes", "no"]')
    suite = "contextual-precision/suite.typescript.yaml"
    ran = run(built_folder, suite, "--judge-target", "hasty", "--case", "payment")
    assert "2 judgments, 3 passages" in ran.result("payment", "one-prompt")["error"]
