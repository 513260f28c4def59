"""Export the rows of a run as Parquet: one file for rows, and one for judge calls on request.

The columns and their types are always the same, whatever the run contains, so that files of many runs can be read as
one table. Values without a fixed form (metadata, tool calls, details) are columns with JSON text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.errors import UsageError
from agentv.evidence import JudgeCallRecord
from agentv.record.files import failure, replaced
from agentv.report.export import judge_cost
from agentv.report.joined import JoinedRun, flattened, question_of
from agentv.results import CaseResult, EvaluatorResult, judge_ledgers

ROW_GROUP = 2000
"""Rows in one group, which is the unit of reading."""
GROUP_CHARACTERS = 32 * 1024 * 1024
"""A group ends earlier when its text reaches this size, so that memory stays bounded."""

KEY = {"run_id": "string", "suite": "string", "eval_id": "string", "target": "string", "attempt": "int"}
USAGE = {"input_tokens": "int", "output_tokens": "int", "cached_tokens": "int", "cost_usd": "float"}
EVALUATOR = {
    "name": "string",
    "type": "string",
    "score": "float",
    "weight": "float",
    "required": "bool",
    "verdict": "string",
    "error": "string",
    "hits": "strings",
    "misses": "strings",
    "reasoning": "string",
    "details": "string",
    "duration_ms": "float",
}
ROW = {
    **KEY,
    "score": "float",
    "verdict": "string",
    "threshold": "float",
    "error_stage": "string",
    "error": "string",
    "question": "string",
    "candidate_answer": "string",
    "expected_outcome": "string",
    "reference_answer": "string",
    "tags": "strings",
    "metadata": "string",
    "hits": "strings",
    "misses": "strings",
    "reasoning": "string",
    "evaluator_results": "evaluators",
    "output_messages": "string",
    "trace_summary": "string",
    "conversation_id": "string",
    "model": "string",
    "finish_reason": "string",
    **USAGE,
    "duration_ms": "float",
    "started_at": "time",
    "judge_calls": "int",
    "judge_cost_usd": "float",
    "case_sha256": "string",
    "prompt": "string",
}
CALL = {
    **KEY,
    "evaluator": "string",
    "index": "int",
    "judge_target": "string",
    "status": "string",
    "execution": "int",
    "code": "string",
    "error": "string",
    "system_prompt": "string",
    "question": "string",
    "messages": "string",
    "options": "string",
    "answer": "string",
    "reply": "string",
    "model": "string",
    "finish_reason": "string",
    **USAGE,
    "batch": "bool",
    "retries": "int",
    "cache_hit": "bool",
    "waited_ms": "float",
    "duration_ms": "float",
    "started_at": "time",
    "request_sha256": "string",
}


def refuse_without_pyarrow() -> None:
    """UsageError if the library for Parquet is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - large, and only needed here
    except ImportError:
        raise UsageError(
            "--to parquet requires pyarrow, which is not installed.",
            next_step="Install it: pip install 'agentv[parquet]'",
        ) from None


def write_rows(run: JoinedRun, path: Path) -> int:
    """Write all rows to a file, which is replaced when they are complete. Returns their number."""
    return _write(path, ROW, (_row(row, run) for row in run.source.rows()))


def write_calls(run: JoinedRun, path: Path) -> int:
    """Write all judge calls to a file, which is replaced when they are complete. Returns their number."""
    calls = (_call(row, call) for row in run.source.rows() for call in run.calls(row))
    return _write(path, CALL, calls)


def _row(row: CaseResult, run: JoinedRun) -> dict[str, Any]:
    case, error = run.case(row), row.error
    return {
        **row.to_dict(),
        **_usage(row),
        "score": None if error else row.score,
        "verdict": None if error else row.verdict.value,
        "error_stage": error.stage if error else None,
        "error": error.message if error else None,
        "question": question_of(case, row),
        "expected_outcome": case.expected_outcome if case else None,
        "reference_answer": case.reference_answer if case else None,
        "tags": case.tags if case else (),
        "evaluator_results": [_evaluator(*named) for named in flattened(row.evaluator_results)],
        "judge_calls": sum(ledger.get("call_count") or 0 for ledger in judge_ledgers(row.evaluator_results)),
        "judge_cost_usd": judge_cost(row),
    }


def _evaluator(name: str, result: EvaluatorResult) -> dict[str, Any]:
    errored = result.error is not None
    scored = {"score": None, "verdict": None} if errored else {"score": result.score, "verdict": result.verdict.value}
    return _cells(EVALUATOR, {**result.to_dict(), **scored, "name": name})


def _call(row: CaseResult, call: JudgeCallRecord) -> dict[str, Any]:
    values = {name: getattr(call, name) for name in CALL if hasattr(call, name)}
    reply = call.reply or {}
    messages = [message.to_dict() for message in call.messages]
    key = {"run_id": row.run_id, "target": row.target, "attempt": row.attempt, "judge_target": call.target}
    content = {"messages": messages or None, "answer": reply.get("rawText"), "reply": call.reply}
    return {**values, **key, **_usage(call), **content, "execution": call.execution or 1}


def _usage(record: CaseResult | JudgeCallRecord) -> dict[str, Any]:
    usage = record.token_usage
    counts = (usage.input, usage.output, usage.cached) if usage else (None, None, None)
    return dict(zip(USAGE, (*counts, record.cost_usd), strict=True))


# -- files


def _write(path: Path, columns: Mapping[str, str], records: Iterable[dict[str, Any]]) -> int:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = pa.schema([(name, _type(kind)) for name, kind in columns.items()])
    written = 0
    try:
        with replaced(path) as descriptor, os.fdopen(os.dup(descriptor), "wb") as file:
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                for group in _groups(_cells(columns, record) for record in records):
                    writer.write_table(pa.Table.from_pylist(group, schema), row_group_size=len(group))
                    written += len(group)
            file.flush()
    except OSError as error:
        raise failure("write", path, error, "Choose another --out.") from error
    return written


def _groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(group) >= ROW_GROUP or size >= GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _type(kind: str) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    if kind == "evaluators":
        return pa.list_(pa.struct([(name, _type(inner)) for name, inner in EVALUATOR.items()]))
    types: dict[str, Callable[[], Any]] = {
        "string": pa.string,
        "int": pa.int64,
        "float": pa.float64,
        "bool": pa.bool_,
        "strings": lambda: pa.list_(pa.string()),
        "time": lambda: pa.timestamp("us", tz="UTC"),
    }
    return types[kind]()


def _cells(columns: Mapping[str, str], record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _cell(kind, record.get(name)) for name, kind in columns.items()}


def _cell(kind: str, value: Any) -> Any:
    if value is None:
        return [] if kind == "strings" else None
    if kind == "string" and not isinstance(value, str):
        return jsonio.dump_line(value)
    if kind == "strings":
        return [str(item) for item in value]
    if kind == "time":
        return _moment(value)
    return value


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
