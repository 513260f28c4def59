"""Several attempts of a case give one verdict, in every output of the command line."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from agentv.cli.program import run
from agentv.testing.model_server import FakeModelServer
from tests.conftest import Project

AGENT = """\
import pathlib, sys
question, attempt = sys.stdin.read().split()[0], int(sys.argv[1])
with pathlib.Path("calls.txt").open("a") as log:
    log.write(f"{question} {attempt}\\n")
letter = question.split("=")[1][attempt - 1]
fixed = pathlib.Path("fixed").exists()
sys.exit("down") if letter == "e" and not fixed else print("good" if letter != "f" else "bad")
"""
SUITE = """\
execution:
  trials: {trials}
  evaluators: [{{type: contains, value: good}}]
evalcases:
- {{id: steady, input: steady=ppppp}}
- {{id: mostly, input: mostly=pfppf}}
- {{id: seldom, input: seldom=ffpff}}
"""


@pytest.fixture
def moody(project: Project) -> Project:
    project.write("agent.py", AGENT)
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          moody: {provider: cli, command: [python, agent.py, "{ATTEMPT}"], max_retries: 0}
        """,
    )
    return project


def calls(project: Project) -> Counter[str]:
    return Counter(line.split("=")[0] for line in (project.root / "calls.txt").read_text().splitlines())


def summary_of(project: Project, *arguments: str) -> dict[str, Any]:
    done = project.run("eval", *arguments, "--json")
    summary: dict[str, Any] = json.loads(done.stdout)
    assert summary["exit_code"] == done.returncode
    return summary


