"""Looking at a case of a large run: `agentv show` of the worst case and of a named one, including start-up."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from agentv.codec import encode
from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.jsonio import dump_line
from agentv.messages import Message, TokenUsage
from agentv.record.rows import encode_row
from agentv.results import CaseResult, EvaluatorResult, verdict_for
from benchmarks.measure import agentv, median_cpu, median_wall, run, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "looking"
_ANSWER_WORDS = 380
_PROMPT_WORDS = 300
_PARSE = """
import json, pathlib
with next(pathlib.Path('.').rglob('results.jsonl')).open() as file:
    for line in file:
        json.loads(line)
"""
_NAMES = {"worst": "agentv show", "named": "agentv show CASE", "parse": "json.loads of every row"}


def measure(options: Options) -> Report:
    count = options.pick(100_000, 200)
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        options.say(f"writing a run of {count:,} rows ...")
        megabytes = write_run(directory / ".agentv" / "runs" / "20260101-000000-000abcdef", count)
        contestants = {
            "parse": lambda: run([sys.executable, "-c", _PARSE], cwd=directory),
            "worst": lambda: run(agentv("show"), cwd=directory),
            "named": lambda: run(agentv("show", f"case-{count // 2}"), cwd=directory),
        }
        for contestant in contestants.values():
            contestant()  # warm-up: compiled files and the disk cache
        turns = take_turns(contestants, options.pick(7, 1), options.say)
    walls = {name: median_wall(usages) for name, usages in turns.items()}
    cpus = {name: median_cpu(usages) for name, usages in turns.items()}
    figures = [
        Figure("agentv show / json.loads of every row, CPU", cpus["worst"] / cpus["parse"], goal=1.0),
        Figure("agentv show CASE / json.loads of every row, CPU", cpus["named"] / cpus["parse"], goal=1.0),
        *(Figure(f"{name}, wall", walls[key], "s") for key, name in _NAMES.items()),
        *(Figure(f"{name}, CPU", cpus[key], "s") for key, name in _NAMES.items()),
        Figure("agentv show, memory", max(usage.peak_mb for usage in turns["worst"]), "MB"),
    ]
    return Report(NAME, figures, details={"rows": count, "megabytes": megabytes, "wall_s": walls, "cpu_s": cpus})


def write_run(directory: Path, count: int) -> dict[str, float]:
    """Write a finished run: rows of 3.5 kB, its cases, and one judge call with prompt and reply for each row."""
    choose = random.Random(7)
    words = [f"word{number}" for number in range(2000)]
    directory.mkdir(parents=True)
    manifest = {"run_id": directory.name, "status": "finished", "started_at": "2026-01-01T00:00:00Z", "total": count}
    (directory / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    paths = [directory / name for name in ("results.jsonl", "cases.jsonl", "judge_calls.jsonl")]
    with paths[0].open("wb") as rows, paths[1].open("w") as cases, paths[2].open("w") as calls:
        for number in range(count):
            prose = " ".join(choose.choices(words, k=_ANSWER_WORDS))
            rows.write(encode_row(_row(number, prose, round(choose.random(), 3))))
            question = Message("user", prose[:300])
            cases.write(dump_line(encode(CaseRecord("suite", f"case-{number}", "0" * 64, (question,)))) + "\n")
            prompt = " ".join(choose.choices(words, k=_PROMPT_WORDS))
            calls.write(dump_line(encode(_call(number, prompt))) + "\n")
    return {path.name: path.stat().st_size / 1e6 for path in paths}


def _row(number: int, answer: str, score: float) -> CaseResult:
    verdict = verdict_for(score)
    judged = EvaluatorResult(
        "judge",
        "llm_judge",
        score,
        1.0,
        verdict,
        misses=(answer[:100],),
        reasoning=answer[:300],
        judge={"target": "strict", "call_count": 1},
    )
    return CaseResult(
        run_id="20260101-000000-000abcdef",
        eval_id=f"case-{number}",
        suite="suite",
        target="target",
        attempt=1,
        score=score,
        verdict=verdict,
        candidate_answer=answer,
        evaluator_results=(judged,),
        token_usage=TokenUsage(100, 400),
        threshold=0.8,
    )


def _call(number: int, prompt: str) -> JudgeCallRecord:
    return JudgeCallRecord(
        "suite",
        f"case-{number}",
        "target",
        1,
        "judge",
        1,
        "strict",
        "ok",
        question=prompt,
        system_prompt=prompt[:500],
        reply={"rawText": prompt[:200]},
    )
