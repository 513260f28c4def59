"""`code_judge`: the payload sent to a script, the output read from it, and the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.spec.support import KIT, Ran, mock, run, scripted, write, write_suite

# -- stdin

KEYS = [
    "eval_id",
    "attempt",
    "target",
    "suite",
    "question",
    "input_messages",
    "input_files",
    "expected_outcome",
    "expected_messages",
    "reference_answer",
    "candidate_answer",
    "output_messages",
    "guideline_files",
    "trace_summary",
    "metadata",
    "vars",
    "config",
]
SECOND_NAMES = ["input", "output", "messages", "expected_output", "criteria"]
"""AgentV's names of the same values, which scripts get besides."""
ECHO = "done(payload=json.load(sys.stdin))"


def test_payload_has_every_key_and_keeps_user_data_unchanged(project: Project) -> None:
    odd = {"camelCase": {"innerKey": [1, None, {"snake_case": "é ☃ 👍"}]}, "HTTPHeader": "a\tb", "list": []}
    messages = [
        {
            "role": "assistant",
            "content": "Paris",
            "tool_calls": [{"tool": "lookUp", "id": "c1", "input": odd, "output": {"exitCode": 0}}],
        }
    ]
    expected = [{"role": "assistant", "tool_calls": [{"tool": "lookUp", "input": {"deepArg": {"aB": 1}}}]}]
    case = {
        "input": "Où est « la » capitale ?",
        "expected_outcome": "Paris",
        "expected_messages": expected,
        "reference_answer": "Paris.",
        "metadata": odd,
        "vars": {"someKey": {"other_key": None}},
    }
    rule = {"match": "capitale", "output_messages": messages}
    config = {"targets": {"assistant": {"provider": "mock", "rules": [rule]}}}
    write(project, ECHO, {"config": odd, "minScore": {"someKey": 1}}, config=config, case=case)
    payload = run(project, "--repeat", "1").details["payload"]
    assert list(payload) == [*KEYS, *SECOND_NAMES, "duration_ms", "trace"]
    assert (payload["eval_id"], payload["attempt"], payload["target"]) == ("case-0", 1, "assistant")
    assert (payload["suite"], payload["question"]) == ("suite", case["input"])
    assert payload["input_messages"] == [{"role": "user", "content": case["input"]}]
    assert (payload["candidate_answer"], payload["reference_answer"]) == ("Paris", "Paris.")
    assert payload["expected_outcome"] == "Paris"
    assert payload["metadata"] == odd
    assert payload["vars"] == {"someKey": {"other_key": None}}
    assert payload["config"] == {**odd, "minScore": {"someKey": 1}}
    (call,) = payload["output_messages"][0]["tool_calls"]
    assert (call["input"], call["output"]) == (odd, {"exitCode": 0})
    assert payload["expected_messages"][0]["tool_calls"][0]["input"] == {"deepArg": {"aB": 1}}
    assert payload["trace_summary"]["tool_names"] == ["lookUp"]


def test_absent_payload_values_are_left_out_or_an_empty_list(project: Project) -> None:
    write(project, ECHO)
    payload = run(project).details["payload"]
    own = [key for key in KEYS if key not in ("expected_outcome", "reference_answer", "vars")]
    assert list(payload) == [*own, *SECOND_NAMES, "duration_ms", "trace"]
    for key in ("input_files", "expected_messages", "guideline_files"):
        assert payload[key] == []
    assert payload["config"] is None
    assert payload["metadata"] == {}
    assert None not in payload["trace_summary"].values()


def test_attempts_are_counted_from_one(project: Project) -> None:
    write(project, "done(attempt=json.load(sys.stdin)['attempt'])")
    ran = run(project, "--repeat", "2")
    assert sorted(row["evaluator_results"][0]["details"]["attempt"] for row in ran.rows) == [1, 2]


