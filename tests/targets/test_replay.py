from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import InvalidFilesError, ProviderError, TargetUnavailableError, UsageError
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.results import CaseError, CaseResult, Verdict
from agentv.targets.answers import load_answers
from tests.targets.support import ask, make


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def row(eval_id: str, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"run_id": "r", "suite": "s", "target": "a", "attempt": 1, "score": 1.0}
    return CaseResult(**{**values, "eval_id": eval_id, "verdict": Verdict.PASS, **changes}).to_dict()


async def test_an_answer_is_found_by_id_with_all_its_figures(tmp_path):
    lines(
        tmp_path / "answers.jsonl",
        {"eval_id": "x", "candidate_answer": "other"},
        {
            "eval_id": "y",
            "output_messages": [{"role": "assistant", "content": "Paris", "tool_calls": [{"tool": "t"}]}],
            "token_usage": {"input": 1, "output": 2},
            "cost_usd": 0.5,
            "duration_ms": 7,
            "finish_reason": "length",
            "model": "gpt-4o-2024-08-06",
        },
    )
    replay = make(tmp_path, "replay", file="answers.jsonl")
    reply = await replay.invoke(ask(eval_id="y"))
    assert (reply.finish_reason, reply.model) == ("length", "gpt-4o-2024-08-06")
    assert reply.output_messages == (Message("assistant", "Paris", tool_calls=(ToolCall("t"),)),)
    assert (reply.token_usage, reply.cost_usd, reply.duration_ms) == (TokenUsage(1, 2), 0.5, 7.0)
    assert (await replay.invoke(ask(eval_id="x"))).text == "other"


async def test_a_line_without_attempt_answers_every_attempt_and_one_with_it_wins(tmp_path):
    lines(
        tmp_path / "a.jsonl",
        {"eval_id": "x", "candidate_answer": "any"},
        {"eval_id": "x", "candidate_answer": "second", "attempt": 2},
    )
    replay = make(tmp_path, "replay", file="a.jsonl")
    assert [(await replay.invoke(ask(eval_id="x", attempt=n))).text for n in (1, 2, 3)] == [
        "any",
        "second",
        "any",
    ]


async def test_rows_of_a_run_are_answers(tmp_path):
    lines(
        tmp_path / "results.jsonl",
        row("x", candidate_answer="from a", output_messages=(Message("assistant", "from a"),)),
        row("x", target="b", candidate_answer="from b"),
    )
    assert (
        await make(tmp_path, "replay", file="results.jsonl", from_target="b").invoke(ask(eval_id="x"))
    ).text == "from b"
    with pytest.raises(ProviderError, match=r"several answers for 'x'.*line 1.*line 2.*\n.*from_target"):
        await make(tmp_path, "replay", file="results.jsonl").invoke(ask(eval_id="x"))


async def test_a_missing_answer_is_an_error_with_a_next_step(tmp_path):
    path = lines(tmp_path / "a.jsonl", {"eval_id": "x", "candidate_answer": "a", "attempt": 1})
    replay = make(tmp_path, "replay", file="a.jsonl")
    with pytest.raises(ProviderError, match=f"target 't': {path} contains no answer to 'nope', attempt 1.\n"):
        await replay.invoke(ask(eval_id="nope"))
    with pytest.raises(ProviderError, match=r"'x', attempt 2.*\n.*another target or attempt"):
        await replay.invoke(ask(eval_id="x", attempt=2))


async def test_a_recorded_failure_is_not_an_answer_and_is_quoted_in_the_error(tmp_path):
    lines(
        tmp_path / "results.jsonl",
        row("x", error=CaseError("target", "HTTP 500"), verdict=Verdict.FAIL, score=0.0),
        row("y", error=CaseError("evaluator", "no judge"), candidate_answer="graded badly"),
        {"eval_id": "z", "candidate_answer": "Error: boom", "error": "boom"},
    )
    replay = make(tmp_path, "replay", file="results.jsonl")
    with pytest.raises(ProviderError, match=r"the recorded call had failed \(line 1: HTTP 500\)"):
        await replay.invoke(ask(eval_id="x"))
    assert (await replay.invoke(ask(eval_id="y"))).text == "graded badly"
    with pytest.raises(ProviderError, match="boom"):
        await replay.invoke(ask(eval_id="z"))
    assert load_answers(tmp_path / "results.jsonl").ids == {"y"}


def test_every_bad_line_is_reported_with_its_number(tmp_path):
    path = lines(
        tmp_path / "a.jsonl",
        {"eval_id": "fine", "candidate_answer": ""},
        "",
        "{nope",
        "[1]",
        {"candidate_answer": "x"},
        {"eval_id": "x"},
        {"eval_id": "x", "candidate_answer": 5},
        {"eval_id": "x", "candidate_answer": "x", "attempt": 0},
        {"eval_id": "x", "candidate_answer": "x", "cost_usd": -1},
        {"eval_id": "x", "output_messages": [{"role": 1}]},
        '{"eval_id": "x", "candidate_answer": "x", "duration_ms": NaN}',
        {"eval_id": "fine", "candidate_answer": "again"},
    )
    with pytest.raises(InvalidFilesError) as caught:
        load_answers(path)
    found = {problem.line: problem.message for problem in caught.value.problems}
    assert sorted(found) == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert "eval_id" in found[5]
    assert "neither" in found[6]
    assert found[12] == "'fine' is answered twice: here and in line 1; keep one of them"
    assert f"{path}:12:1" in str(caught.value)


def test_the_same_id_in_two_suites_targets_or_attempts_is_not_a_duplicate(tmp_path):
    path = lines(
        tmp_path / "a.jsonl",
        *(
            {
                "eval_id": "x",
                "suite": suite,
                "target": target,
                "attempt": attempt,
                "candidate_answer": f"{suite}{target}{attempt}",
            }
            for suite in "st"
            for target in "ab"
            for attempt in (1, 2)
        ),
    )
    found = load_answers(path).find("x", "b", 2, suite="t")
    assert found is not None
    assert found.text == "tb2"
    assert load_answers(path).find("x", "c", 1, suite="t") is None


def test_a_line_with_an_answer_and_messages_keeps_both(tmp_path):
    path = lines(
        tmp_path / "a.jsonl",
        {
            "eval_id": "x",
            "candidate_answer": "final",
            "output_messages": [{"role": "assistant", "tool_calls": [{"tool": "t"}]}],
        },
    )
    answer = load_answers(path).find("x")
    assert answer is not None
    assert answer.output_messages == (
        Message("assistant", tool_calls=(ToolCall("t"),)),
        Message("assistant", "final"),
    )


def test_a_missing_file_makes_the_target_unavailable(tmp_path):
    with pytest.raises(
        TargetUnavailableError, match=r"target 't' is not available: cannot read the recorded answers in .*gone.jsonl"
    ):
        make(tmp_path, "replay", file="gone.jsonl")
    with pytest.raises(UsageError, match="No such file"):
        load_answers(tmp_path / "gone.jsonl")


def test_an_unrecorded_from_target_makes_the_target_unavailable(tmp_path):
    lines(tmp_path / "a.jsonl", row("x", candidate_answer="x"))
    with pytest.raises(TargetUnavailableError, match=r"no answers of target 'z'.*only of a"):
        make(tmp_path, "replay", file="a.jsonl", from_target="z")
