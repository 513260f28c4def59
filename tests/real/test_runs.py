"""Runs with a real model: as target, as every kind of judge, cut off, late, in a queue, and killed."""

from __future__ import annotations

import json
import math
import signal
import sys
from pathlib import Path
from typing import Any

from tests.conftest import Project
from tests.real.conftest import Servers

INVOKE = """
from agentv_eval import code_judge

@code_judge
async def judge(case, proxy):
    reply = await proxy.invoke(question=f"Is this a colour: {case.candidate_answer}? Answer yes or no.")
    return {"score": 0.5, "reasoning": reply.raw_text, "details": {"empty": not reply.raw_text}}
"""

OPENAI = """
import json, sys
from openai import OpenAI

case, client = json.load(sys.stdin), OpenAI()
schema = {
    "type": "object",
    "properties": {"verdict": {"enum": ["yes", "no"]}, "confidence": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["verdict", "confidence"],
    "additionalProperties": False,
}
messages = [{"role": "system", "content": "You judge."}, {"role": "user", "content": case["candidate_answer"] or "?"}]
chat = client.chat.completions.create(
    model="gpt-4o", messages=messages, logprobs=True,
    response_format={"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema, "strict": True}},
)
responses = client.responses.create(
    model="gpt-5-mini", input=messages,
    text={"format": {"type": "json_schema", "name": "verdict", "schema": schema, "strict": True}},
)
details = {
    "chat": json.loads(chat.choices[0].message.content), "responses": json.loads(responses.output_text),
    "finish": chat.choices[0].finish_reason, "status": responses.status, "models": [chat.model, responses.model],
    "usage": [chat.usage.completion_tokens, responses.usage.output_tokens],
    "logprobs": len(chat.choices[0].logprobs.content),
}
print(json.dumps({"score": 1.0 if details["chat"]["verdict"] == "yes" else 0.0, "details": details}))
"""


def judge_script(project: Project, name: str, source: str) -> str:
    """The `script` of an evaluator that runs this source."""
    return json.dumps([sys.executable, str(project.write(f"judges/{name}.py", source))])


def judge_calls(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "judge_calls.jsonl").read_text().splitlines()]


def reported_truthfully(row: dict[str, Any]) -> None:
    """Check what a row says about the call of its target."""
    assert row["model"] == "SmolLM2-135M-Instruct.Q4_1"
    assert row["finish_reason"] in ("stop", "length")
    assert 1 <= row["token_usage"]["output"] <= 16
    assert (row["finish_reason"] == "length") == (row["token_usage"]["output"] == 16)
    assert row["cost_usd"] == 0
    assert row["duration_ms"] > 0


def test_one_process_answers_and_judges(real: Project, servers: Servers) -> None:
    real.write(
        "evals/judged.yaml",
        """\
        execution: {threshold: 0}
        evalcases:
          - {id: free, input: Name a colour., expected_outcome: Names a colour., evaluators: [{type: llm_judge}]}
          - id: criteria
            input: Name a colour.
            evaluators: [{type: rubric, rubrics: [{id: colour, description: names a colour}]}]
        """,
    )
    done = real.run("eval", "evals/judged.yaml")
    assert done.returncode in (0, 1, 3), done.stderr
    rows = real.rows()
    assert len(rows) == 2
    for row in rows:  # a verdict, or an error that says why there is none
        reported_truthfully(row)
        (result,) = row["evaluator_results"]
        if result["error"] is None:
            assert 0 <= result["score"] <= 1
        else:
            assert "returned no usable verdict" in result["error"]
        assert result["judge"]["token_usage"]["output"] > 0
    assert len({row["candidate_answer"] for row in rows}) == 1  # one question, temperature 0, one process
    assert len(servers.seen) == 1