def test_python_is_the_agentv_interpreter_and_paths_are_relative_to_cwd(project: Project) -> None:
    (project.root / "sub").mkdir()
    (project.root / "sub" / "here.py").write_text(
        "import agentv_eval, json, os, sys\n"
        "print(json.dumps({'score': 1, 'details': {'cwd': os.getcwd(), 'python': sys.executable}}))\n"
    )
    write(project, "", {"script": "python here.py", "cwd": "sub"})
    details = run(project).details
    assert Path(details["cwd"]) == (project.root / "sub").resolve()
    assert Path(details["python"]).parent.name == "bin"


# -- stdout: one run with a case for each kind of output

PRINTED: dict[str, tuple[str, float, dict[str, Any]]] = {
    "only a score": ("print('{\"score\": 0.25}')", 0.25, {"hits": [], "misses": [], "reasoning": "", "details": None}),
    "everything": (
        "print(json.dumps({'score': 1, 'hits': ['h'], 'misses': ['m'], 'reasoning': 'r', 'details': {'a': [1]}}))",
        1.0,
        {"hits": ["h"], "misses": ["m"], "reasoning": "r", "details": {"a": [1]}},
    ),
    "log lines around it": ("print('start\\n{not json}\\n{\"score\": 0.5}\\nend {}')", 0.5, {}),
    "over several lines": ("print(json.dumps({'score': 0.5, 'hits': ['a']}, indent=2))", 0.5, {"hits": ["a"]}),
    "no line break at the end": ("sys.stdout.write('{\"score\": 0.5}')", 0.5, {}),
    "null fields": ('print(\'{"score": 0.5, "hits": null, "reasoning": null, "details": null}\')', 0.5, {"hits": []}),
    "rounding noise": ("done(1 + 1e-9)", 1.0, {"warnings": []}),
    "unknown keys": ('print(\'{"score": 0.5, "confidence": 3}\')', 0.5, {}),
    "megabytes of log": ("print('{log} ' * 100 + '\\n' * 20000)\nprint('x' * 4_000_000)\ndone(0.5)", 0.5, {}),
    "a log on stderr": ("print('log', file=sys.stderr)\ndone(0.5)", 0.5, {}),
}

