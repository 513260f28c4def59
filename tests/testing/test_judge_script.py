"""Judge scripts run as agentv runs them, from a test."""

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


def test_a_script_asks_the_scripted_judge_and_its_score_comes_back(asking):
    with with_judge_proxy(["yes", "No."]) as judge:
        run = run_judge(asking, PASSAGES, judge=judge)
    assert (run.score, run.hits, run.error) == (0.5, ("yes", "no"), None)
    assert run.ledger is not None
    assert (run.ledger["call_count"], run.ledger["batch_used"]) == (2, True)
    assert judge.ledger.to_dict() == run.ledger
    assert ["\na\n" in call.question for call in judge.calls] == [True, False]


def test_each_run_has_a_limit_of_its_own(asking):
    with with_judge_proxy("yes", max_calls=2) as judge:
        assert [run_judge(asking, PASSAGES, judge=judge).score for _ in range(2)] == [1, 1]
    assert len(judge.calls) == 4


def test_a_script_that_passes_the_limit_has_failed_whatever_it_prints(tmp_path):
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


def test_a_script_that_fails_has_a_message_and_no_score(tmp_path):
    run = run_judge(written(tmp_path, "raise SystemExit('no idea')"))
    assert run.error is not None
    assert "no idea" in run.error
    for name in ("score", "hits", "misses", "reasoning", "details", "warnings"):
        with pytest.raises(EvaluatorError, match="no idea"):
            getattr(run, name)
    assert run.result.score == 0
    assert run.ledger is None


def test_a_script_that_prints_no_result_has_failed(tmp_path):
    run = run_judge(written(tmp_path, "print('fine')"))
    assert run.error is not None
    assert "no JSON object on its own line" in run.error
    assert "It printed: fine" in run.error


def test_a_script_that_is_too_slow_has_failed(tmp_path):
    run = run_judge(written(tmp_path, "import time; time.sleep(60)"), timeout_seconds=0.2)
    assert run.error is not None
    assert "did not finish within 0.2 s" in run.error


def test_without_a_judge_the_script_has_no_access_even_inside_a_proxy(tmp_path):
    script = written(
        tmp_path, "import os\nprint('{\"score\": %d}' % sum(name.startswith('AGENTV_') for name in os.environ))"
    )
    with with_judge_proxy("yes"):
        assert run_judge(script).score == 0


def test_a_partial_payload_is_completed_and_user_data_is_not_touched(tmp_path):
    metadata = {"toolCalls": [{"snake_case": None}], "ü": 1}
    read = read_by(tmp_path, {"candidate_answer": "Paris", "metadata": metadata, "config": None})
    assert read["candidate_answer"] == "Paris"
    assert read["metadata"] == metadata
    assert (read["eval_id"], read["attempt"], read["input_messages"], read["question"]) == ("test", 1, [], None)
    assert len(read) == 16


def test_a_whole_payload_is_given_as_it_is(tmp_path):
    whole = json.loads(json.dumps(read_by(tmp_path, {"candidate_answer": "a", "output_messages": [{"more": 1}]})))
    assert read_by(tmp_path, whole) == whole


def test_the_input_of_a_handler_is_a_payload_too(tmp_path):
    assert read_by(tmp_path, CodeJudgeInput({"question": "Why?"}))["question"] == "Why?"


def test_case_and_attempt_of_the_payload_are_those_of_the_calls(asking):
    with with_judge_proxy("yes") as judge:
        run_judge(asking, {**PASSAGES, "eval_id": "paris", "attempt": 3}, judge=judge)
    assert {(call.eval_case_id, call.attempt) for call in judge.calls} == {("paris", 3)}


@pytest.mark.parametrize(
    "payload", [{"candidate": "Paris"}, "Paris", {"metadata": object()}, {"metadata": float("nan")}]
)
def test_a_payload_that_is_none_is_a_mistake_of_the_test(tmp_path, payload):
    with pytest.raises(UsageError):
        run_judge(echo(tmp_path), payload)


def test_an_unknown_key_is_told_with_the_one_that_was_meant(tmp_path):
    with pytest.raises(UsageError, match="did you mean `candidate_answer`"):
        run_judge(echo(tmp_path), {"candidat_answer": "Paris"})


def test_a_script_may_be_a_command_or_words_and_runs_where_it_is_told(tmp_path):
    written(tmp_path, 'import os, sys\nprint(\'{"score": 1, "reasoning": "%s"}\' % \' \'.join(sys.argv[1:]))')
    assert run_judge("python judge.py one 'two three'", cwd=tmp_path).reasoning == "one two three"
    assert run_judge(["python", "judge.py", "four"], cwd=tmp_path).reasoning == "four"
    assert run_judge("judge.py", cwd=tmp_path).reasoning == ""


def test_a_shell_script_is_run_by_bash_with_its_variables(tmp_path):
    script = written(tmp_path, 'echo "{\\"score\\": $SCORE}"\n', "judge.sh")
    assert run_judge(script, env={"SCORE": "0.25"}).score == 0.25


@pytest.mark.parametrize("script", ["", [], "python judge.py | tee log"])
def test_a_script_that_is_none_is_a_mistake_of_the_test(script):
    with pytest.raises(UsageError):
        run_judge(script)


def test_a_program_that_does_not_exist_is_a_failure_that_names_it(tmp_path):
    run = run_judge(["no-such-program"], cwd=tmp_path)
    assert run.error is not None
    assert "no-such-program" in run.error


async def test_it_works_inside_a_running_loop(tmp_path):
    assert run_judge(echo(tmp_path)).score == 1