def test_scripts_ask_through_both_routes(real: Project, servers: Servers) -> None:
    invoke, openai = judge_script(real, "invoke", INVOKE), judge_script(real, "openai_shaped", OPENAI)
    real.write(
        "evals/scripts.yaml",
        f"""\
        execution: {{threshold: 0}}
        evalcases:
          - id: script
            input: Name a colour.
            evaluators: [{{type: code_judge, script: {invoke}, judge: {{max_calls: 1}}}}]
          - id: library
            input: Name a colour.
            evaluators: [{{type: code_judge, script: {openai}, judge: {{max_calls: 2}}}}]
        """,
    )
    done = real.run("eval", "evals/scripts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["eval_id"]: row for row in real.rows()}
    for row in rows.values():
        reported_truthfully(row)

    (script,) = rows["script"]["evaluator_results"]
    assert (script["error"], script["score"], script["details"]["empty"]) == (None, 0.5, False)

    (library,) = rows["library"]["evaluator_results"]
    assert library["error"] is None
    details = library["details"]
    for key in ("chat", "responses"):
        assert details[key]["verdict"] in ("yes", "no")
        assert 0 <= details[key]["confidence"] <= 9
    assert (details["finish"], details["status"]) == ("stop", "completed")
    assert details["models"] == ["SmolLM2-135M-Instruct.Q4_1"] * 2
    assert details["logprobs"] > 3
    calls = [call for call in judge_calls(real.run_dirs()[-1]) if call["eval_id"] == "library"]
    assert details["usage"] == [call["token_usage"]["output"] for call in calls]
    assert len(servers.seen) == 1


def test_cut_off_answers_and_verdicts_say_so(real: Project, servers: Servers) -> None:
    real.write(
        "evals/cut.yaml",
        """\
        execution: {target: curt, judge_target: curt}
        evalcases:
          - {id: free, input: Tell a long story., expected_outcome: A story., evaluators: [{type: llm_judge}]}
          - id: criteria
            input: Tell a long story.
            evaluators: [{type: rubric, rubrics: [{id: a, description: is a story}]}]
        """,
    )
    done = real.run("eval", "evals/cut.yaml")
    assert done.returncode == 3, done.stderr
    assert "2 answers cut off at the token limit" in done.stdout
    for row in real.rows():
        assert (row["finish_reason"], row["token_usage"]["output"]) == ("length", 6)
        (result,) = row["evaluator_results"]
        assert "it was truncated" in result["error"]
        assert "Increase `max_output_tokens`" in result["error"]
        assert result["judge"]["call_count"] == 2  # a third attempt would be cut off, too
    assert {call["finish_reason"] for call in judge_calls(real.run_dirs()[-1])} == {"length"}


def test_timeout_is_an_error_and_the_next_case_is_answered(real: Project, servers: Servers) -> None:
    suite = real.write(
        "evals/late.yaml",
        """\
        evalcases: [{id: a, input: Tell a story., evaluators: [{type: contains, value: a}]}]
        """,
    )
    done = real.run("eval", str(suite), "--target", "slow", "--target", "small", "--workers", "1")
    assert done.returncode == 3, done.stderr
    rows = {row["target"]: row for row in real.rows()}
    assert "target 'slow' did not answer within 0.5 s" in rows["slow"]["error"]["message"]
    assert rows["small"]["error"] is None
    assert len(servers.seen) == 1  # the server was neither blocked nor restarted


def test_queue_of_twenty_cases_on_one_slot_never_times_out(real: Project, servers: Servers) -> None:
    """40 calls of two targets take longer than their timeouts of 6 s, which begin when a slot is free."""
    script = judge_script(real, "invoke", INVOKE)
    cases = "\n".join(f"  - {{id: c{n}, input: Name a colour., expected_outcome: x}}" for n in range(20))
    real.write(
        "evals/queue.yaml",
        "execution:\n  target: steady\n  judge_target: other\n  threshold: 0\n  evaluators:\n"
        f"    - {{type: code_judge, script: {script}, timeout_seconds: 8,\n"
        "       judge: {max_calls: 1, timeout_seconds: 6}}\n"
        f"evalcases:\n{cases}\n",
    )
    done = real.run("eval", "evals/queue.yaml", "--workers", "20", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    seconds = json.loads(done.stdout)["duration_seconds"]
    calls = judge_calls(real.run_dirs()[-1])
    rows = real.rows()
    assert [row["error"] for row in rows] == [None] * 20
    assert [call["status"] for call in calls] == ["ok"] * 20
    working = math.fsum(each["duration_ms"] for each in (*rows, *calls)) / 1000
    assert working <= seconds * 1.05, "calls on one slot cannot work at the same time"
    assert max(call["waited_ms"] for call in calls) > min(call["duration_ms"] for call in calls), "no call waited"
    assert len(servers.seen) == 1


def test_killed_runtime_leaves_no_server(real: Project, servers: Servers) -> None:
    real.write("evals/a.yaml", "evalcases: [{id: a, input: Tell a story., evaluators: [{type: contains, value: a}]}]")
    runtime = real.start("eval", "evals/a.yaml", "--target", "slow", "--timeout", "60")
    try:
        servers.until(lambda alive: len(alive) == 1)
    finally:
        runtime.send_signal(signal.SIGKILL)
        runtime.communicate()
    servers.until(lambda alive: not alive, 5)
