"""`provider_batching` of a `cli` target: one command for all cases of a suite."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project

COMMAND = """\
import json, sys, pathlib
log = pathlib.Path("calls.log")
log.write_text((log.read_text() if log.exists() else "") + " ".join(sys.argv[1:2]) + "\\n")
cases = [json.loads(line) for line in sys.stdin]
for case in cases:
    if case["id"] != "left-out":
        print(json.dumps({"id": case["id"], "text": case["prompt"].upper()}))
"""
CASES = """\
execution: {evaluators: [{type: equals, value: HELLO}]}
evalcases:
- {id: one, input: hello}
- {id: two, input: hello}
- {id: three, input: bye}
"""


@pytest.fixture
def batched(project: Project) -> Project:
    project.write("answer.py", COMMAND)
    config = "{provider: cli, command: [python, answer.py, '{EVAL_ID}'], provider_batching: true}"
    project.write("agentv.config.yaml", f"targets: {{batch: {config}}}\n")
    project.write("suite.yaml", CASES)
    return project


def scores(project: Project) -> dict[str, float]:
    return {row["eval_id"]: row["score"] for row in project.rows()}


def test_batch_target_gets_all_cases_of_a_suite(batched: Project) -> None:
    assert batched.run("eval", "suite.yaml").returncode == 1
    assert scores(batched) == {"one": 1.0, "two": 1.0, "three": 0.0}
    assert (batched.root / "calls.log").read_text() == "batch\n"


def test_batch_duration_is_split_among_cases(batched: Project) -> None:
    batched.run("eval", "suite.yaml")
    (shared,) = {row["duration_ms"] for row in batched.rows()}
    assert shared > 0


def test_missing_batch_line_is_an_error_row_for_that_case_only(batched: Project) -> None:
    batched.write("suite.yaml", CASES + "- {id: left-out, input: hello}\n")
    assert batched.run("eval", "suite.yaml").returncode == 3
    errors = {row["eval_id"]: row["error"] for row in batched.rows()}
    assert [name for name, error in errors.items() if error] == ["left-out"]
    assert "no line for case 'left-out'" in errors["left-out"]["message"]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("print('{')", "line 1: "),
        ("print('[]')", "line 1: it must be a JSON object"),
        ('print(\'{"text": "x"}\')', "line 1: `id` must be a non-empty string"),
        ('print(\'{"id": "one", "text": "x"}\\n\' * 2)', "line 2: duplicate id 'one'"),
        ('print(\'{"id": "one"}\')', "neither `text` nor `output_messages`"),
        ("raise SystemExit(4)", "exited with code 4"),
    ],
)
def test_unreadable_batch_output_is_an_error_for_every_case(batched: Project, output: str, said: str) -> None:
    batched.write("answer.py", output)
    assert batched.run("eval", "suite.yaml").returncode == 3
    messages = [row["error"]["message"] for row in batched.rows()]
    assert len(messages) == 3
    assert all(said in message for message in messages), messages


def test_each_attempt_runs_its_own_batch(batched: Project) -> None:
    batched.run("eval", "suite.yaml", "--repeat", "2")
    assert (batched.root / "calls.log").read_text() == "batch\nbatch\n"
    assert len(batched.rows()) == 6


def test_resumed_batch_contains_only_missing_cases(batched: Project) -> None:
    batched.run("eval", "suite.yaml", "--run-dir", "run")
    results = batched.root / "run" / "results.jsonl"
    results.write_text("".join(line for line in results.read_text().splitlines(True) if '"two"' not in line))
    batched.write("answer.py", COMMAND + "assert [case['id'] for case in cases] == ['two']\n")
    done = batched.run("eval", "--resume", "run", "--json")
    assert (done.returncode, json.loads(done.stdout)["total"]) == (1, 3), done.stderr


def test_batch_cases_and_answers_can_be_files(batched: Project) -> None:
    batched.write(
        "files.py",
        "import json, sys\n"
        "cases = [json.loads(line) for line in open(sys.argv[1])]\n"
        "with open(sys.argv[2], 'w') as out:\n"
        "    for case in cases: out.write(json.dumps({'id': case['id'], 'text': 'HELLO'}) + '\\n')\n",
    )
    config = "{provider: cli, command_template: 'python files.py {PROMPT_FILE} {OUTPUT_FILE}', provider_batching: true}"
    batched.write("agentv.config.yaml", f"targets: {{batch: {config}}}\n")
    assert batched.run("eval", "suite.yaml").returncode == 0


def test_batch_prompt_is_empty_and_each_case_lists_its_files(batched: Project) -> None:
    batched.write("notes.txt", "long notes")
    batched.write(
        "answer.py",
        """\
        import json, sys
        prompt, cases, *files = sys.argv[1:]
        for line in open(cases):
            case = json.loads(line)
            seen = [prompt, case["prompt"], case["files"] == files]
            print(json.dumps({"id": case["id"], "text": json.dumps(seen)}))
        """,
    )
    words = "[python, answer.py, '{PROMPT}', '{PROMPT_FILE}', '{FILES}']"
    batched.write(
        "agentv.config.yaml", f"targets: {{batch: {{provider: cli, command: {words}, provider_batching: true}}}}\n"
    )
    batched.write(
        "suite.yaml",
        """\
        execution: {evaluators: [{type: is_json}]}
        evalcases:
        - {id: one, input: [{role: user, content: [{type: text, value: Read}, {type: file, value: notes.txt}]}]}
        """,
    )
    assert batched.run("eval", "suite.yaml").returncode == 0
    (row,) = batched.rows()
    assert json.loads(row["candidate_answer"]) == ["", 'Read\n\n<file path="notes.txt"/>', True]
