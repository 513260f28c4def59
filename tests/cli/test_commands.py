"""`agentv validate`, `schema`, `targets`, `init` and the command table."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest
import yaml

from agentv.cli.program import COMMANDS
from tests.conftest import AGENTV, Project
from tests.report.rows import row
from tests.report.sources import write_rows


def test_version_and_help_are_printed(project: Project) -> None:
    assert project.run("--version").stdout.startswith("agentv ")
    text = project.run("--help").stdout
    assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(project: Project, name: str) -> None:
    done = project.run(name, "--help")
    assert done.returncode == 0
    assert "Usage: agentv" in done.stdout


def test_unknown_command_suggests_a_similar_one(project: Project) -> None:
    done = project.run("evl")
    assert done.returncode == 2
    assert "did you mean 'eval'?" in done.stderr


# -- init


def test_init_creates_suites_that_pass_offline(project: Project) -> None:
    assert project.run("init").returncode == 0
    assert project.run("validate", "evals").returncode == 0
    done = project.run("eval", "evals/hello.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_init_prints_how_to_run_and_rejects_a_file_as_path(project: Project) -> None:
    done = project.run("init", "--path", "my evals")
    assert "cd 'my evals' && agentv eval\n" in done.stdout
    refused = project.run("init", "--path", "my evals/agentv.config.yaml")
    assert refused.returncode == 2
    assert "--path must be a directory, got the file my evals/agentv.config.yaml" in refused.stderr


def test_init_does_not_overwrite_without_force(project: Project) -> None:
    project.write("agentv.config.yaml", "mine\n")
    done = project.run("init")
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (project.root / "agentv.config.yaml").read_text() == "mine\n"
    assert not (project.root / "evals").exists()
    assert project.run("init", "--force").returncode == 0
    assert (project.root / "agentv.config.yaml").read_text() != "mine\n"


def test_init_asks_before_overwriting_on_a_terminal(project: Project) -> None:
    project.write("agentv.config.yaml", "mine\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*AGENTV, "init"],
        cwd=project.root,
        env=project.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 30
    while b"Overwrite it?" not in shown and time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 4096)
    os.write(ours, b"n\n")
    assert process.wait(30) == 0
    os.close(ours)
    assert (project.root / "agentv.config.yaml").read_text() == "mine\n"
    assert (project.root / "evals" / "hello.yaml").exists()


# -- validate


def test_validate_reports_every_problem_of_every_file(capitals: Project) -> None:
    judged = "evaluators: [{type: contains, value: x}]"
    capitals.write("one.yaml", f"evalcases:\n  - {{id: a, inptu: x, {judged}}}\n  - {{input: y, {judged}}}\n")
    capitals.write("two.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contain}]}]\n")
    done = capitals.run("validate", "capitals.yaml", "one.yaml", "two.yaml")
    assert done.returncode == 2
    heads = [line for line in done.stderr.splitlines() if ".yaml:" in line]
    assert heads[0].startswith("one.yaml:2:13: unknown key `inptu` (did you mean `input`?)")
    assert heads[1].startswith("one.yaml:3:5: `id` is missing")
    assert heads[2].startswith("two.yaml:1:51: unknown evaluator type 'contain' (did you mean `contains`?)")
    assert "^" in done.stderr
    assert done.stdout == ""


def test_validate_reports_counts_for_valid_files(capitals: Project) -> None:
    done = capitals.run("validate", "capitals.yaml", "agentv.config.yaml")
    assert (done.returncode, done.stdout.strip()) == (0, "ok: 1 suite, 3 cases, 1 configuration, no problems")


def test_validate_checks_the_configuration(capitals: Project) -> None:
    capitals.write("agentv.config.yaml", "targets: {scripted: {provider: mock, respons: x}}\n")
    for arguments in (["capitals.yaml"], ["agentv.config.yaml"], ["capitals.yaml", "agentv.config.yaml"]):
        done = capitals.run("validate", *arguments)
        assert done.returncode == 2
        assert done.stderr.count("agentv.config.yaml:1:38: unknown key `respons`") == 1


def test_validate_accepts_missing_environment_variables(capitals: Project) -> None:
    capitals.write("agentv.config.yaml", "targets: {a: {provider: openai, model: m, api_key: '${{ NO_SUCH }}'}}\n")
    assert capitals.run("validate", "capitals.yaml").returncode == 0


CASE = "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x%s}]}]"
MISTAKEN = {
    "unknown target": "execution: {target: missing}\n" + CASE % "",
    "unknown judge": "execution: {judge_target: no}\n" + CASE % "",
    "no cases": "evalcases: []",
    "not yaml": "evalcases: [",
    "duplicate id": "evalcases: [{id: a, input: x, evaluators: []}, {id: a, input: y, evaluators: []}]",
    "negative weight": CASE % ", weight: -1",
    "infinite weight": CASE % ", weight: .inf",
    "text as flag": CASE % ", required: 'yes'",
    "missing file": "evalcases: [{id: a, input: [{role: user, content: [{type: file, value: gone.md}]}]}]",
}


@pytest.mark.parametrize("text", MISTAKEN.values(), ids=MISTAKEN.keys())
def test_validate_rejects_exactly_what_eval_rejects(capitals: Project, text: str) -> None:
    capitals.write("wrong.yaml", text + "\n")
    validated, evaluated = capitals.run("validate", "wrong.yaml"), capitals.run("eval", "wrong.yaml")
    assert (validated.returncode, evaluated.returncode) == (2, 2)
    first = next(line for line in validated.stderr.splitlines() if line.startswith("wrong.yaml:"))
    assert first in evaluated.stderr
    assert capitals.run_dirs() == []


# -- schema


def test_unknown_judge_target_is_reported_at_the_evaluator(capitals: Project) -> None:
    capitals.write(
        "suite.yaml",
        "execution:\n  evaluators:\n    - {type: is_json}\n    - {name: tone, type: llm_judge, judge_target: missing}\n"
        "evalcases:\n  - {id: a, input: x}\n  - {id: b, input: x}\n  - id: c\n    input: x\n    evaluators+:\n"
        "      - {name: own, type: rubric, rubrics: [brief], judge_target: noone}\n",
    )
    told = capitals.run("validate", "suite.yaml").stderr
    assert "suite.yaml:4:7: evaluator 'tone' names the unknown target 'missing'" in told
    assert "suite.yaml:8:1: evaluator 'own' names the unknown target 'noone'" in told
    assert told.count("names the unknown target") == 2
    assert capitals.run("eval", "suite.yaml").stderr == told


def test_schemas_accept_valid_files_and_reject_invalid_ones(capitals: Project) -> None:
    schemas = json.loads(capitals.run("schema").stdout)
    assert set(schemas) == {"suite", "config"}
    for name, file in (("suite", "capitals.yaml"), ("config", "agentv.config.yaml")):
        jsonschema.Draft202012Validator.check_schema(schemas[name])
        validator = jsonschema.Draft202012Validator(schemas[name])
        data = yaml.safe_load((capitals.root / file).read_text())
        assert list(validator.iter_errors(data)) == []
        assert list(validator.iter_errors({**data, "unknown": 1}))
    suite = jsonschema.Draft202012Validator(schemas["suite"])
    assert list(suite.iter_errors({"evalcases": [{"id": "a", "input": "x", "evaluators": [{"type": "nope"}]}]}))
    assert list(
        suite.iter_errors(
            {"evalcases": [{"id": "a", "input": "x", "evaluators": [{"type": "contains", "vlaue": "x"}]}]}
        )
    )
    assert list(suite.iter_errors({"evalcases": [{"input": "x"}]}))
    config = jsonschema.Draft202012Validator(schemas["config"])
    assert list(config.iter_errors({"targets": {"a": {"provider": "mock", "respons": "x"}}}))
    assert not list(config.iter_errors({"targets": [{"name": "a", "provider": "mock", "response": "x"}]}))
    assert not list(config.iter_errors({"targets": {"a": {"provider": "mock", "delay_ms": "${{ MS }}"}}}))


def test_schema_only_prints_a_single_schema(project: Project) -> None:
    assert json.loads(project.run("schema", "--only", "suite").stdout)["title"] == "agentv eval suite"


# -- targets


def test_targets_lists_ready_targets_and_missing_variables(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          scripted: {provider: mock, response: x, judge_target: strict}
          strict: {provider: openai, model: gpt-4o, api_key: '${{ STRICT_KEY }}'}
        defaults: {target: scripted}
        """,
    )
    text = project.run("targets", env={"STRICT_KEY": ""}).stdout
    assert "STRICT_KEY is not set" in text
    rows = json.loads(project.run("targets", "--json", env={"STRICT_KEY": "k" * 20}).stdout)
    assert [(row["name"], row["provider"], row["model"], row["ready"], row["judge"]) for row in rows] == [
        ("scripted", "mock", None, True, "strict"),
        ("strict", "openai", "gpt-4o", True, "strict"),
    ]


