"""Rows of AgentV (npm), read as ours and written from ours.

Versions 2 write one file of rows (`eval_id`, `dataset`, `evaluator_results`). Versions 4 and 5 write a directory with
`index.jsonl` (`test_id`, `suite`, `scores`), whose rows name files with the answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from agentv import jsonio
from agentv.codec import DecodeError, decode
from agentv.messages import Message, TokenUsage, final_text
from agentv.regular_files import FileUnusableError, read_regular
from agentv.results import CaseError, CaseResult, EvaluatorResult, Verdict, verdict_for

INDEX = "index.jsonl"
INDEXES = (INDEX, f".internal/{INDEX}")
"""Where a directory of results has its rows, in version 4 and in version 5."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
_ANSWERS = ("answer_path", "output_path", "response_path")
_STATUS = {True: "ok", False: "quality_failure"}
_NOT_WRITTEN: Mapping[str, str] = {
    "turns": "turns of conversations",
    "trace_summary": "summaries of tool calls",
    "prompt": "ids of prompts",
    "model": "names of models",
    "finish_reason": "finish reasons",
    "warnings": "warnings",
    "execution": "nodes",
}
"""Fields of our rows that AgentV's rows do not have, with their names in the plural."""


# -- reading


def index_in(directory: Path) -> Path | None:
    """The rows in a directory of AgentV's results; None if it is not one."""
    return next((path for name in INDEXES if (path := directory / name).is_file()), None)


def row_of(data: Any, folder: Path) -> CaseResult | None:
    """A row of AgentV in `folder` as ours; None if it is not one."""
    if not isinstance(data, dict) or "verdict" in data:
        return None
    data = {_snake(key): value for key, value in data.items()}
    name, score = data.get("eval_id", data.get("test_id")), data.get("score")
    if not isinstance(name, str) or not _is_unit(score):
        return None
    text = data.get("error") or None
    results = data.get("scores", data.get("evaluator_results"))
    evaluators = tuple(each for entry in _list(results) if (each := _evaluator(entry)) is not None)
    messages = _messages(data.get("output"))
    sample = data.get("sample_index")
    return CaseResult(
        run_id="",
        eval_id=name,
        suite=_text(data.get("suite") or data.get("dataset")),
        target=_text(data.get("target")),
        attempt=sample + 1 if isinstance(sample, int) and not isinstance(sample, bool) and sample >= 0 else 1,
        score=score,
        verdict=_verdict(score, data.get("execution_status"), data.get("threshold")),
        error=CaseError(_stage(data), str(text)) if text or data.get("execution_status") == "execution_error" else None,
        candidate_answer=_answer(data, messages, folder),
        output_messages=messages,
        hits=_strings(data.get("hits")) or tuple(hit for each in evaluators for hit in each.hits),
        misses=_strings(data.get("misses")) or tuple(miss for each in evaluators for miss in each.misses),
        reasoning=_text(data.get("reasoning")),
        evaluator_results=evaluators,
        token_usage=_usage(data.get("token_usage")),
        cost_usd=_number(data.get("cost_usd")),
        duration_ms=_number(data.get("duration_ms")),
        started_at=_text(data.get("timestamp")),
        metadata=data["metadata"] if isinstance(data.get("metadata"), dict) else {},
        conversation_id=data.get("conversation_id") if isinstance(data.get("conversation_id"), str) else None,
        threshold=data.get("threshold") if _is_unit(data.get("threshold")) else None,
    )


def _snake(key: str) -> str:
    """Keys of older rows are in camelCase."""
    return key if key.islower() else "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _stage(data: Mapping[str, Any]) -> str:
    return "evaluator" if data.get("failure_stage") == "evaluator" or data.get("scores") else "target"


def _verdict(score: float, status: object, threshold: object) -> Verdict:
    """The verdict, which AgentV records as a status without the threshold that it was compared with."""
    if status == _STATUS[True]:
        return Verdict.PASS
    verdict = verdict_for(score, threshold) if _is_unit(threshold) else verdict_for(score)
    if status in (_STATUS[False], "execution_error") and verdict is Verdict.PASS:
        return Verdict.BORDERLINE if status == _STATUS[False] else Verdict.FAIL
    return verdict


def _answer(data: Mapping[str, Any], messages: Sequence[Message], folder: Path) -> str:
    if isinstance(data.get("candidate_answer"), str):
        return str(data["candidate_answer"])
    if isinstance(data.get("output"), str):
        return str(data["output"])
    if messages:
        return final_text(messages)
    about = _file(folder, data.get("transcript_path")).partition("\n")[0]
    if about and f'"target":{jsonio.dump_line(_text(data.get("target")))}' not in about:
        return ""  # AgentV keeps one answer per case, which is that of another target
    return next((answer for key in _ANSWERS if (answer := _file(folder, data.get(key)))), "")


