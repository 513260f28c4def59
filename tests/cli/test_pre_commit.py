"""`.pre-commit-hooks.yaml`, run by the real pre-commit in a git repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project

pytest.importorskip("pre_commit")
(HOOK,) = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def repository(project: Project, tmp_path: Path) -> Project:
    """A git repository whose hook runs this agentv instead of installing one."""
    (project.root / ".git").rmdir()
    program, _, rest = HOOK["entry"].partition(" ")
    assert program == "agentv"
    hook: dict[str, Any] = {**HOOK, "language": "system", "entry": f"{sys.executable} -m agentv {rest}"}
    project.write(".pre-commit-config.yaml", yaml.safe_dump({"repos": [{"repo": "local", "hooks": [hook]}]}))
    project.write("agentv.config.yaml", "targets: {scripted: {provider: mock, response: Paris}}\n")
    project.write("evals/capitals.yaml", "evalcases:\n  - {id: a, input: x}\n")
    project.write("evals/fixtures/data.yaml", "a: 1\n")
    project.write("evals/README.md", "no suite\n")
    project.write("other/broken.yaml", "evalcases: 5\n")
    git(project, "init", "--quiet")
    git(project, "add", ".")
    return project


def git(project: Project, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=project.root, check=True, capture_output=True, timeout=60)


def pre_commit(project: Project) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"],
        cwd=project.root,
        env=project.environment({"PRE_COMMIT_HOME": str(project.root.parent / "pre-commit")}),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_hook_validates_suites_and_configuration(repository: Project) -> None:
    done = pre_commit(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: 1 suite, 1 case, 1 configuration, no problems" in done.stdout
    repository.write("evals/capitals.yaml", "evalcases:\n  - {id: a, inptu: x}\n")
    git(repository, "add", ".")
    done = pre_commit(repository)
    assert done.returncode == 1
    assert "evals/capitals.yaml:2:13: unknown key `inptu`" in done.stdout, done.stdout
    assert "data.yaml" not in done.stdout
    assert "broken.yaml" not in done.stdout


def test_validate_skips_other_files_only_on_request(project: Project) -> None:
    project.write("evals/data.yaml", "a: 1\n")
    assert project.run("validate", "evals/data.yaml").returncode == 2
    done = project.run("validate", "--suites-only", "evals/data.yaml")
    assert (done.returncode, done.stdout) == (0, "ok: no suites, no problems\n")
    assert project.run("validate", "--suites-only", "evals/missing.yaml").returncode == 2
