"""Patterns, schemas and answers that take long to process block neither the event loop nor Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from agentv.evaluators import schemas
from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.scoring import judge
from agentv.messages import Message, ToolCall
from agentv.suite.suite import EvalCase
from tests.conftest import AGENTV, Project
from tests.evaluators.support import an_evaluator
from tests.threats.heartbeat import LIMIT_MS, Heartbeat
from tests.threats.support import processes, wait_for

T = TypeVar("T")

SLOW_RULE = r"(\w+\s?)+\?$"
SLOW_QUESTION = "word " * 12 + "!"
MEGABYTE = 2**20


@dataclass(frozen=True)
class Finished:
    """A finished process and what it used, without its children."""

    code: int
    output: str
    cpu_seconds: float
    most_memory: int


def finish(process: subprocess.Popen[str]) -> Finished:
    assert process.stdout is not None
    assert process.stderr is not None
    output = process.stdout.read() + process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    return Finished(process.returncode, output, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


MEASURING = """\
import json, os, resource, subprocess, sys
process = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
print(json.dumps([process.returncode, process.stdout + process.stderr, cpu, memory]))
"""


def measured(project: Project, *arguments: str) -> Finished:
    """Run a command to its end, and measure it with its children. A small process starts it, because the memory that
    the kernel reports for a process includes that of the process that started it."""
    command = [sys.executable, "-I", "-S", "-c", MEASURING, *AGENTV, *arguments]
    done = subprocess.run(
        command, cwd=project.root, env=project.environment(), capture_output=True, text=True, check=True, timeout=60
    )
    return Finished(*json.loads(done.stdout))


def write(
    project: Project,
    *evaluators: Mapping[str, Any],
    target: Mapping[str, Any] | None = None,
    inputs: Sequence[str] = ("question",),
) -> None:
    target = {"provider": "mock", "response": "an answer", **(target or {})}
    project.write("agentv.config.yaml", json.dumps({"targets": {"scripted": target}}))
    checks = list(evaluators) or [{"type": "contains", "value": "answer"}]
    cases = [{"id": f"case-{n}", "input": text, "evaluators": checks} for n, text in enumerate(inputs)]
    project.write("suite.yaml", json.dumps({"evalcases": cases}))


def assert_refused(project: Project, command: str, message: str) -> Finished:
    """The command reports the error quickly, with little memory, in the process and all its children."""
    done = measured(project, command, "suite.yaml")
    assert done.code == 2, done.output
    assert message in " ".join(done.output.split())
    assert done.cpu_seconds < 8  # a second of compiling, twice at most, on a slow and busy machine
    assert done.most_memory < 200 * MEGABYTE
    return done


# -- patterns

REPEATS = "counted repeats like {1000} must multiply to at most 10,000, got"
BOMBS = {
    "one count": "a{4000000}",
    "nested counts": "((a{100}){100}){100}",
    "hidden in sets": "(?:a{5000}[])][](]){5000}",
    "sets in sets": "(?V1)(?:a{5000}[[a]]){5000}",
    "thousands of counts": "(?:" * 300 + "a" + "){9}" * 300,
}


@pytest.mark.parametrize("command", ["validate", "eval"])
def test_patterns_with_huge_repeats_are_refused_before_they_are_compiled(project: Project, command: str) -> None:
    searched = [{"name": name, "type": "regex", "pattern": pattern} for name, pattern in BOMBS.items()]
    schema = {"pattern": BOMBS["one count"], "patternProperties": {BOMBS["nested counts"]: {}}}
    write(project, *searched, {"type": "json_schema", "schema": schema})
    done = assert_refused(project, command, REPEATS)
    assert done.output.count("counted repeats") == len(BOMBS) + 1


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("a{4000000}", REPEATS),
        ("[\\u0100-\\U0010ffff]" * 900, "must compile within 1 s"),
        ("(" * 500 + ")" * 500, "invalid regular expression"),
    ],
    ids=["repeats", "sets", "nesting"],
)
def test_rule_that_takes_long_to_compile_is_refused(project: Project, match: str, message: str) -> None:
    write(project, target={"rules": [{"match": match, "response": "x"}]})
    assert_refused(project, "validate", message)


def test_slow_rule_fails_its_case_within_the_timeout_of_the_target(project: Project, heartbeat: Heartbeat) -> None:
    target = {"rules": [{"match": SLOW_RULE, "response": "x"}], "timeout_seconds": 1, "max_retries": 0}
    write(project, target=target, inputs=[SLOW_QUESTION, "short"])
    done = project.run("eval", "suite.yaml", env=heartbeat.env)
    assert done.returncode == 3, done.stderr
    slow, quick = sorted(project.rows(), key=lambda row: row["eval_id"])
    assert "timed out" in slow["error"]["message"] or "did not answer within 1 s" in slow["error"]["message"]
    assert slow["duration_ms"] is None or slow["duration_ms"] < 5_000
    assert quick["verdict"] == "pass"
    heartbeat.assert_steady()


def test_slow_patterns_of_evaluators_do_not_block_the_loop(project: Project, heartbeat: Heartbeat) -> None:
    # Each search takes half a second; the library finds out after it has begun.
    many = [{"name": f"slow-{n}", "type": "regex", "pattern": f"a*a*a*a*[b{n}]"} for n in range(2)]
    write(project, *many, target={"response": "a" * 400 + "!"}, inputs=["one", "two"])
    done = project.run("eval", "suite.yaml", env=heartbeat.env)
    assert done.returncode == 1, done.stderr
    assert [row["score"] for row in project.rows()] == [0, 0]
    heartbeat.assert_steady()


def test_interrupt_is_obeyed_while_a_worker_searches(project: Project) -> None:
    write(project, target={"rules": [{"match": SLOW_RULE, "response": "x"}]}, inputs=["short", SLOW_QUESTION])
    process = project.start("eval", "suite.yaml", "--workers", "1")
    wait_for(lambda: bool(workers_of(process.pid)) and len(project.rows()) == 1)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.code == 130, done.output
    assert "--resume" in done.output
    assert [row["eval_id"] for row in project.rows()] == ["case-0"]
    wait_for(lambda: not workers_of(process.pid))


def workers_of(runtime: int) -> list[int]:
    """Pids of the workers that a runtime started."""
    return [pid for pid, line in processes().items() if f"workers/child.py {runtime} " in line]


# -- schemas


def doubling(levels: int, **top: Any) -> dict[str, Any]:
    """A schema of a few hundred bytes in which each definition refers to the next one twice."""
    names = [f"d{n}" for n in range(levels + 1)]
    twice = {name: {"allOf": [{"$ref": f"#/$defs/{below}"}] * 2} for name, below in pairwise(names)}
    return {"$defs": {**twice, names[-1]: {"type": "string"}}, **top}


def doubling_below(levels: int) -> dict[str, Any]:
    """The same, with one level per level of the answer: nothing is wrong with it until an answer is that deep."""
    names = [f"d{n}" for n in range(levels + 1)]
    twice = {name: {"items": {"allOf": [{"$ref": f"#/$defs/{below}"}] * 2}} for name, below in pairwise(names)}
    return {"$defs": {**twice, names[-1]: {}}, "$ref": "#/$defs/d0"}


FIRST = {"$ref": "#/$defs/d0"}
SCHEMAS = {
    "at the root": doubling(22, **FIRST),
    "many levels": doubling(90, **FIRST),
    "in items": doubling(40, items=FIRST),
    "in properties": doubling(40, properties={"a": FIRST}),
    "when it is a list": doubling(40, **{"if": {"type": "array"}, "then": FIRST}),
    "unevaluated": doubling(40, allOf=[FIRST], unevaluatedItems=False),
    "anchors": {
        "$defs": {f"d{n}": {"$anchor": f"a{n}", "anyOf": [{"$ref": f"#a{n + 1}"}] * 3} for n in range(30)}
        | {"d30": {"$anchor": "a30"}},
        "$ref": "#a0",
    },
}


@pytest.mark.parametrize("command", ["validate", "eval"])
def test_schemas_with_multiplying_references_are_refused(project: Project, command: str) -> None:
    project.write("bomb.json", json.dumps(SCHEMAS["at the root"]))
    inline = [{"name": name, "type": "json_schema", "schema": schema} for name, schema in SCHEMAS.items()]
    write(project, *inline, {"type": "json_schema", "schema": "bomb.json"})
    done = assert_refused(project, command, "its references multiply to more checks")
    assert done.output.count("its references multiply") == len(SCHEMAS) + 1


def test_many_references_to_anchors_are_resolved_in_linear_time(project: Project) -> None:
    definitions = {f"d{n}": {"type": "string"} for n in range(400)} | {"a": {"$anchor": "x", "type": "string"}}
    write(project, {"type": "json_schema", "schema": {"$defs": definitions, "anyOf": [{"$ref": "#x"}] * 400}})
    done = finish(project.start("validate", "suite.yaml"))
    assert done.code == 0, done.output


def test_schema_that_only_an_answer_makes_slow_blocks_neither_the_loop_nor_interrupts(
    project: Project, heartbeat: Heartbeat
) -> None:
    target = {"response": '"short"', "rules": [{"match": "deep", "response": "[" * 26 + "]" * 26}]}
    checks = {"type": "json_schema", "schema": doubling_below(26)}
    write(project, checks, target=target, inputs=["plain", "deep"])
    process = project.start("eval", "suite.yaml", "--workers", "1", env=heartbeat.env)
    wait_for(lambda: bool(workers_of(process.pid)) and len(project.rows()) == 1)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.code == 130, done.output
    assert [row["verdict"] for row in project.rows()] == ["pass"]
    heartbeat.assert_steady()


@pytest.mark.soak
def test_validation_that_takes_too_long_is_an_error_of_its_case_alone(project: Project, heartbeat: Heartbeat) -> None:
    target = {"response": '"short"', "rules": [{"match": "deep", "response": "[" * 26 + "]" * 26}]}
    write(
        project,
        {"type": "json_schema", "schema": doubling_below(26)},
        {"name": "unevaluated", "type": "json_schema", "schema": doubling_below(26) | {"unevaluatedItems": False}},
        target=target,
        inputs=["plain", "deep", "deep", "deep", "plain"],
    )
    done = project.run("eval", "suite.yaml", env=heartbeat.env)
    assert done.returncode == 3, done.stderr
    rows = {row["eval_id"]: row for row in project.rows()}
    assert [rows[f"case-{n}"]["verdict"] for n in (0, 4)] == ["pass", "pass"]
    assert all("took longer than 5 s" in rows[f"case-{n}"]["error"]["message"] for n in (1, 2, 3))
    heartbeat.assert_steady()


@pytest.mark.parametrize("answer", ["1e400", "-1e400", "1" + "0" * 400, "1e308", "0.1", "3" * 4_000])
@pytest.mark.parametrize("divisor", [0.3, 7, 1e-300])
def test_huge_numbers_are_compared_with_multiple_of(answer: str, divisor: float) -> None:
    violations = schemas.compiled(json.dumps({"multipleOf": divisor})).violations(json.loads(answer), 5)
    expected = Fraction(answer) / Fraction(str(divisor)) if "e400" not in answer else Fraction(1, 2)
    assert bool(violations) == (expected.denominator != 1)


def test_numbers_that_no_float_can_represent_are_violations_not_errors(project: Project) -> None:
    rules = [{"match": f"case {n}", "response": text} for n, text in enumerate(["1e400", "1" + "0" * 400])]
    write(
        project,
        {"type": "json_schema", "schema": {"multipleOf": 0.3, "type": "number"}},
        target={"rules": rules},
        inputs=["case 0", "case 1"],
    )
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 1, done.stderr
    assert [(row["score"], row["error"]) for row in project.rows()] == [(0, None), (0, None)]


def test_deeply_nested_answer_is_validated_against_a_recursive_schema(project: Project, heartbeat: Heartbeat) -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]}
    rules = [
        {"match": "good", "response": "[" * 400 + "]" * 400},
        {"match": "bad", "response": "[" * 400 + "1" + "]" * 400},
    ]
    write(project, {"type": "json_schema", "schema": schema}, target={"rules": rules}, inputs=["good", "bad"])
    done = project.run("eval", "suite.yaml", env=heartbeat.env)
    assert done.returncode == 1, done.stderr
    assert sorted(row["verdict"] for row in project.rows()) == ["fail", "pass"]
    heartbeat.assert_steady()


# -- long answers

LONG = {
    "is_json": ({"type": "is_json"}, "[" + "1e100," * 300_000 + "1]"),
    "not JSON": ({"type": "is_json"}, '{"a": [' + '{"b": 1},' * 200_000 + "x"),
    "json_schema": ({"type": "json_schema", "schema": {"items": {"type": "string"}}}, json.dumps(list(range(300_000)))),
    "field_accuracy": (
        {"type": "field_accuracy", "fields": [{"path": "a[7]", "match": "exact"}]},
        json.dumps({"a": list(range(300_000))}),
    ),
    "fields in prose": (
        {"type": "field_accuracy", "fields": [{"path": "a", "match": "exact"}]},
        "{a} " * 300_000 + '{"a": 1}',
    ),
    "similarity": ({"type": "similarity", "value": "word " * 2_000}, "other " * 20_000),
    "words": ({"type": "similarity", "metric": "jaccard", "value": "word"}, "ünïque " * 300_000),
    "icontains": ({"type": "icontains", "value": [f"ﬃ{n}" for n in range(100)]}, "Straße " * 100_000),
    "regex": ({"type": "regex", "pattern": r"(\w+)\s\1\s!"}, "word " * 200_000),
}


@pytest.mark.parametrize(("evaluator", "answer"), LONG.values(), ids=LONG)
async def test_evaluators_do_not_block_the_loop_on_long_answers(evaluator: dict[str, Any], answer: str) -> None:
    context = EvaluationContext(EvalCase("case", "", (), reference_answer='{"a": 1}'), Candidate(answer))
    result, longest = await while_beating(judge(an_evaluator(**evaluator), context))
    assert result.error is None or "timed out" in result.error
    assert longest < LIMIT_MS / 1000


async def test_long_traces_do_not_block_the_loop() -> None:
    calls = tuple(ToolCall("search", {"q": n}) for n in range(5_000))
    candidate = Candidate("done", (Message("assistant", None, tool_calls=calls),))
    expected = [{"tool": "search", "args": {"q": -n}} for n in range(20)]
    evaluator = an_evaluator("tool_trajectory", mode="in_order", expected=expected)
    result, longest = await while_beating(judge(evaluator, EvaluationContext(EvalCase("case", "", ()), candidate)))
    assert result.score == 1 / 20
    assert longest < LIMIT_MS / 1000


async def while_beating(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The result, and the longest time for which this event loop was blocked on the CPU."""
    task = asyncio.ensure_future(work)
    longest, last = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return task.result(), longest


