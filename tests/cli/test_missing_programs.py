"""Programs, scripts and files that do not exist are errors of `validate` and `eval`, before anything is called."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from tests.conftest import Project

SCRIPTS: dict[str, tuple[dict[str, Any], str]] = {
    "script": ({"script": ["python", "judges/precison.py"]}, "there is no file 'judges/precison.py' in"),
    "did you mean": ({"script": ["python", "judges/precison.py"]}, "(did you mean `judges/precision.py`?)"),
    "script after options": ({"script": ["python", "-u", "-W", "ignore", "gone.py"]}, "there is no file 'gone.py'"),
    "a string": ({"script": "python judges/gone.py"}, "there is no file 'judges/gone.py'"),
    "shell script": ({"script": ["bash", "-e", "judges/gone.sh"]}, "there is no file 'judges/gone.sh'"),
    "in cwd": (
        {"script": ["python", "judges/precision.py"], "cwd": "judges"},
        "there is no file 'judges/precision.py'",
    ),
    "cwd": ({"script": ["python", "precision.py"], "cwd": "nowhere"}, "nowhere does not exist"),
    "program": ({"script": ["no-such-program-here"]}, "`no-such-program-here`: program not found on PATH"),
    "misspelled program": ({"script": ["bahs", "x.sh"]}, "program not found on PATH (did you mean `"),
    "path of the entry": ({"script": ["sh", "-c", "true"], "env": {"PATH": "/nowhere"}}, "`sh`: program not found"),
    "relative program": ({"script": ["./gone.sh"]}, "gone.sh does not exist"),
    "execute bit": ({"script": ["./judges/plain.sh"]}, "plain.sh is not executable; run `chmod +x "),
    "interpreter first": ({"script": ["precision.py"], "cwd": "judges"}, "write `[python, precision.py]`"),
    "shebang": (
        {"script": ["judges/shebang.sh"]},
        "the interpreter in its `#!` line, /no/such/interpreter, is missing",
    ),
    "env shebang": ({"script": ["judges/env.sh"]}, "the interpreter in its `#!` line, no-such-interpreter, is not on"),
    "warm": ({"script": ["python", "gone.py"], "warm": True}, "there is no file 'gone.py'"),
    "jsonl": ({"script": ["python", "gone.py"], "protocol": "jsonl"}, "there is no file 'gone.py'"),
    "judge access": ({"script": ["python", "gone.py"], "judge": True}, "there is no file 'gone.py'"),
}

CERTAIN_ENOUGH: dict[str, dict[str, Any]] = {
    "shell text": {"script": ["sh", "-c", "python gone.py"]},
    "shell text after options": {"script": ["bash", "-ec", "gone.sh"]},
    "module": {"script": ["python", "-m", "no_such_module", "gone.py"]},
    "code": {"script": ["python", "-c", "print(1)", "gone.py"]},
    "code with a cluster of options": {"script": ["python", "-Ic", "gone.py"]},
    "stdin": {"script": ["python", "-", "gone.py"]},
    "a long option": {"script": ["python", "--check-hash-based-pycs", "default", "judges/precision.py"]},
    "argument of a script": {"script": ["python", "judges/precision.py", "gone.py"]},
    "in cwd": {"script": ["python", "precision.py"], "cwd": "judges"},
    "another program": {"script": ["env", "python3", "gone.py"]},
    "path of the entry": {"script": ["mine"], "env": {"PATH": "TOOLS"}},
    "a shell's PATH": {"script": ["sh", "mine"]},
    "executable": {"script": ["./tools/mine"]},
}


def _write(project: Project, evaluators: list[dict[str, Any]], **target: Any) -> None:
    project.write("judges/precision.py", "print('{\"score\": 1}')\n")
    project.write("judges/plain.sh", "#!/bin/sh\n")
    project.write("judges/shebang.sh", "#!/no/such/interpreter\n").chmod(0o755)
    project.write("judges/env.sh", "#!/usr/bin/env no-such-interpreter\n").chmod(0o755)
    project.write("tools/mine", "#!/bin/sh\necho '{\"score\": 1}'\n").chmod(0o755)
    project.write("app.py", "open('called', 'a').write('x'); print('Paris')\n")
    settings = {"provider": "cli", "command": ["python", "app.py", "{PROMPT}"], **target}
    project.write("agentv.config.yaml", json.dumps({"targets": {"app": settings}}))
    case = {"id": "a", "input": "The capital of France?", "evaluators": evaluators}
    project.write("suite.yaml", json.dumps({"evalcases": [case]}))


def _assert_refused(project: Project, message: str, *, file: str = "suite.yaml", options: tuple[str, ...] = ()) -> None:
    """Both commands exit with code 2 and print the message with its position; no target was called."""
    for command in (("validate", "suite.yaml"), ("eval", "suite.yaml", *options)):
        done = project.run(*command)
        assert done.returncode == 2, done.stdout + done.stderr
        assert message in done.stderr
        assert re.search(rf"^{re.escape(file)}:1:\d\d+: ", done.stderr, re.MULTILINE), done.stderr
    assert not (project.root / "called").exists()
    assert not project.run_dirs()


@pytest.mark.parametrize("name", SCRIPTS)
def test_missing_script_or_program_of_an_evaluator_is_an_error(project: Project, name: str) -> None:
    options, message = SCRIPTS[name]
    _write(project, [{"name": "judge", "type": "code_judge", **options}])
    _assert_refused(project, message)


def test_missing_scripts_of_composites_and_of_the_suite_are_errors(project: Project) -> None:
    member = {"name": "member", "type": "code_judge", "script": ["python", "gone-1.py"]}
    aggregator = {"type": "code_judge", "script": ["python", "gone-2.py"]}
    _write(project, [{"type": "composite", "evaluators": [member], "aggregator": aggregator}])
    suite = json.loads((project.root / "suite.yaml").read_text())
    suite["execution"] = {"evaluators": [{"name": "s", "type": "code_judge", "script": ["python", "gone-3.py"]}]}
    project.write("suite.yaml", json.dumps(suite))
    done = project.run("validate", "suite.yaml")
    assert (done.returncode, done.stderr.count("there is no file 'gone-")) == (2, 3)
    _assert_refused(project, "gone-2.py")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_commands_that_may_work_are_accepted(project: Project) -> None:
    evaluators = [{"name": name, "type": "code_judge", **options} for name, options in CERTAIN_ENOUGH.items()]
    _write(project, evaluators)
    suite = (project.root / "suite.yaml").read_text().replace("TOOLS", str(project.root / "tools"))
    project.write("suite.yaml", suite)
    done = project.run("validate", "suite.yaml")
    assert done.returncode == 0, done.stderr


CONTAINS = {"type": "contains", "value": "Paris"}
TARGETS: dict[str, tuple[dict[str, Any], str]] = {
    "script": ({"command": ["python", "gone.py", "{PROMPT}"]}, "target 'app': there is no file 'gone.py'"),
    "a string": ({"command": "python gone.py '{PROMPT}'"}, "target 'app': there is no file 'gone.py'"),
    "program": ({"command": ["no-such-program-here", "{PROMPT}"]}, "program not found on PATH"),
    "execute bit": ({"command": ["./judges/plain.sh"]}, "is not executable; run `chmod +x "),
    "path of the entry": ({"env": {"PATH": "/nowhere"}, "command": ["sh", "-c", "true"]}, "`sh`: program not found"),
    "cwd": ({"cwd": "nowhere"}, "nowhere does not exist"),
    "health check": ({"healthcheck": {"type": "command", "command": ["./gone.sh"]}}, "gone.sh does not exist"),
    "recorded answers": (
        {"provider": "replay", "file": "gone.jsonl", "command": None},
        "there is no file 'gone.jsonl'",
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_missing_program_of_a_target_is_an_error(project: Project, name: str) -> None:
    settings, message = TARGETS[name]
    _write(project, [CONTAINS])
    config = json.loads((project.root / "agentv.config.yaml").read_text())
    merged = {**config["targets"]["app"], **settings}
    config["targets"]["app"] = {key: value for key, value in merged.items() if value is not None}
    project.write("agentv.config.yaml", json.dumps(config))
    _assert_refused(project, message, file="agentv.config.yaml")


def test_missing_program_of_a_judge_target_is_an_error(project: Project) -> None:
    _write(project, [{"type": "llm_judge"}])
    config = json.loads((project.root / "agentv.config.yaml").read_text())
    config["targets"]["strict"] = {"provider": "cli", "command": ["./gone.sh"]}
    config["defaults"] = {"target": "app", "judge_target": "strict"}
    project.write("agentv.config.yaml", json.dumps(config))
    _assert_refused(project, "target 'strict': could not start `./gone.sh`", file="agentv.config.yaml")


def test_targets_that_the_run_does_not_call_may_be_broken(project: Project) -> None:
    _write(project, [CONTAINS])
    config = json.loads((project.root / "agentv.config.yaml").read_text())
    config["targets"]["broken"] = {"provider": "cli", "command": ["./gone.sh"]}
    config["defaults"] = {"target": "app"}
    project.write("agentv.config.yaml", json.dumps(config))
    assert project.run("validate", "suite.yaml").returncode == 0
    assert project.run("eval", "suite.yaml").returncode == 0
    assert project.run("eval", "suite.yaml", "--target", "broken").returncode == 2


def test_recorded_answers_need_no_target_but_their_scripts(project: Project) -> None:
    _write(project, [CONTAINS], command=["./gone.sh"])
    project.write("answers.jsonl", '{"eval_id": "a", "candidate_answer": "Paris"}\n')
    assert project.run("eval", "suite.yaml", "--outputs", "answers.jsonl").returncode == 0
    _write(project, [{"type": "code_judge", "script": ["python", "gone.py"]}])
    refused = project.run("eval", "suite.yaml", "--outputs", "answers.jsonl")
    assert (refused.returncode, "there is no file 'gone.py'" in refused.stderr) == (2, True)


def test_resume_searches_for_scripts_too(project: Project) -> None:
    _write(project, [{"type": "code_judge", "script": ["python", "judges/precision.py"]}])
    assert project.run("eval", "suite.yaml", "--run-dir", "run").returncode == 0
    (project.root / "run" / "results.jsonl").write_text("")
    (project.root / "judges" / "precision.py").unlink()
    resumed = project.run("eval", "--resume", "run")
    assert (resumed.returncode, "there is no file 'judges/precision.py'" in resumed.stderr) == (2, True)


def test_script_that_disappears_during_the_run_is_an_error_of_its_evaluator(project: Project) -> None:
    """The suite is read again during the run; only validation searches for scripts."""
    _write(project, [{"type": "code_judge", "script": ["./tools/mine"]}, {**CONTAINS, "name": "paris"}])
    project.write("app.py", "import os; os.remove('tools/mine'); print('Paris')\n")
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 3, done.stderr
    (row,) = project.rows()
    assert [bool(result["error"]) for result in row["evaluator_results"]] == [True, False]
    assert "mine does not exist" in row["error"]["message"]
