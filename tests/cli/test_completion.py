"""`agentv completion`, with the script in a real bash."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys

import pytest

from tests.conftest import Project

COMPLETE = """\
eval "$(agentv completion bash)"
compopt() {{ :; }}  # an error outside of a completion
COMP_WORDS=({words}) COMP_CWORD={current}
_agentv_completion agentv
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def bookshelf(capitals: Project) -> Project:
    assert capitals.run("eval", "capitals.yaml", "--quiet", "--name", "first").returncode == 1
    program = capitals.write("bin/agentv", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m agentv "$@"\n')
    program.chmod(0o755)
    return capitals


def completed(project: Project, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = COMPLETE.format(words=shlex.join(words), current=len(words) - 1)
    path = f"{project.root / 'bin'}:{project.environment()['PATH']}"
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        cwd=project.root,
        env=project.environment({"PATH": path}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_runs_targets_and_cases(bookshelf: Project) -> None:
    (run,) = bookshelf.run_dirs()
    assert completed(bookshelf, "agentv", "comp") == ["compare", "completion"]
    assert completed(bookshelf, "agentv", "show", "first", "") == ["france", "italy", "spain"]
    assert completed(bookshelf, "agentv", "show", "") == ["latest", "first", run.name, "france", "italy", "spain"]
    assert completed(bookshelf, "agentv", "eval", "capitals.yaml", "--case", "s") == ["spain"]
    assert completed(bookshelf, "agentv", "eval", "capitals.yaml", "--target", "") == ["scripted"]


def test_words_that_cannot_be_completed_print_nothing(project: Project) -> None:
    env = {"_AGENTV_COMPLETE": "bash_complete", "COMP_WORDS": "agentv eval none.yaml --case ", "COMP_CWORD": "4"}
    done = project.run(env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
    env |= {"COMP_WORDS": "agentv eval no", "COMP_CWORD": "2"}
    assert project.run(env=env).stdout == "file,no\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts(project: Project, shell: str) -> None:
    done = project.run("completion", shell)
    assert done.returncode == 0
    assert f"_AGENTV_COMPLETE={shell}_complete" in done.stdout
