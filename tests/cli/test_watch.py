"""`agentv eval --watch`: files are saved, and what they touch is run again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.conftest import Project

CONFIG = "targets: {bot: {provider: mock, response: Paris}}\n"
SUITE = """\
execution:
  evaluators: [{type: contains, value: Paris}]
evalcases:
  - {id: france, input: France?}
  - {id: italy, input: Italy?, evaluators: [{type: contains, value: Rome}]}
  - {id: spain, input: Spain?, evaluators: [{type: code_judge, script: [python, judge.py]}]}
"""
WATCHING = "press Ctrl-C to stop"


@dataclass
class Session:
    project: Project
    process: subprocess.Popen[str]

    def until_waiting(self) -> str:
        """What is printed until agentv waits for the next change."""
        lines: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            lines.append(line)
            if WATCHING in line:
                return "".join(lines)
        raise AssertionError("".join(lines))

    def ran(self) -> str:
        """The cases of the newest run."""
        return " ".join(sorted(row["eval_id"] for row in self.project.rows()))

    def replace(self, name: str, text: str) -> None:
        """Save a file as many editors do: write another file, and give it the name."""
        self.project.write(f"{name}~", text).replace(self.project.root / name)


@contextmanager
def watching(project: Project, *options: str) -> Iterator[Session]:
    process = project.start("eval", "suite.yaml", "--watch", *options)
    try:
        yield Session(project, process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def capitals(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", SUITE)
    project.write("judge.py", "print('{\"score\": 1}')\n")
    return project


def test_a_saved_file_runs_what_it_touches_and_ctrl_c_ends_with_the_last_exit_code(capitals: Project) -> None:
    with watching(capitals) as session:
        assert f"watching 3 files; {WATCHING}" in session.until_waiting()
        assert session.ran() == "france italy spain"

        session.replace("suite.yaml", SUITE.replace("Italy?", "Italy now?"))
        assert "suite.yaml changed: running 1 of 3 cases\n" in session.until_waiting()
        assert session.ran() == "italy"

        session.project.write("judge.py", "print('{\"score\": 0.5}')\n")
        assert "judge.py changed: running 1 of 3 cases\n" in session.until_waiting()
        assert session.ran() == "spain"

        session.project.write("suite.yaml", SUITE.replace("id: spain", "id: [1"))
        broken = session.until_waiting()
        assert "suite.yaml:6:" in broken
        assert len(capitals.run_dirs()) == 3
        session.project.write("suite.yaml", "# a comment\n" + SUITE.replace("Italy?", "Italy now?"))
        assert "suite.yaml changed: no case is affected\n" in session.until_waiting()

        session.project.write("agentv.config.yaml", CONFIG.replace("Paris", "Paris and Rome"))
        assert "agentv.config.yaml changed: running all 3 cases\n" in session.until_waiting()
        assert session.ran() == "france italy spain"
        session.project.write("judge.py", "print('{\"score\": 1.0}')\n")
        session.until_waiting()

        assert [row["verdict"] for row in capitals.rows()] == ["pass"]
        os.kill(session.process.pid, signal.SIGINT)
        assert session.process.wait(30) == 0, "the exit code of the last round"
    assert len(capitals.run_dirs()) == 5
    assert capitals.manifest()["chosen"]["cases"] == [{"suite": "suite", "target": None, "ids": ["spain"]}]
    results = capitals.run_dirs()[-1] / "results.jsonl"
    results.write_text("")
    assert capitals.run("eval", "--resume", "latest", "--quiet").returncode == 0
    assert session.ran() == "spain", "a round can be resumed"


def test_a_suite_saved_during_its_run_is_run_again(capitals: Project) -> None:
    """The second case saves the suite while it is run, so its other cases are left for the next round."""
    capitals.write(
        "agentv.config.yaml",
        """\
        targets:
          bot: {provider: cli, command: [python, bot.py, '{EVAL_ID}'], max_concurrency: 1}
        """,
    )
    capitals.write(
        "bot.py",
        """\
        import pathlib, sys
        saved = pathlib.Path("saved")
        suite = pathlib.Path("suite.yaml")
        if sys.argv[1] == "c0" and not saved.exists():
            saved.touch()
            suite.write_text(suite.read_text() + "  - {id: new, input: Q}\\n")
        print("Paris")
        """,
    )
    cases = "".join(f"  - {{id: c{n}, input: Q}}\n" for n in range(3))
    capitals.write("suite.yaml", f"execution: {{evaluators: [{{type: contains, value: Paris}}]}}\nevalcases:\n{cases}")
    with watching(capitals) as session:
        session.until_waiting()
        assert "suite.yaml changed: running" in session.until_waiting()
        assert "new" in session.ran()
        assert {row["eval_id"] for run in capitals.run_dirs() for row in capitals.rows(run)} == {
            "c0",
            "c1",
            "c2",
            "new",
        }
        os.kill(session.process.pid, signal.SIGINT)
        assert session.process.wait(30) == 0


def test_watching_refuses_options_of_a_single_run(capitals: Project) -> None:
    refused = capitals.run("eval", "suite.yaml", "--watch", "--run-dir", "run")
    assert refused.returncode == 2
    assert "--watch and --run-dir cannot be used together: each round is a new run." in refused.stderr
