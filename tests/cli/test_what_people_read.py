"""Help, hints and headings fit a terminal, and suggested commands are correct."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from agentv.cli.program import program
from tests.cli.judge_support import judges
from tests.conftest import Project

__all__ = ["judges"]


def every_help(command: click.Command, name: str, above: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """The help of a command and its subcommands, formatted for 80 columns."""
    context = click.Context(command, parent=above, info_name=name, terminal_width=80)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from every_help(found, below, context)


def test_every_help_fits_80_columns() -> None:
    helps = dict(every_help(program, "agentv"))
    assert {"agentv eval", "agentv judge run", "agentv import promptfoo"} <= helps.keys()
    assert [(name, line) for name, text in helps.items() for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", ["eval", "validate"])
def test_usage_error_shows_an_example_command(project: Project, command: str) -> None:
    done = project.run(command)
    assert done.returncode == 2
    assert f"agentv {command} PATH" in done.stderr


def test_lists_in_messages_use_and(judges: Project) -> None:
    done = judges.run("eval", "evals/suite.yaml", "--target", "missing")
    assert done.returncode == 2
    assert "Available: `assistant`, `broken`, `keyed` and `strict`." in done.stderr


def test_long_multiline_question_is_shortened_once(judges: Project) -> None:
    judges.write(
        "evals/judges/long.py",
        """\
        from agentv_eval import code_judge

        @code_judge
        def long(input, judge):
            judge.invoke(question="word " * 40 + "\\nand a second line")
            return 1.0
        """,
    )
    case = ("--suite", "evals/suite.yaml", "--case", "france")
    done = judges.run("judge", "run", "evals/judges/long.py", *case, env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stdout + done.stderr
    (asked,) = [line for line in done.stdout.splitlines() if line.strip().startswith("asked")]
    assert asked.count("…") == 1
    assert asked.endswith("…")


def test_payload_without_case_has_a_plain_heading(judges: Project) -> None:
    done = judges.run("judge", "run", "evals/judges/plain.py", "--payload", "-", stdin='{"candidate_answer": "Paris."}')
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "payload"


@pytest.mark.parametrize(("lang", "needed"), [("python", "pytest"), ("typescript", "Node 22.18"), ("bash", "jq")])
def test_judge_new_prints_requirements(project: Project, lang: str, needed: str) -> None:
    done = project.run("judge", "new", "tone", "--lang", lang)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Needs:")]
    assert needed in line


def test_judge_new_names_what_this_machine_lacks(project: Project) -> None:
    node = project.write("bin/node", "#!/bin/sh\necho v20.20.2\n")
    node.chmod(0o755)
    old = project.run("judge", "new", "tone", "--lang", "typescript", env={"PATH": str(node.parent)})
    assert "Missing:  Node 22.18 (this is v20.20.2)" in old.stderr
    none = project.run("judge", "new", "tone", "--lang", "bash", env={"PATH": str(project.root)})
    assert "Missing:  jq, curl" in none.stderr


def test_summary_names_the_judge_only_if_a_judge_call_failed(project: Project) -> None:
    project.write("broken.py", "import sys\nsys.exit('no')\n")
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          agent: {provider: mock, response: ok}
          judge: {provider: mock, error: overloaded, status: 400}
        defaults: {target: agent, judge_target: judge}
        """,
    )
    project.write(
        "suite.yaml",
        """\
        evalcases:
          - {id: script, input: Q, evaluators: [{name: s, type: code_judge, script: [python, broken.py]}]}
          - {id: judged, input: Q, evaluators: [{name: j, type: llm_judge}]}
        """,
    )
    script = project.run("eval", "suite.yaml", "--case", "script").stdout
    assert "Once the evaluator is fixed" in script
    assert "Judge " not in script
    judged = project.run("eval", "suite.yaml", "--case", "judged").stdout
    assert "Once the judge works" in judged
    assert "1 call, 0 answered, 1 failed" in judged