# -- judges

BRACES = "{a}" * 4_990
VERDICT = '{"score": 1.0, "hits": [], "misses": [], "reasoning": "as asked"}'
REPLIES = {
    "braces": BRACES + VERDICT,
    "many verdicts": " ".join([VERDICT] * 90),
    "keys without end": "{" + '"": 1' + " " * 30_000 + ", 'score': 1, 'hits': [], 'misses': [], 'reasoning': 'x'",
    "quotation marks": '{"score": 1, "hits": ["' + '\\"' * 200 + "'" * 15_000,
    "half an object": '{"score": 1, "hits": [' + '"x", ' * 150_000,
}


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(reply, id=name, marks=() if name in ("braces", "keys without end") else pytest.mark.soak)
        for name, reply in REPLIES.items()
    ],
)
def test_reply_of_a_judge_about_a_long_answer_does_not_block_the_loop(
    project: Project, heartbeat: Heartbeat, reply: str
) -> None:
    write(project, {"type": "llm_judge"}, target={"response": '{"a": 1} ' * 30_000})
    config = json.loads((project.root / "agentv.config.yaml").read_text())
    config["targets"]["judge"] = {"provider": "mock", "response": reply}
    config["defaults"] = {"target": "scripted", "judge_target": "judge"}
    project.write("agentv.config.yaml", json.dumps(config))
    done = project.run("eval", "suite.yaml", env=heartbeat.env)
    assert done.returncode in (0, 3), done.stderr
    heartbeat.assert_steady()