FAILURES: dict[str, tuple[str, list[str]]] = {
    "a score on another scale": (
        "done(8)",
        ["score must be between 0 and 1, got 8; divide by the maximum of your scale"],
    ),
    "a negative score": ("done(-0.2)", ["score must be between 0 and 1, got -0.2; map your scale"]),
    "non-zero exit": (
        "print('why it broke', file=sys.stderr)\ndone(1.0)\nsys.exit(3)",
        ["exited with code 3", "must exit with code 0", "why it broke"],
    ),
    "an exception": ("raise KeyError('chunks')", ["exited with code 1", "KeyError: 'chunks'"]),
    "death by signal": ("import signal\ndone(1.0)\nsys.stdout.flush()\nos.kill(os.getpid(), 9)", ["SIGKILL"]),
    "nothing printed": ("", ["printed nothing", '{"score": 0.8']),
    "white space printed": ("print('  \\n \\t ')", ["printed nothing", "JSON object"]),
    "no json": ("print('score: 0.9')", ["score: 0.9", "one JSON object", '{"score": 0.8']),
    "endless noise": ("print('noise ' * 100_000)", ["one JSON object", "noise"]),
    "a list": ("print('[1]')", ["one JSON object"]),
    "json after text on its line": ("print('result: {\"score\": 1}')", ["on its own line"]),
    "two objects": ('print(\'{"score": 1}\\n{"score": 1}\')', ["more than one JSON object"]),
    "two objects on a line": ('print(\'{"score": 1}{"score": 1}\')', ["more than one JSON object"]),
    "no score": ('print(\'{"hits": ["a"]}\')', ["no `score`"]),
    "score as text": ('print(\'{"score": "0.9"}\')', ['score must be a number from 0 to 1, got "0.9".']),
    "score null": ("print('{\"score\": null}')", ["score must be a number", "null"]),
    "score true": ("print('{\"score\": true}')", ["score must be a number", "true"]),
    "score a list": ("print('{\"score\": [1]}')", ["score must be a number", "a list"]),
    "score an object": ("print('{\"score\": {}}')", ["score must be a number", "an object"]),
    "score NaN": ("print('{\"score\": NaN}')", ["finite"]),
    "score infinite": ("print('{\"score\": -Infinity}')", ["finite"]),
    "score 1e999": ("print('{\"score\": 1e999}')", ["finite"]),
    "score of 400 digits": ("print('{\"score\": 1' + '0' * 400 + '}')", ["finite"]),
    "score of 5000 digits": ("print('{\"score\": 1' + '0' * 5000 + '}')", ["digits"]),
    "hits not a list": ('print(\'{"score": 1, "hits": "all"}\')', ["`hits` must be a list of strings"]),
    "misses not strings": ('print(\'{"score": 1, "misses": [1]}\')', ["`misses` must be a list of strings"]),
    "reasoning not a string": ('print(\'{"score": 1, "reasoning": 5}\')', ["`reasoning` must be a string"]),
    "details no object": ('print(\'{"score": 1, "details": []}\')', ["`details` must be an object"]),
    "a key twice": ('print(\'{"score": 1, "score": 0}\')', ["duplicate key 'score'"]),
    "too much output": ("sys.stdout.write('x' * (17 << 20))\ndone(1.0)", ["16 MiB", "stderr"]),
}
SLOW = {"name": "checker", "type": "code_judge", "timeout_seconds": 0.5, "script": ["python", "slow.py"]}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], Ran]]:
    """Row and run for every script above; all scripts are run together."""
    project = Project(tmp_path_factory.mktemp("outputs"))
    (project.root / ".git").mkdir()
    (project.root / "kit.py").write_text(KIT)
    project.write("slow.py", "import time\nprint('{\"score\": 1}', flush=True)\ntime.sleep(600)\n")
    cases = []
    scripts = {name: body for table in (PRINTED, FAILURES) for name, (body, *_) in table.items()}
    for number, (name, body) in enumerate(scripts.items()):
        (project.root / f"judge-{number}.py").write_text("from kit import *\n" + body)
        evaluator: dict[str, Any] = {"name": "checker", "type": "code_judge", "script": f"python judge-{number}.py"}
        cases.append({"id": name, "input": "?", "evaluators": [evaluator]})
    for judge in (False, True):
        name = "too slow" + (" with judge" if judge else "")
        cases.append({"id": name, "input": "?", "evaluators": [{**SLOW, "judge": judge}]})
    write_suite(project, cases)
    project.write("agentv.config.yaml", json.dumps(scripted()))
    ran = run(project)
    assert len(ran.rows) == len(cases), ran.process.stderr
    return {row["eval_id"]: (row, Ran(ran.process, [row], ran.directory)) for row in ran.rows}


@pytest.mark.parametrize("name", PRINTED)
def test_script_output_becomes_the_result(name: str, outputs: dict[str, tuple[dict[str, Any], Ran]]) -> None:
    row, ran = outputs[name]
    _, score, rest = PRINTED[name]
    assert ran.result["error"] is None
    assert (ran.result["score"], row["score"]) == (score, score)
    assert {"warnings": [], **rest}.items() <= ran.result.items()
    assert "judge_proxy" not in ran.result


@pytest.mark.parametrize("name", FAILURES)
def test_invalid_result_is_a_failure_with_advice(name: str, outputs: dict[str, tuple[dict[str, Any], Ran]]) -> None:
    failure = outputs[name][1].failure
    for words in FAILURES[name][1]:
        assert words in failure
    assert len(failure) < 6_000
    assert "bug" not in failure


