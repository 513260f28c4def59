"""A large run directory: rows of 3.5 kB with evaluators, tools, metadata and repeats; its cases and its judge calls.

`python -m benchmarks.large_run DIRECTORY [ROWS]` writes one to look at. The contents depend only on the seed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentv.codec import encode
from agentv.evidence import CaseRecord, EvaluatorRecord, JudgeCallRecord, encoded_case
from agentv.jsonio import dump_line
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.record.rows import encode_row
from agentv.results import (
    CaseError,
    CaseResult,
    EvaluatorResult,
    Trials,
    Verdict,
    verdict_for,
    weighted_mean,
)

RUN_ID = "20260101-000000-000abcdef"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_LANGUAGES = ("en", "fr", "de", "ja", "pt", "ar")
_DIFFICULTIES = ("easy", "medium", "hard")
_TAGS = ("smoke", "billing", "refunds", "shipping", "security", "long")
_TOOLS = ("search", "read_file", "http_get", "calculator", "send_mail")


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the run is, and what it contains."""

    rows: int = 100_000
    targets: tuple[str, ...] = ("small-model", "large-model")
    repeat: int = 1
    judge_calls: bool = True
    cases: bool = True
    answer_words: int = 140
    seed: int = 7
    shift: float = 0.0
    """Added to all scores, so that two runs of the same cases can be compared."""
    run_id: str = RUN_ID