def test_every_output_has_one_line_per_case(
    moody: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moody.write("suite.yaml", SUITE.format(trials="{count: 5}"))
    done = moody.run("eval", "suite.yaml", "--run-dir", "run", env={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[0] == "✗ 1 of 3 cases did not pass"
    assert lines[2].startswith("  2 passed   1 failed   2 flaky   mean score 0.60")
    assert lines[3:5] == [
        "  15 attempts, pass if majority   spread 0.41",
        "  pass@5 1.00 (0.44 to 1.00)   pass^5 0.33 (0.06 to 0.79)",
    ]
    assert "  0.20  fail        seldom  (1/5 flaky)" in lines
    assert "  0.60  3/5 flaky   mostly" in lines
    assert max(map(len, lines)) <= 80
    assert Counter(row["eval_id"] for row in moody.rows(moody.root / "run")) == dict.fromkeys(
        ("steady", "mostly", "seldom"), 5
    )
    assert moody.manifest(moody.root / "run")["suites"][0]["trials"] == {
        "count": 5,
        "pass_if": "majority",
        "stop_early": False,
    }
    moody.root.joinpath("suite.yaml").unlink()  # reports need only the run directory
    monkeypatch.chdir(moody.root)

    def report(shape: str) -> str:
        assert run(["report", "run", "-f", shape]) == 0
        return capsys.readouterr().out

    assert run(["show", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["row"]["eval_id"] == "seldom"  # `mostly` passed
    root = ET.fromstring(report("junit"))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "0"]
    markdown = report("markdown")
    assert "| <code>seldom</code> 1/5 flaky | 0.20 | fail |" in markdown
    assert "| 3 | 2 | 0 | 1 | 0 | 0.60 | 2 |" in markdown
    *annotations, notice = report("github").splitlines()
    assert [line.split("::")[1] for line in annotations] == [
        "error title=seldom (moody)%3A fail%2C score 0.20%2C 1/5 flaky"
    ]
    assert notice.endswith("::3 results: 1 failed")


def test_pass_if_decides_which_cases_pass_and_repeat_overrides_the_count(moody: Project) -> None:
    moody.write("suite.yaml", SUITE.format(trials="{count: 2, pass_if: any}"))
    summary = summary_of(moody, "suite.yaml", "--repeat", "3", "--run-dir", "any")
    assert (summary["passed"], summary["total"], summary["attempts"], summary["exit_code"]) == (3, 3, 9, 0)
    assert summary["repeats"]["pass_at_k"]["1"]["value"] == pytest.approx(2 / 3)
    moody.write("suite.yaml", SUITE.format(trials="{pass_if: all}"))
    summary = summary_of(moody, "suite.yaml", "--repeat", "3", "--run-dir", "all")
    assert (summary["passed"], summary["failed"], summary["flaky"], summary["exit_code"]) == (1, 2, 2, 1)
    compared = json.loads(moody.run("compare", "any", "all", "--json").stdout)
    assert [compared["summary"][name] for name in ("passed1", "passed2", "newly_failed", "mean_delta")] == [3, 1, 2, 0]
    assert {(case["passed_attempts1"], case["attempts1"]) for case in compared["matched"]} == {(3, 3), (2, 3), (1, 3)}
    assert (
        "verdicts over the attempts of a case: pass if any in the baseline, pass if all in the candidate"
        in (compared["notes"])
    )


def test_errors_count_only_if_they_could_change_the_verdict(moody: Project) -> None:
    moody.write(
        "suite.yaml",
        """\
        execution: {trials: {count: 3}, evaluators: [{type: contains, value: good}]}
        evalcases:
        - {id: decided, input: decided=ppe}
        - {id: open, input: open=pfe}
        """,
    )
    summary = summary_of(moody, "suite.yaml", "--run-dir", "run")
    assert [summary[name] for name in ("total", "passed", "errors", "errored_attempts", "exit_code")] == [2, 1, 1, 2, 3]
    moody.write("fixed", "")
    summary = summary_of(moody, "--retry-errors", "run")
    assert [summary[name] for name in ("total", "passed", "errors", "attempts", "exit_code")] == [2, 2, 0, 6, 0]
    assert len(moody.rows(moody.root / "run")) == 6


async def test_stop_early_does_not_call_a_model_whose_verdict_is_decided(project: Project) -> None:
    answers = {"sure": ["good"] * 5, "never": ["bad"] * 5, "late": ["bad", "good", "good", "bad", "good"]}

    def reply(body: Any) -> str:
        return answers[body["messages"][-1]["content"]].pop(0)

    async with FakeModelServer(reply) as server:
        target = f"{{provider: openai, model: x, base_url: '{server.url}', api_key: k, max_concurrency: 1}}"
        project.write("agentv.config.yaml", f"targets:\n  gpt: {target}\n")
        project.write(
            "suite.yaml",
            """\
            execution:
              trials: {count: 5, pass_if: majority, stop_early: true}
              evaluators: [{type: contains, value: good}]
            evalcases:
            - {id: sure, input: sure}
            - {id: never, input: never}
            - {id: late, input: late}
            """,
        )
        done = await asyncio.to_thread(project.run, "eval", "suite.yaml", "--run-dir", "run")
        assert (done.returncode, server.calls) == (1, 3 + 3 + 5), done.stderr
        assert {name: len(left) for name, left in answers.items()} == {"sure": 2, "never": 2, "late": 0}
        assert "[11/11]" in done.stderr
        assert "pass@k and pass^k are not computed with stop_early" in done.stdout
        again = await asyncio.to_thread(project.run, "eval", "--resume", "run", "--json")
        assert (again.returncode, server.calls, json.loads(again.stdout)["attempts"]) == (1, 11, 11)
    assert project.manifest(project.root / "run")["total"] == 11
    assert "incomplete" not in project.run("report", "run").stdout


def test_interrupted_run_continues_only_undecided_cases(moody: Project) -> None:
    moody.write("suite.yaml", SUITE.format(trials="{count: 5, pass_if: any, stop_early: true}"))
    assert summary_of(moody, "suite.yaml", "--run-dir", "run", "--workers", "1")["passed"] == 3
    assert calls(moody) == {"steady": 1, "mostly": 1, "seldom": 3}
    results = moody.root / "run" / "results.jsonl"
    kept = [line for line in results.read_text().splitlines(keepends=True) if '"attempt":3' not in line]
    results.write_text("".join(kept))
    summary = summary_of(moody, "--resume", "run")
    assert (summary["passed"], summary["attempts"], summary["incomplete"]) == (3, 5, 0)
    assert calls(moody) == {"steady": 1, "mostly": 1, "seldom": 4}


def test_cases_without_enough_attempts_are_incomplete_and_never_pass(project: Project) -> None:
    project.write("agentv.config.yaml", "targets:\n  paid: {provider: mock, response: good, cost_usd: 0.01}\n")
    project.write("suite.yaml", SUITE.format(trials="{count: 3}"))
    summary = summary_of(project, "suite.yaml", "--max-cost", "0.04", "--workers", "1", "--run-dir", "run")
    assert [summary[name] for name in ("total", "passed", "incomplete", "not_run", "exit_code")] == [1, 1, 1, 1, 3]
    markdown = project.run("report", "run").stdout
    assert "1 case incomplete" in markdown
    summary = summary_of(project, "--resume", "run", "--max-cost", "1")
    assert [summary[name] for name in ("total", "passed", "incomplete", "exit_code")] == [3, 3, 0, 0]


@pytest.mark.parametrize(
    ("trials", "message"),
    [
        ("{count: 0}", "`count` must be a number >= 1, got 0"),
        ("{count: 2.5}", "`count` must be a whole number, got 2.5"),
        ("{pass_if: most}", "`pass_if` must be `any`, `all`, `majority` or `mean`, got 'most'"),
        ("{stop_early: yes}", "`stop_early` must be true or false, got 'yes'; write `true`"),
        ("5", "`trials` must be a mapping, got 5"),
        ("{times: 5}", "unknown key `times`; expected `count`, `pass_if` or `stop_early`"),
        (
            "{count: 5, strategy: pass_at_k}",
            "`trials`: unknown key `strategy`, which AgentV uses; write `pass_if: any` with `stop_early: true`",
        ),
        (
            "{count: 5, cost_limit_usd: 1}",
            "`trials`: unknown key `cost_limit_usd`, which AgentV uses; limit the cost of a run with --max-cost",
        ),
    ],
)
def test_invalid_trials_are_explained(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, trials: str, message: str
) -> None:
    monkeypatch.chdir(project.root)
    project.write("suite.yaml", SUITE.format(trials=trials))
    assert run(["validate", "suite.yaml"]) == 2
    assert message in capsys.readouterr().err