@pytest.mark.parametrize("judge", ["", " with judge"])
def test_script_is_stopped_after_the_timeout(judge: str, outputs: dict[str, tuple[dict[str, Any], Ran]]) -> None:
    ran = outputs["too slow" + judge][1]
    assert "within 0.5 s" in ran.failure
    assert "`timeout_seconds`" in ran.failure
    assert ran.result["duration_ms"] < 20_000


def test_last_part_of_stderr_is_included_with_a_size_limit(project: Project) -> None:
    write(project, "print('old ' * 100_000 + 'THE LAST WORDS', file=sys.stderr)\nsys.exit(1)")
    failure = run(project).failure
    assert failure.endswith("THE LAST WORDS")
    assert len(failure) < 5_000


def test_script_failure_counts_as_an_error_and_scores_zero(project: Project) -> None:
    good = {"name": "good", "type": "code_judge", "script": ["python", "-c", "print('{\"score\": 1}')"]}
    bad = {"name": "bad", "type": "code_judge", "script": ["python", "-c", "raise SystemExit(4)"], "negate": True}
    write_suite(project, [{"id": "a", "input": "?", "evaluators": [good, bad]}])
    project.write("agentv.config.yaml", json.dumps(scripted()))
    ran = run(project, "--json")
    summary = json.loads(ran.process.stdout)
    assert (summary["errors"], summary["failed"], summary["exit_code"]) == (1, 0, 3)
    assert ran.row["score"] == 0.5
    assert [result["score"] for result in ran.row["evaluator_results"]] == [1, 0]


# -- resuming a run


def test_resume_refuses_when_the_script_has_changed(project: Project) -> None:
    write(project, "done()")
    first = run(project)
    assert first.directory is not None
    assert project.run("eval", "--resume", first.directory.name).returncode == 0
    (project.root / "judge.py").write_text("print('{\"score\": 0}')")
    refused = project.run("eval", "--resume", first.directory.name)
    assert refused.returncode == 2
    assert "judge.py has changed" in refused.stderr
    assert "--allow-changed" in refused.stderr
    assert project.run("eval", "--resume", first.directory.name, "--allow-changed").returncode == 0


def test_scripts_run_when_suite_settings_follow_the_cases(project: Project) -> None:
    write(project, "done(status=invoke()[0])", {"judge": True})
    suite = json.loads((project.root / "suite.yaml").read_text())
    cases, execution = json.dumps(suite["evalcases"]), json.dumps(suite["execution"])
    project.write("suite.yaml", f"evalcases: {cases}\nexecution: {execution}\n")
    assert run(project).details == {"status": 200}


def test_script_judges_recorded_answers_without_target_configuration(project: Project) -> None:
    write(project, "done(answer=json.load(sys.stdin)['candidate_answer'])")
    (project.root / "agentv.config.yaml").unlink()
    project.write("answers.jsonl", json.dumps({"eval_id": "case-0", "candidate_answer": "Rome"}) + "\n")
    assert run(project, "--outputs", "answers.jsonl").details == {"answer": "Rome"}


def test_answer_is_not_judged_when_the_target_failed(project: Project) -> None:
    write(project, "open('started', 'w')\ndone()", config={"targets": {"assistant": mock(error="down", max_retries=0)}})
    assert run(project).row["error"]["stage"] == "target"
    assert not (project.root / "started").exists()


def test_working_directory_is_searched_in_parents_of_the_suite(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {scripted: {provider: mock, response: ok}}\n")
    project.write("judges/here.py", "import json, os; print(json.dumps({'score': 1, 'reasoning': os.getcwd()}))\n")
    project.write(
        "evals/suite.yaml",
        "evalcases: [{id: a, input: x, evaluators: [{type: code_judge, script: [python, here.py], cwd: judges}]}]\n",
    )
    done = project.run("eval", "evals/suite.yaml")
    assert done.returncode == 0, done.stdout
    assert project.rows()[0]["reasoning"].endswith("/judges")
