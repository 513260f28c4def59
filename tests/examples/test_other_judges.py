"""The contextual recall, hybrid, multi-aspect and bash judges."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.examples.support import put_target, run

needs_curl_and_jq = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="the judge in bash needs curl and jq"
)

# -- contextual recall


def test_recall_is_the_fraction_of_supported_statements(folder: Path) -> None:
    ran = run(folder, "contextual-recall/suite.yaml")
    assert ran.code == 1
    assert ran.scores == {
        "contextual-recall": {
            "lost-parcel": 0.5,  # 1 of 2
            "return-a-book": 1.0,  # 3 of 3
            "student-discount": 0.0,  # 0 of 2
        }
    }


def test_recall_lists_the_passage_of_each_statement(folder: Path) -> None:
    result = run(folder, "contextual-recall/suite.yaml").result("lost-parcel")
    assert result["hits"] == ["After ten days the carrier searches for it. (passage 2)"]
    assert result["misses"] == ["If it is not found, we send the books again."]
    assert result["judge_proxy"]["call_count"] == 1


# -- hybrid


def test_hybrid_judge_calls_the_judge_only_after_passed_checks(folder: Path) -> None:
    ran = run(folder, "hybrid/suite.yaml")
    assert ran.code == 1
    assert ran.scores["letter"] == {
        "promises-too-much": 0.0,
        "torn-page": 0.25,  # 2 of 5: (2 - 1) / 4
        "unfilled-template": 0.0,
        "wrong-edition": 1.0,  # 5 of 5
    }
    asked = {eval_id: ran.result(eval_id)["judge_proxy"]["call_count"] for eval_id in ran.rows}
    assert asked == {"promises-too-much": 0, "torn-page": 1, "unfilled-template": 0, "wrong-edition": 1}
    assert ran.result("promises-too-much")["misses"] == ["says 'guarantee'"]
    assert ran.result("unfilled-template")["misses"] == ["does not name the order", "has a gap that was not filled in"]


def test_hybrid_judge_fails_checks_without_a_working_judge(folder: Path) -> None:
    put_target(folder, "hybrid", "scripted-judge", status=400)
    ran = run(folder, "hybrid/suite.yaml")
    failed = {eval_id for eval_id in ran.rows if ran.result(eval_id)["error"]}
    assert (ran.code, failed) == (3, {"torn-page", "wrong-edition"})


# -- multi-aspect


def test_aspects_are_weighted_and_the_decisive_one_uses_the_strong_target(folder: Path) -> None:
    ran = run(folder, "multi-aspect/suite.yaml")
    assert ran.code == 1
    assert ran.scores["aspects"] == {
        "return-a-book": 0.98,  # (0.9 + 1.0 + 3 * 1.0) / 5
        "shipping-cost": 0.32,  # (0.9 + 0.4 + 3 * 0.1) / 5
    }
    for eval_id in ran.rows:
        ledger = ran.result(eval_id)["judge_proxy"]
        assert (ledger["target"], ledger["targets"]) == ("cheap", {"cheap": 2, "strong": 1})
        assert ledger["cost_usd"] == pytest.approx(2 * 0.00001 + 0.0002)


def test_missing_aspect_judgment_is_an_error_with_its_name(folder: Path) -> None:
    put_target(folder, "multi-aspect", "strong", status=400)
    ran = run(folder, "multi-aspect/suite.yaml")
    assert ran.code == 3
    assert all("questions[2]" in result["error"] for result in ran.results)


# -- bash


@needs_curl_and_jq
def test_bash_judge_compares_meaning(folder: Path) -> None:
    ran = run(folder, "bash-judge/suite.yaml")
    assert ran.code == 1
    assert ran.scores == {"same-meaning": {"return-a-book": 1.0, "shipping-cost": 0.0}}
    assert [result["judge_proxy"]["call_count"] for result in ran.results] == [1, 1]


@needs_curl_and_jq
def test_bash_judge_keeps_the_token_off_command_lines(folder: Path) -> None:
    """A fake `curl`, first on PATH, records its arguments."""
    (folder / "bin").mkdir()
    spy = folder / "bin/curl"
    spy.write_text(f'#!/bin/sh\necho "$@" >>{folder}/argv\nexec {shutil.which("curl")} "$@"\n', encoding="utf-8")
    spy.chmod(0o755)
    judge = folder / "examples/bash-judge/judges/same_meaning.sh"
    seen = f'echo "$AGENTV_JUDGE_PROXY_TOKEN" >>{folder}/tokens\nPATH={folder}/bin:$PATH\n'
    judge.write_text(seen + judge.read_text(encoding="utf-8"), encoding="utf-8")

    assert run(folder, "bash-judge/suite.yaml").scores["same-meaning"]["return-a-book"] == 1.0
    written = (folder / "argv").read_text(encoding="utf-8")
    tokens = (folder / "tokens").read_text(encoding="utf-8").split()
    assert len(tokens) == 2
    assert re.search(r"/invoke\b", written)
    assert not any(token in written for token in tokens)


# -- all of them


@pytest.mark.parametrize(
    "example",
    ["contextual-recall", "hybrid", "multi-aspect", pytest.param("bash-judge", marks=needs_curl_and_jq)],
)
@pytest.mark.parametrize("broken", [{"response": "It depends."}, {"status": 400}], ids=str)
def test_unusable_judge_reply_is_an_error_not_a_low_score(folder: Path, example: str, broken: dict[str, Any]) -> None:
    put_target(folder, example, "broken", **broken)
    ran = run(folder, f"{example}/suite.yaml", "--judge-target", "broken")
    assert ran.code == 3
    asked = [result for result in ran.results if result["judge_proxy"]["call_count"]]
    assert asked
    assert all(result["error"] for result in asked)
