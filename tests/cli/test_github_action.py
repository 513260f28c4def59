"""`action.yml`: its steps are run by bash, as GitHub's runner does."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


@dataclass
class Job:
    """What the runner knows after the steps of the action have run."""

    code: int
    outputs: dict[str, str]
    summary: str
    log: str


@dataclass
class Runner:
    """A small version of GitHub's runner, for composite actions with bash steps."""

    project: Project
    values: dict[str, str] = field(default_factory=dict)

    def run(self, inputs: Mapping[str, str]) -> Job:
        unknown = set(inputs) - set(ACTION["inputs"])
        assert not unknown, unknown
        for name, declared in ACTION["inputs"].items():
            self.values[f"inputs.{name}"] = inputs.get(name, declared["default"])
        self.values["github.action_path"] = str(ROOT)
        summary = self.project.write("runner/summary.md", "")
        for number, step in enumerate(STEPS):
            if "uses" in step or "pip install" in step["run"]:
                continue  # agentv is installed already
            output = self.project.write(f"runner/output-{number}", "")
            done = self._step(step, output, summary)
            pairs = (line.split("=", 1) for line in output.read_text().splitlines())
            self.values |= {f"steps.{step['id']}.outputs.{name}": value for name, value in pairs}
            if done.returncode:
                break
        outputs = {name: self.expand(output["value"]) for name, output in ACTION["outputs"].items()}
        return Job(done.returncode, outputs, summary.read_text(), done.stdout + done.stderr)

    def expand(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self.values.get(found[1], ""), text)

    def _step(self, step: dict[str, Any], output: Path, summary: Path) -> subprocess.CompletedProcess[str]:
        script = self.project.write("runner/step.sh", step["run"])
        bash = shutil.which("bash")
        assert bash is not None
        env = {
            **{name: self.expand(value) for name, value in step.get("env", {}).items()},
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_WORKSPACE": str(self.project.root),
            "RUNNER_TEMP": str(self.project.root / "runner"),
            "PATH": f"{self.project.root / 'bin'}:{self.project.environment()['PATH']}",
        }
        return subprocess.run(
            [bash, "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.project.root / self.expand(step.get("working-directory", ".")),
            env=self.project.environment(env),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


@pytest.fixture
def runner(capitals: Project) -> Runner:
    program = capitals.write("bin/agentv", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m agentv "$@"\n')
    program.chmod(0o755)
    return Runner(capitals)


def test_failed_case_fails_the_job_with_summary_and_annotations(runner: Runner) -> None:
    job = runner.run({"paths": "capitals.yaml"})
    assert job.code == 1, job.log
    assert job.outputs["exit-code"] == "1"
    assert (Path(job.outputs["run-dir"]) / "results.jsonl").is_file()
    assert job.summary.startswith("## agentv: 2 of 3 cases did not pass"), job.summary
    assert "::error file=capitals.yaml,line=11,title=spain" in job.log, job.log


def test_inputs_are_words_and_never_part_of_the_script(runner: Runner) -> None:
    inputs = {
        "paths": "capitals.yaml",
        "args": "--case 'fran*' --note \"$(touch hacked) `touch hacked`\"",
        "threshold": "0.9",
        "run-dir": "runs/with a space",
    }
    job = runner.run(inputs)
    assert job.code == 0, job.log
    run = runner.project.root / job.outputs["run-dir"]
    assert run.name == "with a space"
    manifest = runner.project.manifest(run)
    assert manifest["options"]["threshold"] == 0.9
    assert manifest["options"]["cases"] == ["fran*"]
    assert not (runner.project.root / "hacked").exists()
    assert not any(_EXPRESSION.search(step.get("run", "")) for step in STEPS)


def test_baseline_decides_whether_failed_cases_fail_the_job(runner: Runner) -> None:
    assert runner.project.run("eval", "capitals.yaml", "--quiet", "--out", "baseline.jsonl").returncode == 1
    job = runner.run({"paths": "capitals.yaml", "baseline": "baseline.jsonl", "max-drop": "0.05"})
    assert (job.code, job.outputs["exit-code"]) == (0, "0"), job.log
    assert "too few cases" in job.summary, job.summary
    worse = (runner.project.root / "capitals.yaml").read_text().replace("value: Paris", "value: Lutetia")
    runner.project.write("capitals.yaml", worse)
    job = runner.run({"paths": "capitals.yaml", "baseline": "baseline.jsonl", "max-drop": "0.05"})
    assert (job.code, job.outputs["exit-code"]) == (1, "1"), job.log


def test_invalid_suite_fails_the_job_without_a_summary(runner: Runner) -> None:
    runner.project.write("capitals.yaml", "evalcases:\n  - id: a\n    inptu: x\n")
    job = runner.run({"paths": "capitals.yaml"})
    assert (job.code, job.outputs["exit-code"], job.summary) == (2, "2", "")
    assert "capitals.yaml:3:5: unknown key `inptu`" in job.log


def test_every_input_is_described_and_used() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    used = {name.removeprefix("inputs.") for name in _EXPRESSION.findall(text) if name.startswith("inputs.")}
    assert used == set(ACTION["inputs"])
    assert all(declared["description"] for declared in ACTION["inputs"].values())
    (install,) = (step for step in STEPS if "pip install" in step.get("run", ""))
    assert install["env"] == {"ACTION_PATH": "${{ github.action_path }}"}
    assert '"$ACTION_PATH"' in install["run"]
