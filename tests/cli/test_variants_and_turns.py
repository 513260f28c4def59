"""Prompts, datasets and conversations together: nothing is rendered twice, lost or mixed up."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project

ECHO = """\
    import json
    def echo(messages, vars):
        return json.dumps(messages)
    """


@pytest.fixture
def echo(project: Project) -> Project:
    project.write("app.py", ECHO)
    project.write("agentv.config.yaml", "targets: {echo: {provider: python, callable: 'app.py:echo'}}\n")
    return project


def answers(project: Project) -> dict[str, str]:
    return {row.get("prompt") or row["eval_id"]: row["candidate_answer"] for row in project.rows()}


def test_cells_of_datasets_are_not_templates(echo: Project) -> None:
    echo.write("d.csv", "id,input,reference_answer\na,What does {{ x }} mean? {% for i in [1] %},{{ id }}\n")
    echo.write("suite.yaml", "evalcases: {file: d.csv}\nexecution: {evaluators: [{type: contains}]}\n")
    echo.run("eval", "suite.yaml")
    assert "What does {{ x }} mean? {% for i in [1] %}" in answers(echo)["a"]
    assert "does not contain '{{ id }}'" in echo.rows()[0]["misses"]


def test_prompt_of_a_target_wraps_the_message_and_not_the_variable_input(echo: Project) -> None:
    echo.write(
        "agentv.config.yaml",
        "targets: {echo: {provider: python, callable: 'app.py:echo', prompt: 'Wrapped: {{ input }}'}}\n",
    )
    echo.write("d.csv", "id,input\nx,hello\n")
    echo.write(
        "suite.yaml",
        "prompts: ['Pirate: {{ input }}', 'Poet: {{ input }}']\nevalcases: d.csv\n"
        "execution: {evaluators: [{type: contains, value: Wrapped}]}\n",
    )
    echo.run("eval", "suite.yaml")
    assert "Wrapped: Pirate: hello" in answers(echo)["prompt-1"]
    assert "Wrapped: Poet: hello" in answers(echo)["prompt-2"]


def test_templates_of_turn_evaluators_are_rendered_once_with_the_values_of_the_turn(echo: Project) -> None:
    echo.write(
        "suite.yaml",
        """\
        evalcases:
          - id: a
            vars: {greet: "{{ other }}", other: INNER}
            turns:
              - input: "say {{ greet }}"
                reference_answer: say
                evaluators:
                  - {type: contains, value: "say {{ greet }}"}
                  - {name: reference, type: contains, value: "{{ reference_answer }}"}
                  - {type: python, value: "'{{' in output"}
        """,
    )
    done = echo.run("eval", "suite.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_in_turns_are_sent(echo: Project) -> None:
    echo.write("doc.txt", "FILE CONTENT")
    echo.write(
        "suite.yaml",
        """\
        evalcases:
          - id: a
            turns:
              - input: [{role: user, content: [{type: text, value: Read}, {type: file, value: doc.txt}]}]
                evaluators: [{type: contains, value: FILE CONTENT}]
        """,
    )
    assert echo.run("eval", "suite.yaml").returncode == 0


@pytest.mark.parametrize(
    ("suite", "expected"),
    [
        ("prompts: ['x {{ input }}']\nevalcases: [{id: a, turns: [{input: y}]}]", "use `system_prompt`"),
        ("prompts: [fixed]\nevalcases: [{id: a, question: lost}]", "does not use the input of the case"),
        ("evalcases: [{id: a, user: {target: nope, persona: x}}]", "names the unknown target 'nope'"),
    ],
)
def test_input_that_would_be_lost_and_unknown_users_are_errors(echo: Project, suite: str, expected: str) -> None:
    echo.write("suite.yaml", f"execution: {{evaluators: [{{type: is_json}}]}}\n{suite}\n")
    done = echo.run("eval", "suite.yaml", "--target", "echo")
    assert done.returncode == 2, done.stdout
    assert expected in done.stderr


def test_runs_of_one_target_are_compared_by_prompt(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets: {a: {provider: mock, response: x, rules: [{match: Good, response: yes}]}, b: {provider: mock, "
        "response: x, rules: [{match: Good, response: yes}]}}\n",
    )
    cases = ", ".join(f"{{id: c{n}}}" for n in range(6))
    project.write(
        "suite.yaml",
        f"prompts: [Good, Bad]\nevalcases: [{cases}]\nexecution: {{evaluators: [{{type: contains, value: 'yes'}}]}}\n",
    )
    project.run("eval", "suite.yaml", "--target", "a", "--target", "b", "--run-dir", "one", "--quiet")
    project.run("eval", "suite.yaml", "--target", "b", "--run-dir", "two", "--quiet")
    done = project.run("compare", "one", "two", "--target-a", "a", "--target-b", "b", "--json")
    assert (json.loads(done.stdout)["summary"]["matched"], done.returncode) == (12, 0)
    assert json.loads(done.stdout)["summary"]["ties"] == 12
    assert (
        "cannot be used with --by prompt" in project.run("compare", "one", "--by", "prompt", "--target-a", "a").stderr
    )
