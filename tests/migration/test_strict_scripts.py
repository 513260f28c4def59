"""Scripts written for AgentV check their input with a schema in which optional values may be missing, but not null."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import Project
from tests.spec.support import run, scripted, write, write_suite

STRICT = """
import json, sys

class Refused(Exception):
    pass

def check(value, schema, path):
    kind, required, *rest = schema
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"{path}: expected {kind}, received {json.dumps(value)}")
    if rest and kind is dict:
        for key, field in rest[0].items():
            if key in value:
                check(value[key], field, f"{path}.{key}")
            elif field[1]:
                raise Refused(f"{path}.{key}: Required")
    if rest and kind is list:
        for at, item in enumerate(value):
            check(item, rest[0], f"{path}[{at}]")

number, text, null = (int, float), str, type(None)
call = (dict, True, {"tool": (text, True), "id": (text, False), "timestamp": (text, False)})
message = (dict, True, {
    "role": (text, True),
    "content": ((text, dict, list), False),
    "name": (text, False),
    "tool_calls": (list, False, call),
    "timestamp": (text, False),
    "metadata": (dict, False),
})
usage = (dict, False, {"input": (number, True), "output": (number, True), "cached": (number, False)})
summary = (dict, False, {
    "event_count": (number, True),
    "tool_names": (list, True, (text, True)),
    "tool_calls_by_name": (dict, True),
    "error_count": (number, True),
    "token_usage": usage,
    "cost_usd": (number, False),
    "duration_ms": (number, False),
    "tool_durations": (dict, False),
    "tool_calls": (dict, True),
    "llm_call_count": (number, False),
})
event = (dict, True, {
    "event_id": (text, True),
    "parent_event_id": (text, False),
    "ordinal": (number, True),
    "type": (text, True),
    "message": (dict, False, {"role": (text, True)}),
    "tool": (dict, False, {"name": (text, True), "call_id": (text, False)}),
})
trace = (dict, True, {**summary[2], "messages": (list, True, message), "events": (list, True, event)})
payload = json.load(sys.stdin)
nullable = {"output_messages": (list, False, message), "trace_summary": summary, "config": (dict, False)}
schema = {
    "question": (text, True),
    "expected_outcome": (text, OUTCOME),
    "expected_messages": (list, True, message),
    "reference_answer": (text, False),
    "candidate_answer": (text, True),
    "guideline_files": (list, True, (text, True)),
    "input_files": (list, True, (text, True)),
    "input_messages": (list, True, message),
    **{key: field for key, field in nullable.items() if payload.get(key) is not None},
    # AgentV 4 and 5
    "criteria": (text, True),
    "expected_output": (list, True, message),
    "output": (text, True),
    "messages": (list, True, message),
    "input": (list, True, message),
    "trace": trace,
    "token_usage": usage,
    "cost_usd": (number, False),
    "duration_ms": (number, False),
}
try:
    check(payload, (dict, True, schema), "input")
    nulls = [key for key, value in payload.items() if value is None and key not in nullable]
    if nulls:
        raise Refused(f"null: {nulls}")
except Refused as error:
    print(json.dumps({"score": 0, "hits": [], "misses": [str(error)], "reasoning": f"Evaluation failed: {error}"}))
    sys.exit(1)
print(json.dumps({"score": 1}))
"""


def write_strict(project: Project, cases: list[dict[str, Any]], *, outcome: bool = False) -> None:
    project.write("strict.py", f"OUTCOME = {outcome}\n{STRICT}")
    evaluator = {"type": "code_judge", "script": ["python", "strict.py"], "judge": True}
    write_suite(project, cases, execution={"evaluators": [evaluator]})
    project.write("agentv.config.yaml", json.dumps(scripted()))


def test_script_that_rejects_null_gets_none(project: Project) -> None:
    calls = [{"tool": "search", "input": {"limit": None}, "output": None}]
    expected = [{"role": "assistant", "tool_calls": calls}, {"role": "assistant", "content": "Paris"}]
    full = {"id": "full", "input": "?", "expected_outcome": "Paris", "expected_messages": expected}
    write_strict(project, [{"id": "bare", "input": "?"}, full])
    ran = run(project)
    errors = {row["eval_id"]: row["evaluator_results"][0]["error"] for row in ran.rows}
    assert errors == {"bare": None, "full": None}


def test_script_that_fails_and_explains_itself_as_json_is_quoted(project: Project) -> None:
    write_strict(project, [{"id": "bare", "input": "?"}], outcome=True)
    ran = run(project)
    assert (
        ran.failure == "the script exited with code 1 and printed: Evaluation failed: input.expected_outcome: Required"
    )


def test_exit_code_is_the_score_if_the_evaluator_allows_it(project: Project) -> None:
    scripts = {
        "passes": "echo fine; echo log >&2",
        "says no": "echo 'too long'; exit 1",
        "silent": "exit 0",
        "crashes": "echo boom >&2; exit 1",
        "is killed": "kill -9 $$",
        "prints broken JSON": 'echo "{"',
        "prints JSON": """echo log; echo '{"score": 0.5}'""",
        "explains its failure as JSON": """echo log; echo '{"reasoning": "boom"}'; exit 1""",
    }
    evaluators = [
        {"name": name, "type": "code_judge", "script": ["sh", "-c", script], "score_from_exit_code": True}
        for name, script in scripts.items()
    ]
    write_suite(project, [{"id": "a", "input": "?"}], execution={"evaluators": evaluators})
    project.write("agentv.config.yaml", json.dumps(scripted()))
    results = run(project).rows[0]["evaluator_results"]
    scores = {each["name"]: (each["score"], each["reasoning"]) for each in results if each["error"] is None}
    assert scores == {
        "passes": (1.0, "fine"),
        "says no": (0.0, "too long"),
        "silent": (1.0, "exit code 0"),
        "prints JSON": (0.5, ""),
    }


def test_explanation_of_a_failed_script_is_masked_and_shortened(project: Project) -> None:
    script = """
        import os
        why = ("x" * 470) + os.environ["TOKEN_OF_MINE"] + ("y" * 10_000)
        print(json.dumps({"score": 1, "hits": ["kept?"], "misses": [why]}))
        sys.exit(3)
    """
    write(project, script, {})
    project.write(".env", "TOKEN_OF_MINE=abcdefgh-12345678-ijklmnop\n")
    failure = run(project).failure
    assert failure.startswith("the script exited with code 3 and printed: xxx")
    assert len(failure) < 700
    assert "abcdefgh" not in failure
