"""`agentv report` on rows with an invalid value in any field: an error message, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from agentv.cli.program import run
from agentv.codec import decode
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.results import CaseError, CaseResult, EvaluatorResult, JudgeSpend, Trials, TurnRecord, Verdict
from tests.conftest import Project
from tests.record.rows import make_row

SPEND: dict[str, Any] = {"target": "judge", "call_count": 1, "token_usage": {"input": 1, "output": 2, "cached": 3}}
EXECUTION = {"node": "n", "tries": 2, "lost_on": ["m"], "lost_calls": 1, "lost_cost_usd": 0.5}
OBJECTS: dict[str | int, Any] = {"judge": SPEND, "judge_proxy": SPEND, "execution": EXECUTION}
MEMBER = EvaluatorResult("m", "contains", 0.5, 1.0, Verdict.FAIL, judge=SPEND, judge_proxy=SPEND)
ROW = make_row(
    error=CaseError("evaluator", "could not judge"),
    output_messages=(Message("assistant", "Paris", tool_calls=(ToolCall("search", id="1"),)),),
    evaluator_results=(EvaluatorResult("c", "composite", 0.5, 1.0, Verdict.FAIL, evaluator_results=(MEMBER,)),),
    token_usage=TokenUsage(1, 2, 3),
    score=0.5,
    verdict=Verdict.FAIL,
    trials=Trials(2),
    turns=(
        TurnRecord(
            (Message("user", "Where?", tool_calls=(ToolCall("search", id="1"),)),),
            "Paris",
            (Message("assistant", "Paris", tool_calls=(ToolCall("search", id="1"),)),),
            token_usage=TokenUsage(1, 2, 3),
            user_token_usage=TokenUsage(1, 2, 3),
        ),
    ),
)
WRONG: list[Any] = [5, -1, 7.5, 10**400, True, "yes", "", [], [5], [None], [{}], {}, {"a": 1}]


def paths(cls: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The JSON paths of all fields of a row, including nested dataclasses (evaluator results two levels deep)."""
    hints = get_type_hints(cls, include_extras=True)
    for name, hint in hints.items():
        yield (*at, name)
        for inner, index in inner_classes(hint):
            if at.count("evaluator_results") < 2:
                yield from paths(inner, (*at, name, *index))


def inner_classes(hint: Any) -> Iterator[tuple[Any, tuple[int, ...]]]:
    if is_dataclass(hint) or is_typeddict(hint):
        yield hint, ()
    for part in get_args(hint):
        yield from ((cls, (0,) if get_origin(hint) is tuple else index) for cls, index in inner_classes(part))


PATHS = sorted(set(paths(CaseResult)), key=str)


def spelled(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]


def changed(path: tuple[str | int, ...], value: Any) -> bytes:
    data: Any = json.loads(json.dumps(ROW.to_dict()))
    node = data
    for part in path[:-1]:
        if isinstance(node, dict) and part in OBJECTS:
            node = node.setdefault(part, json.loads(json.dumps(OBJECTS[part])))
        else:
            node = node.setdefault(part, [{}]) if isinstance(node, dict) else node[part]
    node[path[-1]] = value
    return json.dumps(data).encode() + b"\n"


def test_fields_of_every_class_in_a_row_are_covered():
    tried = {name for path in PATHS for name in path if isinstance(name, str)}
    for cls in (CaseResult, EvaluatorResult, CaseError, Message, ToolCall, TokenUsage):
        assert {field.name for field in fields(cls)} <= tried
    assert set(JudgeSpend.__annotations__) <= tried


def is_user_data(path: tuple[str | int, ...]) -> bool:
    return path[-1] == "content" or ("tool_calls" in path and path[-1] in ("input", "output"))


@pytest.mark.parametrize("path", PATHS, ids=spelled)
def test_invalid_value_in_any_field_is_reported_with_its_path(
    path: tuple[str | int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "rows.jsonl"
    messages = []
    for value in WRONG:
        file.write_bytes(changed(path, value))
        code = run(["report", str(file)])
        error = capsys.readouterr().err
        assert code in (0, 2), f"{spelled(path)} = {value!r}: {error}"
        if code:
            messages.append(error)
            continue
        for shape in ("junit", "github"):
            assert run(["report", str(file), "--format", shape]) == 0, f"{value!r}: {capsys.readouterr().err}"
    assert is_user_data(path) or any(f"`{spelled(path)}" in message for message in messages)


@pytest.mark.parametrize(("field", "value"), [("judge", 5), ("required", "yes"), ("score", 7.5), ("misses", [5])])
def test_invalid_evaluator_result_is_reported_as_an_invalid_row(tmp_path: Path, field: str, value: Any):
    project = Project(tmp_path)
    (tmp_path / "rows.jsonl").write_bytes(changed(("evaluator_results", 0, field), value))
    done = project.run("report", "rows.jsonl")
    assert done.returncode == 2
    assert f"rows.jsonl line 1 is not a valid row: `evaluator_results[0].{field}" in done.stderr
    assert "Traceback" not in done.stderr
    assert "bug in agentv" not in done.stderr


def test_optional_fields_may_be_missing_or_null():
    needed = {"run_id", "eval_id", "suite", "target", "attempt", "score", "verdict"}
    data = {name: value for name, value in ROW.to_dict().items() if name in needed}
    bare = decode(CaseResult, data)
    assert decode(CaseResult, {**dict.fromkeys(ROW.to_dict()), **data}) == bare
    assert (bare.hits, bare.metadata, bare.candidate_answer, bare.cost_usd) == ((), {}, "", None)


def test_unknown_keys_are_ignored():
    assert decode(CaseResult, {**ROW.to_dict(), "of_a_later_version": 1}) == ROW


def test_deeply_nested_row_is_rejected():
    data = EvaluatorResult("m", "composite", 0.5, 1.0, Verdict.FAIL).to_dict()
    for _ in range(400):
        data = {**data, "evaluator_results": [data]}
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(CaseResult, {**ROW.to_dict(), "evaluator_results": [data]})