def _file(folder: Path, name: object) -> str:
    """The text of a file that a row names; empty if it cannot be read."""
    if not isinstance(name, str):
        return ""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        return ""  # rows may come from elsewhere, and must not name other files of this machine
    try:
        return read_regular(path, MAX_ANSWER_BYTES).decode("utf-8", "replace")
    except (OSError, FileUnusableError):
        return ""


def _evaluator(entry: Any) -> EvaluatorResult | None:
    if not isinstance(entry, dict) or not _is_unit(entry.get("score")):
        return None
    score, weight = entry["score"], entry.get("weight")
    checks = [each for each in _list(entry.get("assertions", entry.get("checks"))) if isinstance(each, dict)]
    passed = [(_text(each.get("text")), each.get("passed", each.get("pass")) is True) for each in checks]
    try:
        verdict = Verdict(_text(entry.get("verdict")))
    except ValueError:
        verdict = verdict_for(score)
    members = entry.get("scores", entry.get("evaluator_results"))
    return EvaluatorResult(
        name=_text(entry.get("name")),
        type=_text(entry.get("type")).replace("-", "_"),
        score=score,
        weight=weight if isinstance(weight, int | float) and not isinstance(weight, bool) and weight >= 0 else 1.0,
        verdict=verdict,
        hits=_strings(entry.get("hits")) or tuple(text for text, good in passed if good),
        misses=_strings(entry.get("misses")) or tuple(text for text, good in passed if not good),
        reasoning=_text(entry.get("reasoning", entry.get("reason"))),
        details=entry["details"] if isinstance(entry.get("details"), dict) else None,
        duration_ms=_number(entry.get("duration_ms")) or 0.0,
        evaluator_results=tuple(each for item in _list(members) if (each := _evaluator(item)) is not None),
    )


def _messages(value: Any) -> tuple[Message, ...]:
    try:
        return tuple(decode(Message, item) for item in _list(value))
    except DecodeError:
        return ()  # the answer is still read as text


def _usage(value: Any) -> TokenUsage | None:
    if not isinstance(value, dict):
        return None
    counts = {key: count for key in ("input", "output", "cached") if isinstance(count := value.get(key), int)}
    return TokenUsage(**counts) if any(counts.values()) else None


def _is_unit(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _number(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None  # type: ignore[arg-type]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(map(str, _list(value)))


# -- writing


class AgentvRows:
    """Writes rows as AgentV 4 does, and notes what these do not have."""

    def __init__(self) -> None:
        self.left_out: dict[str, None] = {}

    def lines(self, rows: Iterator[CaseResult]) -> Iterator[str]:
        for row in rows:
            for name, words in _NOT_WRITTEN.items():
                if getattr(row, name):
                    self.left_out.setdefault(words)
            yield f"{jsonio.dump_line(self._line(row))}\n"

    def _line(self, row: CaseResult) -> dict[str, Any]:
        passed = row.verdict is Verdict.PASS
        line: dict[str, Any] = {
            "timestamp": row.started_at,
            "test_id": row.eval_id,
            "suite": row.suite,
            "score": row.score,
            "target": row.target,
            "scores": [self._score(result) for result in row.evaluator_results],
            "execution_status": "execution_error" if row.error else _STATUS[passed],
            "output": [message.to_dict() for message in row.output_messages] or row.candidate_answer,
        }
        if row.attempt > 1 or row.trials is not None:
            line["sample_index"] = row.attempt - 1
        if row.error is not None:
            line |= {"error": row.error.message}
            line["failure_stage"] = "evaluator" if row.error.stage == "evaluator" else "agent"
        if row.token_usage is not None:
            usage = row.token_usage
            line["token_usage"] = {"input": usage.input, "output": usage.output}
            if usage.cached is not None:
                line["token_usage"]["cached"] = usage.cached
        optional = {
            "cost_usd": row.cost_usd,
            "duration_ms": row.duration_ms,
            "conversation_id": row.conversation_id,
            "threshold": row.threshold,
            "reasoning": row.reasoning or None,
            "metadata": dict(row.metadata) or None,
        }
        return line | {key: value for key, value in optional.items() if value is not None}

    def _score(self, result: EvaluatorResult) -> dict[str, Any]:
        checks = [(text, True) for text in result.hits] + [(text, False) for text in result.misses]
        if result.error is not None:
            checks.append((result.error, False))
        for name, words in (("warnings", "warnings"), ("judge", "judge usage"), ("judge_proxy", "judge usage")):
            if getattr(result, name):
                self.left_out.setdefault(words)
        if result.required:
            self.left_out.setdefault("`required`")
        optional = {
            "reasoning": result.reasoning or None,
            "details": result.details,
            "scores": [self._score(member) for member in result.evaluator_results] or None,
        }
        return {
            "name": result.name,
            "type": result.type.replace("_", "-"),
            "score": result.score,
            "weight": result.weight,
            "verdict": result.verdict.value,
            "assertions": [{"text": text, "passed": passed} for text, passed in checks],
            "duration_ms": result.duration_ms,
            **{key: value for key, value in optional.items() if value is not None},
        }
