"""A run with cases that a bookshop does not have: long, deep, refused, required, judged twice, without prompts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentv.jsonio import dump_line
from tests.view.bookshop import Bookshop

RUN = "20261116-090000-0000000aa"
STEPS = 600
LONG = 5 * 2**20
DEEP = 10_000
TARGET = "agent"


def write_odd_run(root: Path) -> Bookshop:
    """A project with one run, named `odd`."""
    (root / ".git").mkdir(parents=True)
    directory = root / ".agentv" / "runs" / RUN
    directory.mkdir(parents=True)
    rows = [
        _row("long-answer", candidate_answer=f"It begins.\n{'word ' * (LONG // 5)}\nIt ends."),
        _row("deep-answer", candidate_answer='{"a":' * DEEP + "1" + "}" * DEEP, evaluator_results=[_deep_result()]),
        _row("many-steps", output_messages=_steps()),
        _row("required", score=0.0, verdict="fail", evaluator_results=[_result("gate", 0.5, required=True), _result()]),
        _row("refused", **_error("gate: 2 calls refused"), evaluator_results=[_refused()]),
        _row("without-prompts", evaluator_results=[_judged(1)]),
        _row("judged-twice", evaluator_results=[_judged(1)]),
        _row("parts"),
        _row("without-case"),
        _row("nested", score=0.5, verdict="fail", evaluator_results=[_nested()]),
        _row("cut-off", finish_reason="length", warnings=["the cost is out of range"], replayed="20261101-000000-1"),
    ]
    old = {**rows[6], **_error("gate: the judge failed")}
    calls = [_call("without-prompts"), _call("judged-twice", 1, status="failed", error="overloaded"), _call_2()]
    cases = [_case(row["eval_id"]) for row in rows if row["eval_id"] != "without-case"]
    _write(directory / "results.jsonl", rows)
    _write(directory / "superseded.jsonl", [old])
    _write(directory / "cases.jsonl", cases)
    _write(directory / "judge_calls.jsonl", calls)
    manifest = {
        "run_id": RUN,
        "name": "odd",
        "status": "finished",
        "started_at": "2026-11-16T09:00:00Z",
        "finished_at": "2026-11-16T09:00:09Z",
        "total": len(rows),
        "suites": [{"path": "evals/odd.yaml", "name": "odd", "cases": len(rows), "targets": [TARGET]}],
    }
    (directory / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    return Bookshop(root, {"odd": RUN})


def _row(eval_id: str, **more: Any) -> dict[str, Any]:
    return {
        "run_id": RUN,
        "eval_id": eval_id,
        "suite": "odd",
        "target": TARGET,
        "attempt": 1,
        "score": 1.0,
        "verdict": "pass",
        "error": None,
        "candidate_answer": f"The answer of {eval_id}.",
        "output_messages": [],
        "hits": [],
        "misses": [],
        "reasoning": "",
        "evaluator_results": [_result()],
        "trace_summary": None,
        "token_usage": None,
        "cost_usd": None,
        "duration_ms": None,
        "started_at": "2026-11-16T09:00:00.000+00:00",
        "metadata": {},
        "finish_reason": None,
        "threshold": 0.8,
        "case_sha256": None,
        "model": None,
        **more,
    }


def _error(message: str) -> dict[str, Any]:
    return {"score": 0.0, "verdict": "fail", "error": {"stage": "evaluator", "message": message}}


def _result(name: str = "check", score: float = 1.0, **more: Any) -> dict[str, Any]:
    verdict = "pass" if score >= 0.8 else "fail"
    known = {"name": name, "type": "code_judge", "score": score, "weight": 1.0, "verdict": verdict, "required": False}
    rest: dict[str, Any] = {"error": None, "warnings": [], "hits": [], "misses": [], "reasoning": "", "details": None}
    return {**known, **rest, "duration_ms": 3.0, **more}


def _spend(count: int, **more: Any) -> dict[str, Any]:
    return {"target": "judge", "call_count": count, "max_calls": 3, "cost_usd": None, "token_usage": None, **more}


def _refused() -> dict[str, Any]:
    message = "the script made more than 3 judge calls"
    return _result("gate", 0.0, error=message, judge_proxy=_spend(3, refused_calls=2, failed_calls=1, from_record=3))


def _judged(count: int) -> dict[str, Any]:
    return _result("gate", judge=_spend(count, cache_hits=1, repaired=True))


def _deep_result() -> dict[str, Any]:
    value: Any = "bottom"
    for _ in range(150):
        value = {"in": value}
    return _result(details={"tree": value, "wide": list(range(5000))})


def _nested() -> dict[str, Any]:
    leaf = _result("leaf", 0.5, misses=["never says 'please'"])
    inner = _result("inner", 0.5, type="composite", evaluator_results=[leaf])
    return _result("outer", 0.5, type="composite", misses=["[inner] never says 'please'"], evaluator_results=[inner])


def _steps() -> list[dict[str, Any]]:
    return [
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "tool": ("search", "read", "write")[n % 3],
                    "input": {"path": f"src/file{n % 100}.py"},
                    "output": "\n".join(f"line {k} of step {n + 1}" for k in range(40 if n % 5 == 0 else 3)),
                    "timestamp": f"2026-11-16T09:{n // 60 % 60:02}:{n % 60:02}.000+00:00",
                }
            ],
        }
        for n in range(STEPS)
    ]


def _call(eval_id: str, execution: int | None = None, **more: Any) -> dict[str, Any]:
    key = {"suite": "odd", "eval_id": eval_id, "case_target": TARGET, "case_attempt": 1}
    call = {"evaluator": "gate", "index": 1, "target": "judge", "status": "ok", "code": None, "eval_case_id": eval_id}
    rest = {"attempt": 1, "started_at": "2026-11-16T09:00:01.000+00:00", "duration_ms": 7.0, **more}
    return {**key, **call, **rest, **({"execution": execution} if execution and execution > 1 else {})}


def _call_2() -> dict[str, Any]:
    reply = {"rawText": '{"score": 1}', "outputMessages": []}
    flags = {"retries": 2, "cache_hit": True, "replayed": True, "waited_ms": 80.0, "options": {"temperature": 0.5}}
    messages = [{"role": "system", "content": "Be strict."}, {"role": "user", "content": "Is it **good**?"}]
    return _call("judged-twice", 2, reply=reply, messages=messages, **flags)


def _case(eval_id: str) -> dict[str, Any]:
    asked: list[dict[str, Any]] = [{"role": "user", "content": f"The question of {eval_id}?"}]
    expected: list[dict[str, Any]] = []
    if eval_id == "parts":
        parts = [
            {"type": "text", "value": "Read this."},
            {"type": "file", "value": "docs/prices.md"},
            {"type": "image", "url": "pixel.png"},
        ]
        asked = [{"role": "user", "name": "ada", "content": parts}]
        expected = [{"role": "assistant", "tool_calls": [{"tool": "lookup", "input": {"id": 7}}]}]
    return {
        "suite": "odd",
        "eval_id": eval_id,
        "input_messages": asked,
        "expected_messages": expected,
        "threshold": 0.8,
        "evaluators": [{"name": "gate", "type": "code_judge", "required": True, "options": {"script": ["sh", "x.sh"]}}],
        "metadata": {"notes": "a long text\nof two lines"},
        "sha256": "0" * 64,
        "file": "evals/odd.yaml",
        "line": 3,
    }


def _write(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{dump_line(line)}\n" for line in lines), encoding="utf-8")