def write_large_run(directory: Path, shape: Shape) -> dict[str, float]:
    """Write a finished run. Returns the sizes of its files in MB."""
    choose = random.Random(shape.seed)
    words = _words(choose)
    directory.mkdir(parents=True)
    paths = {name: directory / f"{name}.jsonl" for name in ("results", "cases", "judge_calls")}
    attempts, passed, errors = len(shape.targets) * shape.repeat, 0, 0
    count = max(1, shape.rows // attempts)
    with (
        paths["results"].open("wb") as rows,
        paths["cases"].open("w") as cases,
        paths["judge_calls"].open("w") as calls,
    ):
        written = 0
        for number in range(count):
            case = _case(number, choose, words)
            sha256 = "0" * 64
            if shape.cases:
                line = encoded_case(case)
                sha256 = line.sha256.hex()
                cases.write(f"{line.text}\n")
            for target in shape.targets:
                for attempt in range(1, shape.repeat + 1):
                    row = _row(shape, case, sha256, target, attempt, written, choose, words)
                    rows.write(encode_row(row))
                    written += 1
                    passed += row.error is None and row.verdict is Verdict.PASS
                    errors += row.error is not None
                    if shape.judge_calls and row.error is None:
                        call = _call(row, choose, words)
                        calls.write(f"{dump_line(encode(call))}\n")
    if not shape.cases:
        paths["cases"].unlink()
    if not shape.judge_calls:
        paths["judge_calls"].unlink()
    manifest = _manifest(shape, count, written, passed, errors)
    (directory / "run.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return {path.name: path.stat().st_size / 1e6 for path in paths.values() if path.exists()}


def _manifest(shape: Shape, cases: int, rows: int, passed: int, errors: int) -> dict[str, object]:
    return {
        "run_id": shape.run_id,
        "name": None,
        "status": "finished",
        "started_at": _START.isoformat(),
        "finished_at": (_START + timedelta(hours=2)).isoformat(),
        "agentv": "0.1.0",
        "cwd": str(Path.cwd()),
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "branch": "main", "dirty": False},
        "options": {"paths": ["support.yaml"], "max_cost": 500.0},
        "total": rows,
        "scripted": False,
        "suites": [
            {
                "path": "/project/support.yaml",
                "name": "support",
                "cases": cases,
                "all_cases": cases,
                "trials": encode(Trials(shape.repeat)),
                "targets": {target: ["strict-judge"] for target in shape.targets},
                "config": None,
                "files": ["/project/support.yaml"],
            }
        ],
        "digests": {"/project/support.yaml": "0" * 64},
        "configuration": {},
        "summary": {
            "total": rows // shape.repeat,
            "passed": passed // shape.repeat,
            "borderline": 0,
            "failed": (rows - passed - errors) // shape.repeat,
            "errors": errors // shape.repeat,
            "mean_score": 0.75,
            "mean_interval": [0.74, 0.76],
            "cost_usd": 120.5,
            "cost_complete": True,
            "judge_calls": rows,
            "judge_cost_usd": 30.25,
            "judge_cost_complete": True,
            "duration_seconds": 7200.0,
            "by_target": {target: {} for target in shape.targets},
        },
    }


def _words(choose: random.Random) -> list[str]:
    letters = "etaoinshrdlu"
    return ["".join(choose.choices(letters, k=choose.randint(2, 9))) for _ in range(3_000)]


def _prose(choose: random.Random, words: Sequence[str], count: int) -> str:
    return " ".join(choose.choices(words, k=count)).capitalize() + "."


def _case(number: int, choose: random.Random, words: Sequence[str]) -> CaseRecord:
    return CaseRecord(
        "support",
        f"{choose.choice(_TAGS)}-{number:06}",
        "",
        (Message("system", "You are a support agent."), Message("user", _prose(choose, words, 40))),
        expected_outcome=_prose(choose, words, 12),
        threshold=0.8,
        evaluators=(EvaluatorRecord("quality", "llm_judge", 2.0), EvaluatorRecord("cites", "contains", 1.0)),
        metadata={"lang": choose.choice(_LANGUAGES), "difficulty": choose.choice(_DIFFICULTIES), "ticket": number},
        tags=tuple(sorted(set(choose.choices(_TAGS, k=2)))),
        file="/project/support.yaml",
        line=number * 8 + 1,
    )


def _row(
    shape: Shape,
    case: CaseRecord,
    sha256: str,
    target: str,
    attempt: int,
    number: int,
    choose: random.Random,
    words: Sequence[str],
) -> CaseResult:
    failed = choose.random() < 0.01
    judged = () if failed else _judged(choose, words, shape.shift)
    score = weighted_mean(judged)
    answer = "" if failed else _prose(choose, words, shape.answer_words)
    tools = choose.choices(_TOOLS, k=choose.randint(0, 3))
    calls = tuple(ToolCall(tool, {"query": _prose(choose, words, 5)}, _prose(choose, words, 15)) for tool in tools)
    messages = (Message("assistant", tool_calls=calls),) if calls else ()
    return CaseResult(
        run_id=shape.run_id,
        eval_id=case.eval_id,
        suite=case.suite,
        target=target,
        attempt=attempt,
        score=score,
        verdict=verdict_for(score),
        error=CaseError("target", "HTTP 503: the model is overloaded") if failed else None,
        candidate_answer=answer,
        output_messages=(*messages, Message("assistant", answer)) if not failed else (),
        misses=tuple(miss for result in judged for miss in result.misses),
        evaluator_results=judged,
        token_usage=None if failed else TokenUsage(choose.randint(200, 2_000), choose.randint(50, 600)),
        cost_usd=None if failed else round(choose.random() / 100, 6),
        duration_ms=round(choose.expovariate(1 / 4_000), 3),
        started_at=(_START + timedelta(milliseconds=72 * number)).isoformat(timespec="milliseconds"),
        metadata=case.metadata,
        finish_reason="stop",
        threshold=0.8,
        case_sha256=sha256,
        model="model-2026-01",
        trials=Trials(shape.repeat) if shape.repeat > 1 else None,
    )


def _judged(choose: random.Random, words: Sequence[str], shift: float) -> tuple[EvaluatorResult, ...]:
    quality = min(1.0, max(0.0, round(choose.betavariate(4, 1.2) + shift, 2)))
    cites = float(choose.random() < 0.8)
    ledger = {
        "target": "strict-judge",
        "call_count": 1,
        "token_usage": {"input": choose.randint(300, 3_000), "output": 80},
        "cost_usd": round(choose.random() / 500, 6),
        "duration_ms": round(choose.expovariate(1 / 1_500), 3),
    }
    return (
        EvaluatorResult(
            "quality",
            "llm_judge",
            quality,
            2.0,
            verdict_for(quality),
            hits=(_prose(choose, words, 8),),
            misses=() if quality == 1 else (_prose(choose, words, 8),),
            reasoning=_prose(choose, words, 30),
            duration_ms=1_500.25,
            judge=ledger,
        ),
        EvaluatorResult(
            "cites",
            "contains",
            cites,
            1.0,
            verdict_for(cites),
            hits=("found 'policy'",) if cites else (),
            misses=() if cites else ("'policy' not found",),
            duration_ms=0.05,
        ),
    )


def _call(row: CaseResult, choose: random.Random, words: Sequence[str]) -> JudgeCallRecord:
    return JudgeCallRecord(
        row.suite,
        row.eval_id,
        row.target,
        row.attempt,
        "quality",
        1,
        "strict-judge",
        "ok",
        token_usage=TokenUsage(1_200, 80),
        cost_usd=0.001,
        started_at=row.started_at,
        duration_ms=1_500.25,
        model="judge-2026-01",
        question=f"{_prose(choose, words, 60)}\n\n{row.candidate_answer}",
        system_prompt="You are a strict judge. Answer with JSON.",
        reply={"rawText": '{"score": 0.8, "reasoning": "' + _prose(choose, words, 20) + '"}'},
    )


if __name__ == "__main__":
    where, *more = sys.argv[1:]
    print(write_large_run(Path(where), Shape(rows=int(more[0])) if more else Shape()))
