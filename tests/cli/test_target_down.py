"""A target that fails with the same error again and again is declared down; `--retry-errors` runs its cases later."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.conftest import Project

AGENT = """\
#!/bin/sh
echo "$1" >> calls.log
echo "the server is on fire" >&2
exit 1
"""


UP = "targets:\n  agent: {provider: mock, response: the answer}\n"


def suite(*questions: str) -> str:
    cases = "".join(f"  - {{id: c{n}, input: {question}}}\n" for n, question in enumerate(questions))
    return f"execution: {{evaluators: [{{type: contains, value: answer}}]}}\nevalcases:\n{cases}"


def down_project(project: Project, questions: list[str], *, settings: str = "") -> Project:
    """A target that fails for questions with `bad`; each question with `worse` has its own error."""
    project.write("suite.yaml", suite(*questions))
    worse = "".join(f", {{match: '{q}$', error: no {q}, status: 400}}" for q in questions if q.startswith("worse"))
    rules = f"[{{match: bad, error: the server is on fire, status: 401}}{worse}]"
    project.write(
        "agentv.config.yaml",
        f"targets:\n  agent: {{provider: mock, response: the answer, rules: {rules}, workers: 1{settings}}}\n"
        "  other: {provider: mock, response: the answer}\ndefaults: {target: agent}\n",
    )
    return project


def calls(project: Project) -> int:
    """The number of rows whose target was called."""
    return sum(not (row["error"] or {}).get("not_called") for row in project.rows())


def test_target_is_down_after_twenty_equal_errors_in_a_row(project: Project) -> None:
    down_project(project, ["bad"] * 60)
    project.write("agent.sh", AGENT)
    config = "targets:\n  agent: {provider: cli, command: [sh, agent.sh, '{PROMPT}'], workers: 1}\n"
    project.write("agentv.config.yaml", config + "  other: {provider: mock, response: the answer}\n")
    done = project.run("eval", "suite.yaml", "--target", "agent", "--target", "other", "--run-dir", "run")
    assert done.returncode == 3
    assert len((project.root / "calls.log").read_text().splitlines()) == 20
    rows = project.rows(project.root / "run")
    assert Counter((row["target"], row["error"] is None) for row in rows) == {("agent", False): 60, ("other", True): 60}
    refused = [row["error"] for row in rows if row["error"] and row["error"].get("not_called")]
    assert len(refused) == 40
    called = [row["error"] for row in rows if row["error"] and row["error"] not in refused]
    assert {tuple(error) for error in called} == {("stage", "message")}
    assert refused[0]["stage"] == "target"
    assert "target 'agent' was declared down after 20 equal errors in a row: " in refused[0]["message"]
    assert "the server is on fire" in refused[0]["message"]
    assert "agentv eval --retry-errors run" in refused[0]["message"]
    assert "40 results not called: target down" in done.stdout
    assert "Retry   agentv eval --retry-errors run" in done.stdout
    summary = json.loads((project.root / "run" / "run.json").read_text())["summary"]
    assert (summary["errors"], summary["not_called"]) == (60, 40)


def test_equal_errors_are_printed_a_few_times_only(project: Project) -> None:
    down_project(project, ["bad"] * 60)
    done = project.run("eval", "suite.yaml")
    assert done.stderr.count("on fire") <= 10, done.stderr
    assert len(done.stderr.splitlines()) <= 12
    assert "further cases with this error are not shown" in done.stderr


@pytest.mark.parametrize(
    "questions",
    [
        [*["bad"] * 19, "good", *["bad"] * 19, "good"],
        [f"worse {n}" for n in range(30)],  # each case has its own message
        [*["bad"] * 19, "worse 1", *["bad"] * 19],
    ],
)
def test_success_or_another_error_starts_the_count_again(project: Project, questions: list[str]) -> None:
    down_project(project, questions)
    project.run("eval", "suite.yaml")
    assert calls(project) == len(questions)
    assert not any((row["error"] or {}).get("not_called") for row in project.rows())


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        (", max_consecutive_errors: 3", (), 3),
        (", max_consecutive_errors: 0", (), 25),
        (", max_consecutive_errors: 3", ("--max-consecutive-errors", "5"), 5),
        ("", ("--max-consecutive-errors", "1"), 1),
        ("", ("--max-consecutive-errors", "0"), 25),
    ],
)
def test_limit_is_a_setting_that_the_option_overrides(
    project: Project, settings: str, options: tuple[str, ...], expected: int
) -> None:
    down_project(project, ["bad"] * 25, settings=settings)
    project.run("eval", "suite.yaml", *options)
    assert calls(project) == expected


def test_errors_of_a_script_do_not_declare_the_judge_down_for_others(project: Project) -> None:
    """A script makes its judge fail 30 times; the `llm_judge` of the other case still gets its verdict."""
    project.write(
        "hostile.py",
        """\
        import json, sys
        from agentv_eval import create_judge_proxy_client
        sys.stdin.read()
        judge = create_judge_proxy_client()
        for _ in range(30):
            try:
                judge.invoke(question="break")
            except Exception:
                pass
        print(json.dumps({"score": 1}))
        """,
    )
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          agent: {provider: mock, response: hello}
          judge:
            provider: mock
            rules: [{match: '(?s)^[^a-z]*break', error: broken, status: 400}]
            response: '{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}'
        defaults: {target: agent, judge_target: judge}
        """,
    )
    project.write(
        "suite.yaml",
        """\
        evalcases:
          - id: a
            input: hi
            evaluators: [{name: hostile, type: code_judge, script: [python, hostile.py], judge: {max_calls: 40}}]
          - id: b
            input: hi
            evaluators: [{name: fair, type: llm_judge}]
        """,
    )
    project.run("eval", "suite.yaml", "--case", "a", "--case", "b", "--workers", "1")
    rows = {row["eval_id"]: row for row in project.rows()}
    assert rows["a"]["evaluator_results"][0]["judge_proxy"]["failed_calls"] == 30
    assert rows["b"]["error"] is None, rows["b"]["error"]