def test_targets_without_configuration_suggests_init(project: Project) -> None:
    done = project.run("targets")
    assert done.returncode == 2
    assert "agentv init" in done.stderr


# -- a live bar on a real terminal


def test_terminal_shows_live_progress_and_colored_summary(capitals: Project) -> None:
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in capitals.environment().items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*AGENTV, "eval", "capitals.yaml"],
        cwd=capitals.root,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    assert process.wait(30) == 1
    os.close(ours)
    assert b"2 of 3 cases did not pass" in shown
    assert b"\x1b[" in shown


def test_closed_output_pipe_does_not_crash(capitals: Project, tmp_path: Path) -> None:
    command = f"{' '.join(AGENTV)} schema | head -1 > /dev/null"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=capitals.root,
        env=capitals.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("arguments", ["schema", "report rows.jsonl", "compare rows.jsonl rows.jsonl", "--help"])
def test_full_disk_is_reported_in_one_line(project: Project, arguments: str) -> None:
    write_rows(project.root / "rows.jsonl", [row("a")])
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [*AGENTV, *arguments.split()],
            cwd=project.root,
            env=project.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode in (2, 3)
    assert "no space left on device" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_run_works_with_closed_standard_streams(capitals: Project, closed: str) -> None:
    command = f"{' '.join(AGENTV)} eval capitals.yaml --out rows.jsonl {closed}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=capitals.root,
        env=capitals.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = (capitals.root / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["eval_id"] for line in lines) == ["france", "italy", "spain"]


@pytest.mark.parametrize("option", ["--max-cost", "--timeout", "--threshold"])
def test_run_limits_must_be_finite_numbers(capitals: Project, option: str) -> None:
    done = capitals.run("eval", "capitals.yaml", option, "nan")
    assert done.returncode == 2
    assert "nan is not a finite number." in done.stderr
    assert capitals.run_dirs() == []
