"""`python` of an evaluator: another interpreter, or packages that agentv installs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import agentv
from agentv.redact import MASK
from tests.conftest import Project
from tests.interpreters.support import cache, requirement, result_of, user_python, wheel, write_project

__all__ = ["cache"]


@pytest.mark.parametrize(
    "options", [{}, {"judge": True}, {"judge": True, "warm": True}], ids=["plain", "judge access", "warm"]
)
def test_script_runs_with_the_interpreter_of_the_user_and_only_the_sdk(
    project: Project, cache: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    python = user_python(project.root / ".venv", wheel(tmp_path))
    write_project(project, python=".venv/bin/python", execution={"judge_target": "t"}, **options)
    ended = project.run("eval", "suite.yaml", env={"PYTHONPATH": "/nowhere"})
    assert ended.returncode == 0, ended.stderr
    result = result_of(project)
    assert result["reasoning"] == "shapes 1.0"
    assert result["details"]["python"] == str(python)
    assert result["details"]["agentv packages"] is False
    assert result["warnings"] == []
    assert Path(result["details"]["sdk"]).is_relative_to(cache / "sdk")
    recorded = project.manifest()["interpreters"][str(python)]
    assert recorded["packages"] == {"shapes": "1.0"}
    assert not (cache / "environments").exists()


def test_sdk_that_the_user_has_installed_is_used(project: Project, cache: Path, tmp_path: Path) -> None:
    own = wheel(tmp_path, "9.9", "agentv_eval")
    python = user_python(project.root / ".venv", own)
    write_project(project, python=".venv/bin/python")
    project.write(
        "judge.py", "import agentv_eval, json\nprint(json.dumps({'score': 1, 'hits': [agentv_eval.VERSION]}))"
    )
    ended = project.run("eval", "suite.yaml")
    assert ended.returncode == 0, ended.stderr
    assert result_of(project)["hits"] == ["agentv_eval 9.9"]
    assert project.manifest()["interpreters"][str(python)]["packages"] == {"agentv_eval": "9.9"}
    assert not cache.exists()


def test_packages_are_installed_once_before_anything_is_called(project: Project, cache: Path, tmp_path: Path) -> None:
    shapes = requirement(wheel(tmp_path))
    write_project(project, python=[shapes])
    validated = project.run("validate", "suite.yaml")
    assert (validated.returncode, cache.exists()) == (0, False)
    first = project.run("eval", "suite.yaml", env={"MY_TOKEN": "x"})
    assert first.returncode == 0, first.stderr
    assert f"installing 1 package for 'shape' ({shapes}) ..." in first.stderr
    (environment,) = [path for path in (cache / "environments").iterdir() if path.is_dir()]
    result = result_of(project)
    assert result["reasoning"] == "shapes 1.0"
    assert result["details"]["python"] == str(environment / "bin" / "python")
    recorded = project.manifest()["interpreters"][shapes]
    assert recorded["requirements"] == [shapes]
    assert recorded["packages"]["shapes"] == "1.0"
    before = (environment / "agentv.json").stat().st_mtime_ns
    again = project.run("eval", "suite.yaml")
    assert "installing" not in again.stderr
    assert (environment / "agentv.json").stat().st_mtime_ns > before


def test_failed_installation_runs_nothing_and_leaves_nothing(project: Project, cache: Path) -> None:
    write_project(project, python=["nonexistent-shapes==1"])
    ended = project.run("eval", "suite.yaml")
    assert ended.returncode == 2
    assert (
        "the packages for 'shape' could not be installed (nonexistent-shapes==1): pip exited with code 1"
        in ended.stderr
    )
    assert "No matching distribution found for nonexistent-shapes==1" in ended.stderr
    assert "such as `.venv/bin/python`. Nothing was run." in ended.stderr
    assert not project.run_dirs()
    assert [path.suffix for path in (cache / "environments").iterdir()] == [".lock"]


def test_installer_gets_no_secrets_and_its_output_is_masked(project: Project, cache: Path) -> None:
    write_project(project, python=["shapes"])
    project.write("agentv.config.yaml", "targets: {t: {provider: anthropic, model: m, api_key: '${{ MY_KEY }}'}}\n")
    program = project.write("bin/uv", "#!/bin/sh\necho key=[$MY_KEY] other=[$OTHER]\necho sk-very-secret-1\nexit 3\n")
    program.chmod(0o700)
    path = f"{program.parent}:/usr/bin:/bin"
    ended = project.run("eval", "suite.yaml", env={"MY_KEY": "sk-very-secret-1", "OTHER": "x", "PATH": path})
    assert ended.returncode == 2, ended.stderr
    assert f"uv exited with code 3:\nkey=[] other=[x]\n{MASK}" in ended.stderr
    assert "sk-very" not in ended.stderr


def test_changed_packages_refuse_to_resume(project: Project, cache: Path, tmp_path: Path) -> None:
    user_python(project.root / ".venv", wheel(tmp_path))
    write_project(project, python=".venv/bin/python")
    assert project.run("eval", "suite.yaml").returncode == 0
    user_python(project.root / ".venv", wheel(tmp_path, "2.0"))
    info = next((project.root / ".venv").rglob("shapes-1.0.dist-info"))
    for file in info.iterdir():
        file.unlink()
    info.rmdir()
    ended = project.run("eval", "--resume", "latest")
    assert ended.returncode == 2
    assert ".venv/bin/python): shapes 1.0 -> 2.0" in ended.stderr
    assert project.run("eval", "--resume", "latest", "--allow-changed").returncode == 0


def test_requirements_file_is_read_and_its_contents_count(project: Project, cache: Path, tmp_path: Path) -> None:
    write_project(project, python="requirements.txt")
    project.write("requirements.txt", "-r more/own.txt\n")
    project.write("more/own.txt", f"{requirement(wheel(tmp_path))}\n")
    assert project.run("eval", "suite.yaml").returncode == 0
    assert result_of(project)["reasoning"] == "shapes 1.0"
    assert str(project.root / "more" / "own.txt") in project.manifest()["digests"]
    project.write("more/own.txt", f"{requirement(wheel(tmp_path, '1.1'))}\n")
    refused = project.run("eval", "--resume", "latest")
    assert (refused.returncode, "own.txt has changed" in refused.stderr) == (2, True)
    assert project.run("eval", "suite.yaml").returncode == 0
    assert result_of(project)["reasoning"] == "shapes 1.1"


def test_default_of_the_suite_applies_to_python_scripts_only(project: Project, cache: Path, tmp_path: Path) -> None:
    python = user_python(project.root / ".venv", wheel(tmp_path))
    shell = {"name": "shell", "type": "code_judge", "script": ["sh", "-c", "echo '{\"score\": 1}'"]}
    ready = {"name": "tool_correctness", "type": "metric", "expected": [{"tool": "x"}]}
    own = {"name": "shape", "type": "code_judge", "script": "python judge.py"}
    nested = {"name": "both", "type": "composite", "evaluators": [own]}
    write_project(project, execution={"python": ".venv/bin/python", "evaluators": [shell, ready, nested]})
    project.run("eval", "suite.yaml")
    results = {each["name"]: each for each in project.rows()[-1]["evaluator_results"]}
    assert [each["error"] for each in results.values()] == [None] * 3
    (inner,) = results["both"]["evaluator_results"]
    assert inner["details"]["python"] == str(python)


def test_script_runs_on_the_driver_while_others_run_on_nodes(project: Project, cache: Path, tmp_path: Path) -> None:
    python = user_python(project.root / ".venv", wheel(tmp_path))
    write_project(project, python=".venv/bin/python")
    own = {"name": "shape", "type": "code_judge", "script": "python judge.py", "python": ".venv/bin/python"}
    plain = {"name": "plain", "type": "code_judge", "script": "python plain.py"}
    project.write("plain.py", "print('{\"score\": 1}')")
    write_project(project, execution={"evaluators": [own, plain]})
    ended = project.run("eval", "suite.yaml", "--on", "local:1")
    assert ended.returncode == 0, ended.stderr
    shape, other = project.rows()[-1]["evaluator_results"]
    assert (shape["details"]["python"], shape.get("execution")) == (str(python), None)
    assert other["execution"]["node"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"python": ".venv/bin/pyton"}, "`python`: there is no file '.venv/bin/pyton' in "),
        ({"python": ".venv"}, "`python`: '.venv' is a directory, not an interpreter; write `.venv/bin/python`"),
        ({"python": "shapes"}, "a requirement must be in a list: `[shapes]`"),
        ({"python": []}, "`python` must list at least one requirement"),
        ({"python": ["a b"]}, "'a b' is not a requirement (Expected"),
        ({"python": ["--index-url=http://x"]}, "is an option of pip"),
        ({"python": ["x @ https://user:secret@h/x.whl"]}, "must not contain a password"),
        (
            {"python": ["x @ file:///nowhere/x-1-py3-none-any.whl"]},
            "`python`: '/nowhere/x-1-py3-none-any.whl' does not",
        ),
        ({"python": "none.txt"}, "`python`: there is no file 'none.txt'"),
        ({"python": ".venv/bin/python", "script": ["node", "x.js"]}, "but `script` starts with `node`"),
        ({"python": ".venv/bin/python", "on": "nodes"}, "`python` and `on: nodes` cannot be combined"),
    ],
)
def test_invalid_values_are_reported_with_their_place(
    project: Project, cache: Path, options: dict[str, Any], expected: str
) -> None:
    (project.root / ".venv" / "bin").mkdir(parents=True)
    (project.root / ".venv" / "bin" / "python").touch(mode=0o700)
    write_project(project, **options)
    ended = project.run("validate", "suite.yaml")
    assert ended.returncode == 2
    assert expected in ended.stdout + ended.stderr
    assert not cache.exists()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("exit 3", "other is not a Python interpreter that works (exit code 3)"),
        ("echo '{\"version\": [3, 8, 18]}'", "other must be Python 3.9 or newer, got 3.8.18"),
    ],
)
def test_program_that_is_too_old_or_not_python_is_refused(
    project: Project, cache: Path, program: str, expected: str
) -> None:
    project.write("bin/other", f"#!/bin/sh\ncat > /dev/null\n{program}\n").chmod(0o700)
    write_project(project, python="bin/other")
    ended = project.run("eval", "suite.yaml")
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert not project.run_dirs()


def test_recorded_options_say_what_the_suite_says(project: Project, cache: Path, tmp_path: Path) -> None:
    user_python(project.root / ".venv", wheel(tmp_path))
    write_project(project, python=".venv/bin/python")
    assert project.run("eval", "suite.yaml").returncode == 0
    line = json.loads((project.run_dirs()[-1] / "cases.jsonl").read_text().splitlines()[0])
    assert line["evaluators"][0]["options"]["python"] == ".venv/bin/python"


async def test_python_api_installs_without_blocking_the_loop(
    project: Project, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(project, python=[requirement(wheel(tmp_path))])
    monkeypatch.chdir(project.root)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    counting = asyncio.create_task(count())
    run = await agentv.evaluate_async("suite.yaml")
    counting.cancel()
    assert run.results[0].evaluator_results[0].reasoning == "shapes 1.0"
    assert turns > 20


def test_shards_with_other_packages_are_not_merged(project: Project, cache: Path, tmp_path: Path) -> None:
    user_python(project.root / ".venv", wheel(tmp_path))
    cases = [{"id": name, "input": "x"} for name in "abcdefgh"]
    write_project(project, python=".venv/bin/python")
    suite = yaml.safe_load((project.root / "suite.yaml").read_text())
    (project.root / "suite.yaml").write_text(yaml.safe_dump({**suite, "evalcases": cases}))
    for part in (1, 2):
        assert project.run("eval", "suite.yaml", "--shard", f"{part}/2", "--run-dir", f"s{part}").returncode == 0
    user_python(project.root / ".venv", wheel(tmp_path, "1.0", "circles"))
    assert project.run("eval", "suite.yaml", "--shard", "2/2", "--run-dir", "other").returncode == 0
    refused = project.run("merge", "s1", "other", "--run-dir", "merged")
    assert refused.returncode == 2
    assert "the packages of .venv/bin/python in other differ from those in s1" in refused.stderr
    assert project.run("merge", "s1", "s2", "--run-dir", "merged").returncode == 0
    (merged,) = project.manifest(project.root / "merged")["interpreters"].values()
    assert merged["packages"] == {"shapes": "1.0"}
