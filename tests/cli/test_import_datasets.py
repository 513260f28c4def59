"""`agentv import deepeval` and `agentv import ragas`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv.suite.yaml import YamlWalk
from tests.conftest import Project

GOLDENS: list[dict[str, Any]] = [
    {"input": "Q1?", "actual_output": None, "expected_output": "A1", "retrieval_context": ["p1", "p2"]},
    {"input": "Q2?", "actual_output": None, "expected_output": "A2", "retrieval_context": None},
]
CONFIG = "targets: {app: {provider: mock, response: A1}}\n"


def document(project: Project) -> Any:
    return YamlWalk((project.root / "suite.yaml").read_bytes()).document()


def test_goldens_are_read_from_their_file(project: Project) -> None:
    project.write("data/goldens.json", json.dumps(GOLDENS))
    done = project.run("import", "deepeval", "data/goldens.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert document(project)["evalcases"] == {
        "file": "data/goldens.json",
        "columns": {
            "input": "input",
            "reference_answer": "expected_output",
            "metadata.retrieval_context": "retrieval_context",
        },
    }
    project.write("agentv.config.yaml", CONFIG)
    suite = (project.root / "suite.yaml").read_text().replace("llm_judge", "equals")
    project.write("suite.yaml", suite)
    assert project.run("eval", "suite.yaml").returncode == 1
    assert sorted(row["verdict"] for row in project.rows()) == ["fail", "pass"]


def test_answers_of_test_cases_are_written_for_outputs(project: Project) -> None:
    rows = [{**GOLDENS[0], "actual_output": "A1", "name": "first", "additional_metadata": {"page": 3}}, GOLDENS[1]]
    project.write("cases.json", json.dumps({"testCases": rows}))
    done = project.run("import", "deepeval", "cases.json")
    assert "agentv eval suite.yaml --outputs suite.answers.jsonl" in done.stdout
    cases = document(project)["evalcases"]
    assert cases[0] == {
        "id": "first",
        "input": "Q1?",
        "reference_answer": "A1",
        "metadata": {"page": 3, "retrieval_context": ["p1", "p2"]},
        "vars": {"name": "first"},
    }
    assert [case["id"] for case in cases] == ["first", "row-2"]
    suite = (project.root / "suite.yaml").read_text().replace("llm_judge", "equals")
    project.write("suite.yaml", suite)
    project.run("eval", "suite.yaml", "--outputs", "suite.answers.jsonl", "--case", "first")
    assert [(row["eval_id"], row["verdict"]) for row in project.rows()] == [("first", "pass")]


@pytest.mark.parametrize("cell", ["p1|p2", "p1;p2", "\"['p1', 'p2']\"", '"[""p1"", ""p2""]"'])
def test_passages_in_csv_cells_become_lists(project: Project, cell: str) -> None:
    project.write("goldens.csv", f"input,expected_output,retrieval_context\nQ?,A,{cell}\n")
    assert project.run("import", "deepeval", "goldens.csv").returncode == 0
    (case,) = document(project)["evalcases"]
    assert case["metadata"]["retrieval_context"] == ["p1", "p2"]


def test_testset_of_ragas_is_read_from_its_file(project: Project) -> None:
    rows = [
        {"user_input": "Q?", "reference": "R", "reference_contexts": ["c"], "synthesizer_name": "single_hop"},
        {"user_input": "Q2?", "reference": "R2", "reference_contexts": ["d"], "synthesizer_name": "multi_hop"},
    ]
    project.write("testset.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert project.run("import", "ragas", "testset.jsonl").returncode == 0
    assert document(project)["evalcases"]["columns"] == {
        "input": "user_input",
        "reference_answer": "reference",
        "metadata.context": "reference_contexts",
    }
    assert project.run("validate", "suite.yaml").returncode == 0


def test_conversations_of_ragas_become_messages(project: Project) -> None:
    turns = [
        {"type": "human", "content": "Is it open?"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "hours", "args": {"day": "Monday"}}]},
        {"type": "tool", "content": "9-18"},
        {"type": "human", "content": "And on Sunday?"},
        {"type": "ai", "content": "No."},
    ]
    rows = [{"user_input": turns, "reference": "no"}, {"user_input": "", "reference": "x"}]
    project.write("dataset.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    done = project.run("import", "ragas", "dataset.jsonl")
    assert done.returncode == 1
    assert "dataset.jsonl:2: row 2 is not imported: it has no `user_input`" in done.stderr
    (case,) = document(project)["evalcases"]
    assert [message["role"] for message in case["input"]] == ["user", "assistant", "tool", "user"]
    assert case["input"][1]["tool_calls"] == [{"tool": "hours", "input": {"day": "Monday"}}]


ODD = [
    "Explain {{ user }} and {% if x %}, {# note #}",
    "{% raw %}{{ a }}",
    "{# only a comment #}",
    " {{{{%\r\n\ttab\u2028 }} %}\n\n",
    "100% {plain} ${{ HOME }}",
]


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("extra", [{}, {"team": "search {{ y }}", "input_2": "x"}])
def test_text_of_datasets_is_never_a_template(project: Project, extra: dict[str, str], prompt: bool) -> None:
    rows: list[dict[str, Any]] = [{"user_input": text, "reference": text, "response": "R", **extra} for text in ODD]
    rows += [{"user_input": [{"type": "human", "content": text}], "reference": text, **extra} for text in ODD]
    project.write("dataset.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    done = project.run("import", "ragas", "dataset.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    project.write("suite.yaml", (project.root / "suite.yaml").read_text().replace("llm_judge", "equals"))
    project.write("agentv.config.yaml", "targets: {app: {provider: cli, command: [python, echo.py]}}\n")
    project.write("echo.py", "import json, sys\nprint(json.dumps({'text': sys.stdin.buffer.read().decode()}))\n")
    project.write("prompt.txt", "{{ input }}")
    options = ("--prompt", "prompt.txt") if prompt else ()
    assert project.run("eval", "suite.yaml", *options).returncode == 0
    answers = {row["eval_id"]: row["candidate_answer"] for row in project.rows()}
    assert [answers[f"row-{number}"] for number in range(1, 11)] == ODD * 2


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", "{}", "must be a list of rows"),
        ("a.json", "[", "not valid JSON"),
        ("a.json", "[]", "the dataset is empty"),
        ("a.jsonl", '{"other": 1}\n', "no row has a question (`user_input`)"),
        ("a.csv", "a,b\n1\n", "must have 2 cells"),
        ("a.txt", "x", "a dataset must be"),
    ],
)
def test_unusable_dataset_is_reported_and_nothing_is_written(
    project: Project, name: str, text: str, problem: str
) -> None:
    project.write(name, text)
    done = project.run("import", "ragas", name)
    assert done.returncode == 2
    assert problem in done.stderr
    assert not (project.root / "suite.yaml").exists()


def test_missing_file_is_reported(project: Project) -> None:
    done = project.run("import", "ragas", "none.csv")
    assert done.returncode == 2
    assert "none.csv" in done.stderr
    assert "Traceback" not in done.stderr
