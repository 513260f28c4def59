"""`--max-cost` and `--max-judge-calls`: skipped cases are reported and can be resumed."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.test_resume import wait_until
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
    rules: [{match: ".", response: '{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}', cost_usd: 0.02}]
    response: ""
"""
CASES = "evalcases:\n" + "".join(f"- {{id: case-{n}, input: Where?, expected_outcome: Paris}}\n" for n in range(8))
CHECKED = "execution: {target: assistant, evaluators: [{type: contains, value: Paris}]}\n" + CASES
JUDGE = "{name: judge, type: code_judge, script: [python, judge.py], judge: true}"
JUDGED = f"execution: {{target: assistant, evaluators: [{JUDGE}]}}\n" + CASES
SCRIPT = """\
from agentv_eval import create_judge_proxy_client, define_code_judge
def judge(case):
    client = create_judge_proxy_client()
    for n in range(2):
        client.invoke(question=f"{case.eval_id} {n}")
    return {"score": 1}
define_code_judge(judge)
"""


@pytest.fixture
def paid(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", CHECKED)
    project.write("judged.yaml", JUDGED)
    project.write("judge.py", SCRIPT)
    return project


def test_run_stops_at_max_cost_and_resumes_with_a_larger_limit(paid: Project) -> None:
    done = paid.run("eval", "suite.yaml", "--run-dir", "run", "--max-cost", "0.05", "--json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["total"], summary["not_run"], summary["cost_usd"]) == (3, 5, 3, 0.05)
    assert summary["why_not_run"] == "$0.05 of --max-cost 0.05 is spent"
    assert paid.manifest(paid.root / "run")["status"] == "out of budget"
    again = paid.run("eval", "--resume", "run", "--json")
    assert (again.returncode, json.loads(again.stdout)["total"]) == (3, 5)
    more = paid.run("eval", "--resume", "run", "--max-cost", "1", "--json")
    assert (more.returncode, json.loads(more.stdout)["total"]) == (0, 8)
    ids = [row["eval_id"] for row in paid.rows(paid.root / "run")]
    assert sorted(ids) == [f"case-{n}" for n in range(8)]


def test_summary_reports_skipped_cases_reason_and_resume_command(paid: Project) -> None:
    done = paid.run("eval", "suite.yaml", "--run-dir", "run", "--max-cost", "0.05")
    assert "3 cases not run" in done.stdout
    assert "budget: $0.05 of --max-cost 0.05 is spent" in done.stdout
    assert "agentv eval --resume run --max-cost MORE" in done.stdout


def test_max_judge_calls_is_never_exceeded_and_no_case_is_partly_judged(paid: Project) -> None:
    done = paid.run("eval", "judged.yaml", "--run-dir", "run", "--max-judge-calls", "7", "--json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["total"], summary["passed"], summary["not_run"]) == (3, 3, 3, 5)
    assert summary["judge_calls"] == 6
    assert all(row["error"] is None for row in paid.rows(paid.root / "run"))
    more = paid.run("eval", "--resume", "run", "--max-judge-calls", "100", "--json")
    assert (more.returncode, json.loads(more.stdout)["judge_calls"]) == (0, 16)


def test_case_that_exhausts_the_budget_is_not_recorded(paid: Project) -> None:
    done = paid.run("eval", "judged.yaml", "--run-dir", "run", "--max-judge-calls", "1", "--json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["total"], summary["not_run"]) == (3, 0, 8)
    assert paid.manifest(paid.root / "run")["budget"]["judge_calls"] == 1
    # Its answer is recorded, and judged when there is a larger budget.
    assert len((paid.root / "run" / "answers.jsonl").read_bytes().splitlines()) == 1
    more = paid.run("eval", "--resume", "run", "--max-judge-calls", "100")
    assert more.returncode == 0
    assert "1 case was answered before the interruption; it is only judged" in more.stderr
    assert not (paid.root / "run" / "answers.jsonl").exists()


def test_judge_cost_counts_against_max_cost(paid: Project) -> None:
    done = paid.run("eval", "judged.yaml", "--run-dir", "run", "--max-cost", "0.15", "--json")
    summary = json.loads(done.stdout)
    assert (summary["total"], summary["not_run"]) == (3, 5)
    assert summary["cost_usd"] + summary["judge_cost_usd"] == pytest.approx(0.15)


def test_zero_judge_calls_runs_no_judged_case(paid: Project) -> None:
    done = paid.run("eval", "judged.yaml", "--max-judge-calls", "0", "--json")
    assert (done.returncode, json.loads(done.stdout)["not_run"]) == (3, 8)
    assert paid.run("eval", "suite.yaml", "--max-cost", "0").returncode == 2


def test_recorded_answers_do_not_count_against_max_cost(paid: Project) -> None:
    answers = [{"eval_id": f"case-{n}", "candidate_answer": "Paris", "cost_usd": 5.0} for n in range(8)]
    paid.write("answers.jsonl", "".join(json.dumps(line) + "\n" for line in answers))
    graded = ("eval", "judged.yaml", "--outputs", "answers.jsonl", "--judge-target", "strict", "--json")
    done = paid.run(*graded, "--run-dir", "run", "--max-cost", "0.16")
    assert (done.returncode, json.loads(done.stdout)["total"]) == (3, 4)
    assert paid.manifest(paid.root / "run")["budget"]["spent_usd"] == pytest.approx(0.16)
    more = paid.run("eval", "--resume", "run", "--max-cost", "0.4", "--json")
    assert (more.returncode, json.loads(more.stdout)["total"]) == (0, 8)


def test_replayed_answers_do_not_count_against_max_cost(paid: Project) -> None:
    answers = [{"eval_id": f"case-{n}", "candidate_answer": "Paris", "cost_usd": 5.0} for n in range(8)]
    paid.write("answers.jsonl", "".join(json.dumps(line) + "\n" for line in answers))
    paid.write("agentv.config.yaml", f"{CONFIG}  old: {{provider: replay, file: answers.jsonl}}\n")
    done = paid.run("eval", "suite.yaml", "--target", "old", "--run-dir", "run", "--max-cost", "1", "--json")
    assert (done.returncode, json.loads(done.stdout)["total"]) == (0, 8)
    assert paid.manifest(paid.root / "run")["budget"]["spent_usd"] == 0


SLOW_JUDGE = """\
import os, pathlib, sys, time
if sys.argv[1] == "case-0":
    print('{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}')
else:
    pathlib.Path(f"begun-{os.getpid()}").touch()
    time.sleep(600)
"""
ASKS_FIVE = """\
from agentv_eval import create_judge_proxy_client, define_code_judge
def judge(case):
    create_judge_proxy_client().invoke_batch([{"question": str(n), "eval_case_id": "slow"} for n in range(5)])
    return {"score": 1}
define_code_judge(judge)
"""


@pytest.mark.parametrize(("suite", "made"), [("asked.yaml", 3), ("batch.yaml", 2)])
def test_queued_judge_calls_are_not_counted_when_the_run_stops(project: Project, suite: str, made: int) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  assistant: {provider: mock, response: Paris, judge_target: slow}\n"
        '  slow: {provider: cli, command: [python, slow.py, "{EVAL_ID}"], max_concurrency: 2}\n',
    )
    project.write("slow.py", SLOW_JUDGE)
    project.write("judge.py", ASKS_FIVE)
    project.write("asked.yaml", "execution: {target: assistant}\n" + CASES)
    project.write(
        "batch.yaml",
        f"execution: {{target: assistant, evaluators: [{JUDGE}]}}\nevalcases: [{{id: one, input: Where?}}]\n",
    )
    process = project.start("eval", suite, "--run-dir", "run", "--max-judge-calls", "50", "--quiet")
    wait_until(lambda: len(list(project.root.glob("begun-*"))) == 2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert project.manifest(project.root / "run")["budget"]["judge_calls"] == made
    assert "agentv eval --resume run" in said


def test_targets_without_a_price_are_named_before_the_run(project: Project) -> None:
    """The target is not called: its port is closed. The price table knows gpt-4o, but not at this address."""
    settings = "provider: openai, api_key: k, base_url: 'http://127.0.0.1:9', max_retries: 0"
    project.write(
        "agentv.config.yaml",
        f"""\
        targets:
          local: {{{settings}, model: gpt-4o}}
          priced: {{{settings}, model: gpt-4o, prices: {{input: 1, output: 2}}}}
          command: {{provider: cli, command: [cat]}}
        """,
    )
    project.write("suite.yaml", "evalcases: [{id: one, input: Q, evaluators: [{type: cost, budget_usd: 1}]}]\n")
    targets = ("--target", "local", "--target", "priced", "--target", "command")
    done = project.run("eval", "suite.yaml", "--max-cost", "1", *targets)
    warnings = [line for line in done.stderr.splitlines() if "--max-cost does not count" in line]
    assert len(warnings) == 2, done.stderr
    assert warnings[0].startswith("warning: --max-cost does not count calls of target 'local': ")
    assert "set `prices` of the target" in warnings[0]
    assert "'command'" in warnings[1]
    assert "cost_usd" in warnings[1]
    assert done.stderr.index("--max-cost does not count") < done.stderr.index("error  ")
    assert "Set `prices` of the target" in " ".join(done.stdout.split())  # the advice of the `cost` evaluator
    assert "--max-cost does not count" not in project.run("eval", "suite.yaml", *targets).stderr
