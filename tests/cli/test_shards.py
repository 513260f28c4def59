"""`agentv eval --shard I/N`: one part of a run, with its part of the budget."""

from __future__ import annotations

import json
from typing import Any

import pytest

import agentv
from tests.conftest import Project

CONFIG = """\
targets:
  assistant:
    provider: mock
    judge_target: strict
    rules: [{match: ".", response: Paris, cost_usd: 0.01}]
    response: ""
  strict:
    provider: mock
    rules: [{match: ".", response: '{"score": 1, "reasoning": "fine"}', cost_usd: 0.01}]
    response: ""
"""


@pytest.fixture
def judged(project: Project) -> Project:
    """Twelve cases, each with one judge call."""
    project.write("agentv.config.yaml", CONFIG)
    cases = "".join(f"  - {{id: case-{n}, input: Where?}}\n" for n in range(12))
    project.write(
        "suite.yaml", f"execution: {{target: assistant, evaluators: [{{type: llm_judge}}]}}\nevalcases:\n{cases}"
    )
    return project


def run_shards(project: Project, count: int, *options: str) -> list[dict[str, Any]]:
    summaries = []
    for index in range(1, count + 1):
        done = project.run(
            "eval", "suite.yaml", "--shard", f"{index}/{count}", "--run-dir", f"s{index}", "--json", *options
        )
        summaries.append(json.loads(done.stdout) | {"notes_shown": done.stderr})
    return summaries


def test_budgets_of_all_shards_add_up_to_that_of_the_run(judged: Project) -> None:
    summaries = run_shards(judged, 3, "--max-judge-calls", "7", "--max-cost", "3")
    budgets = [judged.manifest(judged.root / f"s{i}")["budget"] for i in (1, 2, 3)]
    assert [budget["max_judge_calls"] for budget in budgets] == [3, 2, 2]
    assert [budget["max_cost"] for budget in budgets] == [1, 1, 1]
    cases = [judged.manifest(judged.root / f"s{i}")["shard"]["cases"] for i in (1, 2, 3)]
    made = [min(each) for each in zip(cases, (3, 2, 2), strict=True)]
    assert sum(cases) == 12
    assert [budget["judge_calls"] for budget in budgets] == [each["judge_calls"] for each in summaries] == made
    assert [each["not_run"] for each in summaries] == [each - calls for each, calls in zip(cases, made, strict=True)]
    short = next(i for i in range(3) if cases[i] > made[i])
    why = f"{made[short]} of --max-judge-calls {made[short]} for shard {short + 1}/3 are used"
    assert summaries[short]["why_not_run"].endswith(why)
    assert [each["exit_code"] for each in summaries] == [3 if each["not_run"] else 0 for each in summaries]
    assert all(judged.manifest(judged.root / f"s{i}")["options"]["max_judge_calls"] == 7 for i in (1, 2, 3))


def test_resumed_shard_keeps_its_cases_and_its_part_of_a_larger_budget(judged: Project) -> None:
    run_shards(judged, 2, "--max-judge-calls", "2")
    first = {row["eval_id"] for row in judged.rows(judged.root / "s1")}
    refused = judged.run("eval", "--resume", "s1", "--shard", "1/2")
    assert refused.returncode == 2
    assert "remove shard" in refused.stderr
    more = judged.run("eval", "--resume", "s1", "--max-judge-calls", "40", "--json")
    assert (more.returncode, json.loads(more.stdout)["not_run"]) == (0, 0)
    own = {row["eval_id"] for row in judged.rows(judged.root / "s1")}
    assert first < own
    assert judged.manifest(judged.root / "s1")["budget"]["max_judge_calls"] == 20
    other = judged.manifest(judged.root / "s2")["shard"]
    assert len(own) + other["cases"] == other["all_cases"] == 12


def test_shard_without_cases_runs_nothing_and_leaves_a_run(judged: Project) -> None:
    judged.write(
        "suite.yaml",
        "execution: {target: assistant, evaluators: [{type: llm_judge}]}\nevalcases: [{id: only, input: Q}]\n",
    )
    summaries = run_shards(judged, 2)
    empty = next(i for i, each in enumerate(summaries) if each["total"] == 0)
    assert summaries[empty]["exit_code"] == 0
    assert f"note: shard {empty + 1}/2: none of 1 case; nothing is run" in summaries[empty]["notes_shown"]
    assert judged.manifest(judged.root / f"s{empty + 1}")["status"] == "finished"
    merged = judged.run("merge", "s1", "s2", "--json")
    assert (merged.returncode, json.loads(merged.stdout)["passed"]) == (0, 1)


def test_shard_is_an_option_of_python_too(judged: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(judged.root)
    runs = [agentv.evaluate("suite.yaml", shard=f"{i}/2", run_dir=f"p{i}") for i in (1, 2)]
    assert sorted(row.eval_id for run in runs for row in run) == sorted(f"case-{n}" for n in range(12))
    assert all(len(run) for run in runs)


@pytest.mark.parametrize("shard", ["0/4", "5/4", "a/b"])
def test_shard_that_does_not_exist_is_an_error(judged: Project, shard: str) -> None:
    done = judged.run("eval", "suite.yaml", "--shard", shard)
    assert done.returncode == 2
    assert done.stderr == f"agentv: `shard` must be I/N, such as 2/4, with I from 1 to N, got '{shard}'.\n"
    assert not judged.run_dirs()


def test_last_failed_of_a_shard_is_not_divided_again(judged: Project) -> None:
    judged.write("agentv.config.yaml", CONFIG.replace('"score": 1', '"score": 0'))
    run_shards(judged, 2)
    failed = len(judged.rows(judged.root / "s1"))
    again = judged.run("eval", "--last-failed", "s1", "--run-dir", "again")
    assert again.returncode == 1
    assert judged.manifest(judged.root / "again")["options"]["shard"] is None
    assert len(judged.rows(judged.root / "again")) == failed