def test_retry_errors_runs_errored_cases_again_in_place(project: Project) -> None:
    down_project(project, ["good", *["bad"] * 30, "good"])
    first = project.run("eval", "suite.yaml", "--run-dir", "run", "--out", "rows.jsonl")
    assert first.returncode == 3
    run = project.root / "run"
    before = run.joinpath("results.jsonl").read_bytes().splitlines(keepends=True)
    errored = [line for line in before if json.loads(line)["error"]]
    resumed = project.run("eval", "--resume", "run")
    assert "agentv eval --retry-errors run" in resumed.stderr
    assert (run / "results.jsonl").read_bytes() == b"".join(before)

    assert len(errored) == 31  # one of them is a good question that was not asked
    project.write("agentv.config.yaml", UP)
    done = project.run("eval", "--retry-errors", "run", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["total"], summary["passed"], summary["errors"]) == (32, 32, 0)
    assert (run / "superseded.jsonl").read_bytes() == b"".join(errored)
    results = (run / "results.jsonl").read_bytes()
    assert results.startswith(b"".join(line for line in before if line not in errored))
    rows = project.rows(run)
    assert len(rows) == len({row["eval_id"] for row in rows}) == 32
    assert (project.root / "rows.jsonl").read_bytes() == results

    again = project.run("eval", "--retry-errors", "run")
    assert again.returncode == 0
    assert "no errored rows" in again.stderr
    assert (run / "results.jsonl").read_bytes() == results


def test_retry_errors_refuses_a_changed_suite_before_any_row_is_moved(project: Project) -> None:
    down_project(project, ["bad"] * 3)
    project.run("eval", "suite.yaml", "--run-dir", "run")
    before = (project.root / "run" / "results.jsonl").read_bytes()
    project.write("suite.yaml", suite("bad", "bad", "good"))
    done = project.run("eval", "--retry-errors", "run")
    assert done.returncode == 2
    assert "--allow-changed" in done.stderr
    assert (project.root / "run" / "results.jsonl").read_bytes() == before
    assert not (project.root / "run" / "superseded.jsonl").exists()
    project.write("agentv.config.yaml", UP)
    assert project.run("eval", "--retry-errors", "run", "--allow-changed").returncode == 0


def test_retry_errors_and_resume_cannot_be_combined(project: Project) -> None:
    done = project.run("eval", "--retry-errors", "run", "--resume", "run")
    assert done.returncode == 2
    assert "cannot be used together" in done.stderr
