"""Suites as tests, in a separate pytest process."""

from __future__ import annotations

import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping

import pytest

from tests.conftest import Project, signals_heard

CONFIG = """\
targets:
  scripted:
    provider: mock
    rules:
      - {match: France, response: The capital is Paris.}
      - {match: Oops, error: the model exploded}
    response: I do not know.
  other: {provider: mock, response: Madrid}
defaults: {target: scripted}
"""
CAPITALS = """\
evalcases:
  - id: france
    input: What is the capital of France?
    evaluators:
      - {type: contains, value: Paris}
  - id: spain
    input: What is the capital of Spain?
    expected_outcome: The answer names Madrid.
    tags: [south]
    evaluators:
      - {name: names-madrid, type: contains, value: Madrid}
      - {type: regex, pattern: "know"}
"""
OOPS = """\
evalcases:
  - id: oops
    input: Oops
    evaluators:
      - {type: contains, value: Paris}
"""


@pytest.fixture
def evals(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("evals/capitals.yaml", CAPITALS)
    project.write("evals/not_a_suite.yaml", "cases:\n  evalcases: none\n")
    return project


def command(*arguments: str) -> list[str]:
    plugins = ["-p", "agentv.testing.plugin", *(["-p", "xdist"] if "-n" in arguments else [])]
    return [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "-W", "error", *arguments]


def environment(project: Project, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    own = {name: value for name, value in project.environment(extra).items() if not name.startswith(("PYTEST", "COV_"))}
    return {**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": "1"}


def run_pytest(
    project: Project, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=project.root,
        env=environment(project, env),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_failed_case_is_reported_with_question_answer_and_reason(evals: Project) -> None:
    evals.write("evals/more/oops.yaml", OOPS)
    done = run_pytest(evals, "evals/", "--junitxml=junit.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed, 1 error" in done.stdout
    (run,) = evals.run_dirs()
    text = done.stdout
    assert "spain: fail, score 0.50, needs 0.80, evals/capitals.yaml:6, target scripted" in text
    assert "question  What is the capital of Spain?" in text
    assert "expected  The answer names Madrid." in text
    assert "answer    I do not know." in text
    assert "names-madrid (contains): fail, score 0.00" in text
    assert "regex (regex)" not in text, "only evaluators that did not pass are shown"
    assert f"agentv show {run.name} capitals/spain" in text
    assert "FAILED evals/capitals.yaml::spain - names-madrid: does not contain 'Madrid'" in text
    assert "ERROR evals/more/oops.yaml::oops - target 'scripted': the model exploded" in text
    assert "oops: errored, not judged (target error)" in text
    assert "Traceback" not in text
    assert "site-packages" not in text
    assert f"run: .agentv/runs/{run.name}" in text
    assert {row["eval_id"] for row in evals.rows(run)} == {"france", "spain", "oops"}
    assert evals.manifest(run)["status"] == "finished"
    assert evals.run("show", run.name, "capitals/spain").returncode == 0
    root = ET.parse(evals.root / "junit.xml").getroot()
    failure = root.find(".//testcase[@name='spain']/failure")
    assert failure is not None
    assert "does not contain 'Madrid'" in failure.attrib["message"]
    assert root.find(".//testcase[@name='oops']/error") is not None


@pytest.mark.parametrize("arguments", [["evals/capitals.yaml::spain"], ["evals", "-k", "south"]])
def test_only_selected_cases_are_run(evals: Project, arguments: list[str]) -> None:
    done = run_pytest(evals, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [row["eval_id"] for row in evals.rows()] == ["spain"]


def test_each_target_and_all_attempts_of_a_case_are_one_test(evals: Project) -> None:
    evals.write(
        "evals/capitals.yaml",
        CAPITALS.replace("evalcases:", "execution: {trials: {count: 2, pass_if: all}}\nevalcases:"),
    )
    done = run_pytest(evals, "evals", "-v", "--agentv-target", "scripted", "--agentv-target", "other", "-k", "spain")
    assert "evals/capitals.yaml::spain[scripted] FAILED" in done.stdout, done.stdout + done.stderr
    assert "evals/capitals.yaml::spain[other]" in done.stdout
    assert "2 of 2 attempts did not pass" in done.stdout
    assert len(evals.rows()) == 4


def test_suite_error_is_a_collection_error_with_its_place(evals: Project) -> None:
    evals.write("evals/broken.yaml", "evalcases:\n  - id: a\n    inptu: x\n")
    done = run_pytest(evals, "evals")
    assert done.returncode == 2
    assert "evals/broken.yaml:3:5: unknown key `inptu`" in done.stdout, done.stdout
    assert "ERROR evals/broken.yaml" in done.stdout
    assert evals.run_dirs() == []


def test_unknown_target_is_a_collection_error(evals: Project) -> None:
    done = run_pytest(evals, "evals", "--agentv-target", "othr")
    assert done.returncode == 2
    assert "did you mean `other`?" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("arguments", "collected"),
    [
        ([], 0),
        (["-o", "agentv_collect=true"], 2),
        (["-o", "testpaths=evals"], 2),
        (["evals", "-o", "agentv_collect=false"], 0),
    ],
)
def test_suites_are_collected_in_named_paths(evals: Project, arguments: list[str], collected: int) -> None:
    done = run_pytest(evals, "--collect-only", "-q", *arguments)
    assert done.stdout.count("::") == collected, done.stdout + done.stderr
    assert evals.run_dirs() == []


def test_other_test_runs_import_nothing_heavy(evals: Project) -> None:
    evals.write("evals/data.yaml", "a: 1\n")
    evals.write(
        "evals/test_modules.py",
        "import sys\n\ndef test_it():\n    assert not {'pydantic', 'yaml', 'agentv.plan'} & set(sys.modules)\n",
    )
    (evals.root / "evals/capitals.yaml").unlink()
    done = run_pytest(evals, "evals", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agentv" not in done.stdout


def test_other_tests_do_not_run_during_the_run(evals: Project) -> None:
    evals.write(
        "evals/test_afterwards.py",
        """\
        import json, os, pathlib

        def test_run_has_finished(monkeypatch, tmp_path):
            (manifest,) = pathlib.Path(".agentv/runs").glob("*/run.json")
            assert json.loads(manifest.read_text())["status"] == "finished"
            monkeypatch.chdir(tmp_path)
        """,
    )
    done = run_pytest(evals, "evals/capitals.yaml::france", "evals/test_afterwards.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_workers_of_xdist_share_one_run(evals: Project) -> None:
    evals.write("evals/oops.yaml", OOPS)
    cases = "".join(
        f"  - {{id: n{n}, input: France, evaluators: [{{type: contains, value: Paris}}]}}\n" for n in range(8)
    )
    evals.write("evals/many.yaml", f"evalcases:\n{cases}")
    done = run_pytest(evals, "evals", "-n", "2")
    assert "1 failed, 9 passed, 1 error" in done.stdout, done.stdout + done.stderr
    (run,) = evals.run_dirs()
    assert len(evals.rows(run)) == 11
    assert f"run: .agentv/runs/{run.name}" in done.stdout
    assert "FAILED evals/capitals.yaml::spain - names-madrid: does not contain 'Madrid'" in done.stdout
    plain = run_pytest(evals, "-n", "2")
    assert plain.returncode == 5, "without paths, suites are not collected by the workers, either"


def test_workers_of_xdist_do_not_wait_for_a_run_that_failed(evals: Project) -> None:
    evals.write(
        "conftest.py",
        """\
        from agentv.recorded import RecordedRun

        async def run(self, hooks):
            raise OSError("disk full")

        RecordedRun.run = run
        """,
    )
    done = run_pytest(evals, "evals", "-n", "2", "--dist", "each")
    assert "OSError: disk full" in done.stdout, done.stdout
    assert "france was not run" in done.stdout, done.stdout
    assert "4 errors" in done.stdout, done.stdout


def test_same_case_in_two_suites_of_a_name_is_an_error_of_all_cases(evals: Project) -> None:
    evals.write("evals/more/capitals.yaml", CAPITALS)
    done = run_pytest(evals, "evals")
    assert "4 errors" in done.stdout, done.stdout
    assert "set `dataset:` in one" in done.stdout


SLOW = CONFIG.replace("{match: Oops, error: the model exploded}", "{match: Oops, delay_ms: 100000, response: late}")


def test_first_failure_stops_the_run(evals: Project) -> None:
    evals.write("agentv.config.yaml", SLOW)
    evals.write("evals/oops.yaml", OOPS)
    done = run_pytest(evals, "evals", "-x")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert evals.manifest()["status"] == "interrupted"


def test_interrupt_stops_the_run_and_keeps_its_rows(evals: Project) -> None:
    evals.write("agentv.config.yaml", SLOW)
    evals.write("evals/oops.yaml", OOPS)
    with signals_heard():
        process = subprocess.Popen(
            command("evals", "-v"),
            cwd=evals.root,
            env=environment(evals),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    assert process.stdout is not None
    printed = ""
    while "spain FAILED" not in printed:
        line = process.stdout.readline()
        assert line, printed
        printed += line
    process.send_signal(signal.SIGINT)
    printed += process.communicate(timeout=60)[0]
    assert process.returncode == 2, printed
    (run,) = evals.run_dirs()
    assert evals.manifest(run)["status"] == "interrupted"
    assert {row["eval_id"] for row in evals.rows(run)} == {"france", "spain"}
    assert f"to resume it: agentv eval --resume {run.name}" in printed


def test_suite_with_tests_is_collected_in_a_directory_named_evals(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {a: {provider: mock, response: x}}\n")
    project.write("evals/suite.yaml", "tests: [{id: c, input: y, evaluators: [{type: contains, value: x}]}]\n")
    done = run_pytest(project, "evals/")
    assert "1 passed" in done.stdout, done.stdout


def test_suite_with_prompts_is_collected_once_per_variant_and_files_of_other_tools_are_not(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {a: {provider: mock, response: x}}\n")
    check = "[{type: contains, value: x}]"
    project.write("plain.yaml", f"evalcases: [{{id: c, input: y, evaluators: {check}}}]\n")
    project.write("suite.yaml", f"prompts: [Good, Bad]\nevalcases: [{{id: c, evaluators: {check}}}]\n")
    project.write("tests/other_tool.yaml", "suite: x\ntests: [{it: works}]\n")
    project.write("tests/test_own.py", "def test_own(): pass\n")
    done = run_pytest(project, "plain.yaml", "suite.yaml", "tests")
    assert "4 passed" in done.stdout, done.stdout
