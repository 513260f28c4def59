"""`run_judge`: run a judge script from a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import EvaluatorError, UsageError
from agentv.testing import run_judge, with_judge_proxy
from agentv_eval import CodeJudgeInput

ASKING = """
from agentv_eval import code_judge

@code_judge
def relevant(input, judge):
    questions = [{"question": "Relevant?", "material": text} for text in input.metadata["passages"]]
    verdicts = judge.verdicts(questions, choices=["yes", "no"])
    return {"score": verdicts.count("yes") / len(verdicts), "hits": verdicts}
"""
PASSAGES = {"metadata": {"passages": ["a", "b"]}}


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    return written(tmp_path, ASKING)


def written(folder: Path, text: str, name: str = "judge.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def echo(tmp_path: Path) -> Path:
    return written(
        tmp_path, "import json, sys\nprint(json.dumps({'score': 1, 'details': {'read': json.load(sys.stdin)}}))\n"
    )


def read_by(tmp_path: Path, payload: Any) -> Any:
    details = run_judge(echo(tmp_path), payload).details
    assert details is not None
    return details["read"]


def test_script_calls_the_scripted_judge_and_returns_its_score(asking):
    with with_judge_proxy(["yes", "No."]) as judge:
        run = run_judge(asking, PASSAGES, judge=judge)
    assert (run.score, run.hits, run.error) == (0.5, ("yes", "no"), None)
    assert run.ledger is not None
    assert (run.ledger["call_count"], run.ledger["batch_used"]) == (2, True)
    assert judge.ledger.to_dict() == run.ledger
    assert ["\na\n" in call.question for call in judge.calls] == [True, False]


def test_each_run_has_its_own_call_limit(asking):
    with with_judge_proxy("yes", max_calls=2) as judge:
        assert [run_judge(asking, PASSAGES, judge=judge).score for _ in range(2)] == [1, 1]
    assert len(judge.calls) == 4


def test_script_that_exceeds_the_limit_fails(tmp_path):
    script = written(
        tmp_path,
        """
from agentv_eval import JudgeLimitError, code_judge

@code_judge
def greedy(input, judge):
    try:
        judge.invoke(question="1"), judge.invoke(question="2")
    except JudgeLimitError:
        pass
    return 1
""",
    )
    with with_judge_proxy("yes", max_calls=1) as judge:
        run = run_judge(script, judge=judge)
    assert run.error is not None
    assert "judge call limit of 1" in run.error
    assert run.ledger is not None
    assert run.ledger["refused_calls"] == 1


def test_failed_script_has_an_error_and_no_score(tmp_path):
    run = run_judge(written(tmp_path, "raise SystemExit('no idea')"))
    assert run.error is not None
    assert "no idea" in run.error
    for name in ("score", "hits", "misses", "reasoning", "details", "warnings"):
        with pytest.raises(EvaluatorError, match="no idea"):
            getattr(run, name)
    assert run.result.score == 0
    assert run.ledger is None


def test_script_without_a_result_fails(tmp_path):
    run = run_judge(written(tmp_path, "print('fine')"))
    assert run.error is not None
    assert "no JSON object on its own line" in run.error
    assert "printed no JSON object on its own line, but: fine" in run.error


def test_script_that_times_out_fails(tmp_path):
    run = run_judge(written(tmp_path, "import time; time.sleep(60)"), timeout_seconds=0.2)
    assert run.error is not None
    assert "did not finish within 0.2 s" in run.error


def test_script_without_judge_has_no_access_inside_a_proxy(tmp_path):
    script = written(tmp_path, "import os\nprint('{\"score\": %d}' % sum('_PROXY_' in name for name in os.environ))")
    with with_judge_proxy("yes"):
        assert run_judge(script).score == 0


def test_partial_payload_is_completed(tmp_path):
    metadata = {"toolCalls": [{"snake_case": None}], "ü": 1}
    read = read_by(tmp_path, {"candidate_answer": "Paris", "metadata": metadata, "config": None})
    assert read["candidate_answer"] == "Paris"
    assert read["metadata"] == metadata
    assert (read["eval_id"], read["attempt"], read["input_messages"]) == ("test", 1, [])
    assert not {"question", "expected_outcome", "reference_answer", "target", "suite"} & set(read)
    assert len(read) == 16


def test_complete_payload_is_passed_unchanged(tmp_path):
    whole = json.loads(json.dumps(read_by(tmp_path, {"candidate_answer": "a", "output_messages": [{"more": 1}]})))
    assert read_by(tmp_path, whole) == whole


def test_code_judge_input_is_accepted_as_payload(tmp_path):
    assert read_by(tmp_path, CodeJudgeInput({"question": "Why?"}))["question"] == "Why?"


def test_calls_use_case_and_attempt_of_the_payload(asking):
    with with_judge_proxy("yes") as judge:
        run_judge(asking, {**PASSAGES, "eval_id": "paris", "attempt": 3}, judge=judge)
    assert {(call.eval_case_id, call.attempt) for call in judge.calls} == {("paris", 3)}


@pytest.mark.parametrize(
    "payload", [{"candidate": "Paris"}, "Paris", {"metadata": object()}, {"metadata": float("nan")}]
)
def test_invalid_payload_is_a_usage_error(tmp_path, payload):
    with pytest.raises(UsageError):
        run_judge(echo(tmp_path), payload)


def test_unknown_key_suggests_a_similar_one(tmp_path):
    with pytest.raises(UsageError, match="did you mean `candidate_answer`"):
        run_judge(echo(tmp_path), {"candidat_answer": "Paris"})


def test_script_can_be_a_command_or_words_and_runs_in_cwd(tmp_path):
    written(tmp_path, 'import os, sys\nprint(\'{"score": 1, "reasoning": "%s"}\' % \' \'.join(sys.argv[1:]))')
    assert run_judge("python judge.py one 'two three'", cwd=tmp_path).reasoning == "one two three"
    assert run_judge(["python", "judge.py", "four"], cwd=tmp_path).reasoning == "four"
    assert run_judge("judge.py", cwd=tmp_path).reasoning == ""


def test_shell_script_runs_with_bash_and_env(tmp_path):
    script = written(tmp_path, 'echo "{\\"score\\": $SCORE}"\n', "judge.sh")
    assert run_judge(script, env={"SCORE": "0.25"}).score == 0.25


@pytest.mark.parametrize("script", ["", [], "python judge.py | tee log"])
def test_invalid_script_is_a_usage_error(script):
    with pytest.raises(UsageError):
        run_judge(script)


def test_missing_program_is_reported_by_name(tmp_path):
    run = run_judge(["no-such-program"], cwd=tmp_path)
    assert run.error is not None
    assert "no-such-program" in run.error


async def test_it_works_inside_a_running_loop(tmp_path):
    assert run_judge(echo(tmp_path)).score == 1
