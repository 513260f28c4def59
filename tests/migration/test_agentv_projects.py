"""Projects written for AgentV load and run unchanged. The expected scores were calculated manually.

A project is one text file in which `=== path` starts each file of the project.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import Project

PROJECTS = Path(__file__).parent / "projects"


@dataclass(frozen=True)
class Expected:
    """Expected results of running a project."""

    scores: dict[str, float]
    exit_code: int = 0
    targets: dict[str, str] = field(default_factory=dict)


EXPECTED = {
    # `target` and `evaluator` from the suite, `judge_target` from the target: the grader scores each case 0.75.
    "root_keys": Expected({"refund-window": 0.75, "opening-hours": 0.75}, 1, {"refund-window": "desk"}),
    # The script scores half for all roles in order and half for the attached file.
    "messages": Expected({"all-roles": 1.0, "one-object": 1.0}),
    # number (weight 2) matches, net is 3% off (5% allowed), due matches, count is wrong, vat is not expected: 5/6.
    "expected_messages": Expected({"invoice": 5 / 6, "only-tool-calls": 1.0}),
    "aliases": Expected({"by-outcome": 1.0}),
    # 2 of 4 criteria, 3/4 of the weight, 1 of 2 criteria; each averaged with an evaluator that scores 1.
    "rubrics": Expected({"strings": 0.75, "objects": 0.875, "in-an-evaluator": 0.75}, 1),
    # The suite's list also applies if `execution` only sets a target; weights are 3 and 1, and 0 does not count.
    "case_execution": Expected(
        {"inherits": 1.0, "inherits-with-execution": 0.0, "own-list": 1.0, "list-of-the-case": 0.75},
        1,
        {"inherits": "blue", "inherits-with-execution": "red", "own-list": "red"},
    ),
    # 1500 of 1500 ms, 0.05 of 0.05 USD, 800 of 1000 tokens; in the second case only the time limit is met.
    "metrics": Expected({"within": 1.0, "beyond": 0.25}, 1),
    # 0.25 * 1 + 0.75 * 0.5; the lowest score; ((1 + 0) / 2 + 1) / 2; the grader's score.
    "composite": Expected({"weighted": 0.625, "by-script": 0.4, "nested": 0.75, "by-judge": 0.65}, 1),
    # search twice and book but not pay; a subsequence; two of three positions; an extra call.
    "trajectory": Expected({"any-order": 2 / 3, "in-order": 1.0, "exact": 2 / 3, "too-many": 0.0}, 1),
    "code_judges": Expected({"scripts": 1.0}),
    "every_setting": Expected({"any": 1.0}),
    "command_line": Expected({"with-a-file": 1.0}),
    "guidelines": Expected({"follows-the-rules": 1.0}),
    "batching": Expected({"one": 1.0, "two": 1.0}),
    # Scripts and the judge receive the contents of expected files.
    "expected_files": Expected({"letter": 1.0}),
    # Scripts run in the suite's directory; `cwd` is also searched in its parents and below the repository.
    "directories": Expected({"beside-the-suite": 1.0}),
    "two_target_files": Expected({"which": 1.0}),
    # A command that receives the files does not receive their contents in its prompt.
    "attachments": Expected({"conversation": 1.0}),
    "languages": Expected({"shell-and-python": 1.0}),
    # price: the rubric of two strings (half, weight 2), 1, 0, 1, 1, 1 and the list of the suite 1: 6 of 8.
    # gate: 1, 1, 1, one of two checks, 0.25. judged: (0.8 + 0.6) / 2, 0.9 and half of the group.
    "agentv4": Expected(
        {"price": 6 / 8, "gate": 3.75 / 5, "judged": 2.1 / 3, "first": 1.0, "two": 1.0}, 1, {"price": "clerk"}
    ),
    # Everything passes, except for one of the two members of the set.
    "agentv5": Expected({"capital": 7.5 / 8, "from-a-table": 1.0, "where": 1.0}, targets={"capital": "echo"}),
}


def unpack(name: str, project: Project) -> None:
    parts = re.split(r"^=== (.+)\n", (PROJECTS / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for path, text in zip(parts[1::2], parts[2::2], strict=True):
        project.write(path, text)


DIALECTS = {"agentv4": "AgentV 4", "agentv5": "AgentV 5"}
"""Projects in another dialect than ours."""


def test_every_project_has_expected_results() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in PROJECTS.glob("*.txt"))


@pytest.mark.parametrize("name", EXPECTED)
def test_project_loads_and_runs_unchanged(name: str, project: Project) -> None:
    unpack(name, project)
    env = {"SHOP_TARGET": "echo"}
    if (program := project.root / "bin" / "bun").exists():
        program.chmod(0o755)
        env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    checked = project.run("validate", "evals", "--verbose", env=env)
    assert checked.returncode == 0, checked.stderr
    dialects = re.findall(r"note: \S+: read as a suite of (.+)", checked.stderr)
    assert set(dialects) == ({DIALECTS[name]} if name in DIALECTS else set())
    assert dialects or not checked.stderr

    expected = EXPECTED[name]
    done = project.run("eval", "evals", env=env)
    rows = {row["eval_id"]: row for row in project.rows()}
    assert {case: row["error"] for case, row in rows.items() if row["error"]} == {}
    assert {case: row["score"] for case, row in rows.items()} == pytest.approx(expected.scores)
    assert {case: rows[case]["target"] for case in expected.targets} == expected.targets
    assert done.returncode == expected.exit_code, done.stderr


def test_rows_include_the_dataset_and_the_conversation(project: Project) -> None:
    unpack("root_keys", project)
    project.run("eval", "evals")
    assert {row["suite"] for row in project.rows()} == {"help-desk"}
    unpack("aliases", project)
    project.run("eval", "evals/short.yml", "--run-dir", "second")
    assert [row["conversation_id"] for row in project.rows(project.root / "second")] == ["chat-9"]


def test_every_provider_setting_is_accepted_when_its_variables_are_set(project: Project) -> None:
    unpack("every_setting", project)
    names = re.findall(r"\$\{\{ (\w+) \}\}", (PROJECTS / "every_setting.txt").read_text(encoding="utf-8"))
    variables = {name: f"https://{name.lower().replace('_', '-')}.example.com" for name in names}
    done = project.run("targets", "evals", "--json", env=variables)
    assert done.returncode == 0, done.stderr
    targets = {row["name"]: row for row in json.loads(done.stdout)}
    assert {name for name, row in targets.items() if not row["ready"]} == set()
    assert targets["gemini"]["model"] == "gemini-2.5-flash"
    assert targets["azure-long"]["judge"] == "claude"


def test_suite_runs_with_each_of_its_targets_within_its_budget(project: Project) -> None:
    unpack("agentv4", project)
    done = project.run("eval", "evals/more.yaml")
    assert done.returncode == 0, done.stderr
    assert sorted((row["eval_id"], row["target"]) for row in project.rows()) == [
        ("first", "clerk"), ("first", "echo"), ("two", "clerk"), ("two", "echo")
    ]  # fmt: skip
    assert json.dumps(project.manifest()).count('"max_cost": 5') == 1
    again = project.run("eval", "evals/more.yaml", "--target", "echo", "--max-cost", "1")
    assert again.returncode == 0, again.stderr
    assert {row["target"] for row in project.rows()} == {"echo"}


AGENTS = ("codex", "codex-cli", "claude-code", "vscode", "vscode-insiders", "pi", "pi-coding-agent", "pi-agent-sdk")


@pytest.mark.parametrize("provider", AGENTS)
def test_agent_provider_is_rejected_with_advice_and_other_targets_work(provider: str, project: Project) -> None:
    unpack("aliases", project)
    project.write(
        "evals/targets.yml",
        f"""\
        targets:
          - {{name: parrot, provider: mock, response: hi}}
          - name: agent
            provider: {provider}
            timeout_seconds: 60
        """,
    )
    done = project.run("eval", "evals", "--target", "agent")
    assert done.returncode == 2
    assert f"agentv has no provider for the agent '{provider}'" in done.stderr
    assert "{provider: cli, command: [" in done.stderr
    assert "'{PROMPT}']}" in done.stderr
    assert project.run("eval", "evals", "--target", "parrot").returncode in (0, 1)


def test_unknown_judge_target_is_an_error_without_fallback(project: Project) -> None:
    unpack("root_keys", project)
    path = project.root / ".agentv" / "targets.yaml"
    path.write_text(path.read_text().replace("judge_target: grader", "judge_target: gradr"))
    done = project.run("eval", "evals")
    assert done.returncode == 2
    assert "unknown target 'gradr' (did you mean `grader`?)" in done.stderr
    assert project.run_dirs() == []


def test_missing_file_is_an_error(project: Project) -> None:
    unpack("messages", project)
    (project.root / "evals" / "notes" / "wishes.md").unlink()
    done = project.run("eval", "evals")
    assert done.returncode == 2
    assert "there is no file 'notes/wishes.md'" in done.stderr


def test_command_with_file_placeholder_starts_with_files_of_any_size(project: Project) -> None:
    unpack("attachments", project)
    (project.root / "evals" / "long.txt").write_text("one line\n" * 500_000)
    done = project.run("eval", "evals")
    assert done.returncode == 0, done.stderr


def test_validate_accepts_every_kind_of_project_file(project: Project) -> None:
    unpack("attachments", project)
    done = project.run("validate", ".agentv/config.yaml", ".agentv/targets.yaml", "evals/link.yaml")
    assert (done.returncode, done.stdout) == (0, "ok: 1 suite, 1 case, 2 configurations, no problems\n")
    project.write(".agentv/config.yaml", "$schema: agentv-config-v2\nguideline_patterns: docs/**\n")
    done = project.run("validate", ".agentv/config.yaml")
    assert done.returncode == 2
    assert ".agentv/config.yaml:2:21: `guideline_patterns` must be a list of patterns" in done.stderr


@contextmanager
def health(status: int) -> Iterator[tuple[str, list[str]]]:
    """URL of a server that answers every GET with a status, and the requested paths."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name from the standard library
            """Log nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/health", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 3)])
def test_health_check_accepts_a_literal_url(project: Project, status: int, exit_code: int) -> None:
    unpack("command_line", project)
    path = project.root / ".agentv" / "targets.yaml"
    before, _, _ = path.read_text().partition("    healthcheck:")
    with health(status) as (url, asked):
        path.write_text(f"{before}    healthcheck: {{type: http, url: '{url}', timeout_seconds: 20}}\n")
        done = project.run("eval", "evals")
    assert done.returncode == exit_code, done.stderr
    assert asked == ["/health"]
