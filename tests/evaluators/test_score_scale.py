"""A score on another scale, such as 8 of 10, is an error wherever a score enters. It never becomes a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agentv
from agentv.testing import run_judge
from tests.conftest import Project
from tests.spec.support import run, scripted, write_suite

MESSAGE = "score must be between 0 and 1, got 8; divide by the maximum of your scale"

SCRIPTS = {
    "plain.py": "print('{\"score\": 8}')\n",
    "lines.py": """\
        import json, sys
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps({"score": 8, "execution_id": request["execution_id"]}), flush=True)
        """,
    "sdk.py": """\
        from agentv_eval import CodeJudgeResult, define_code_judge
        define_code_judge(lambda input: CodeJudgeResult(score=8, reasoning="8 of 10"))
        """,
    "decorated.py": """\
        from agentv_eval import code_judge

        @code_judge
        def judge(input):
            return 8
        """,
}

EVALUATORS: dict[str, dict[str, Any]] = {
    "code_judge": {"type": "code_judge", "script": ["python", "plain.py"]},
    "with judge access": {"type": "code_judge", "script": ["python", "plain.py"], "judge": True},
    "jsonl": {"type": "code_judge", "script": ["python", "lines.py"], "protocol": "jsonl"},
    "warm": {"type": "code_judge", "script": ["python", "plain.py"], "warm": True},
    "warm with the SDK": {"type": "code_judge", "script": ["python", "decorated.py"], "warm": True},
    "the SDK": {"type": "code_judge", "script": ["python", "sdk.py"]},
    "negated": {"type": "code_judge", "script": ["python", "plain.py"], "negate": True},
    "aggregator": {
        "type": "composite",
        "evaluators": [{"type": "contains", "value": "Paris"}],
        "aggregator": {"type": "code_judge", "script": ["python", "plain.py"]},
    },
    "member": {"type": "composite", "evaluators": [{"type": "code_judge", "script": ["python", "plain.py"]}]},
}


def _write(project: Project) -> None:
    for name, text in SCRIPTS.items():
        project.write(name, text)
    cases = [
        {"id": name, "input": "The capital of France?", "evaluators": [{"name": "e", **evaluator}]}
        for name, evaluator in EVALUATORS.items()
    ]
    write_suite(project, cases)
    project.write("agentv.config.yaml", json.dumps(scripted()))


def test_every_way_to_run_a_script_rejects_a_score_of_8(project: Project) -> None:
    _write(project)
    ran = run(project)
    assert ran.process.returncode == 3
    assert {row["eval_id"]: (row["score"], row["verdict"]) for row in ran.rows} == dict.fromkeys(
        EVALUATORS, (0, "fail")
    )
    for row in ran.rows:
        assert MESSAGE in row["error"]["message"], row["eval_id"]
    assert MESSAGE in " ".join(ran.process.stdout.split())


def test_judge_run_rejects_a_score_of_8(project: Project) -> None:
    _write(project)
    ran = project.run("judge", "run", "plain.py", "--suite", "suite.yaml", "--case", "code_judge", "--answer", "Paris")
    assert ran.returncode == 3
    assert MESSAGE in " ".join(ran.stdout.split())


@pytest.mark.parametrize("reply", ['{"score": 8}', '{"score": "0.8"}', '{"score": 1.5, "hits": ["good"]}'])
def test_judge_model_with_another_scale_is_retried_and_never_passes(project: Project, reply: str) -> None:
    project.write("agentv.config.yaml", json.dumps(scripted(judge={"provider": "mock", "response": reply})))
    write_suite(project, [{"id": "a", "input": "?", "evaluators": [{"name": "judge", "type": "llm_judge"}]}])
    ran = run(project)
    assert (ran.process.returncode, ran.row["verdict"]) == (3, "fail")
    assert "score` must be" in ran.result["error"]
    assert ran.result["judge"]["call_count"] == 3


def test_function_and_test_helper_reject_a_score_of_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def eight(answer: str) -> float:
        return 8

    def wrapped(answer: str) -> agentv.Score:
        return agentv.Score(8)

    def almost_one(answer: str) -> float:
        return 1 + 1e-9

    evaluation = agentv.evaluate(
        cases=[{"id": "a", "input": "?"}], evaluators=[eight, wrapped, almost_one], target=lambda question: "x"
    )
    first, second, third = evaluation.results[0].evaluator_results
    assert (first.error, second.error) == (MESSAGE, MESSAGE)
    assert (third.score, third.error) == (1.0, None)
    assert evaluation.exit_code == 3
    (tmp_path / "plain.py").write_text(SCRIPTS["plain.py"])
    assert MESSAGE in (run_judge("plain.py").error or "")
