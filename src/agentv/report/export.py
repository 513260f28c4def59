"""Export the rows of a run or a results file: YAML documents, a CSV table, or joined JSON Lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import yaml

from agentv import jsonio
from agentv.codec import encode
from agentv.errors import RecordError
from agentv.report.joined import JoinedRun, question_of, scores_of
from agentv.report.row_source import RowSource
from agentv.results import CaseResult, judge_ledgers

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TYPED = re.compile(r"[-+.]?[0-9][0-9a-fA-FxXoO_.:+-]*|[yYnN]")
_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""What spreadsheets read as the beginning of a formula, also in full-width characters."""
_COLUMNS = (
    *("run_id", "suite", "eval_id", "target", "attempt", "score", "verdict", "error_stage", "error"),
    *("duration_ms", "cost_usd", "input_tokens", "output_tokens", "started_at"),
    *("hits", "misses", "reasoning", "candidate_answer"),
    *("question", "expected_outcome", "reference_answer", "tags"),
    *("threshold", "model", "finish_reason", "cached_tokens", "judge_calls", "judge_cost_usd"),
    "prompt",
)
MOST_METADATA = 200
"""Metadata keys that get a column in a table. Files for spreadsheets do not allow many more."""


# -- YAML


class _RowDumper(_Dumper):  # type: ignore[misc]
    """Writes multi-line strings as blocks, and quotes strings that some YAML parsers read as numbers or booleans."""


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else "'" if _TYPED.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_RowDumper.add_representer(str, _text)


def yaml_rows(source: RowSource) -> Iterator[str]:
    """One YAML document per line. Rows are not validated, so files from other tools can be exported too."""
    for value in _values(source):
        yield yaml.dump(value, Dumper=_RowDumper, allow_unicode=True, sort_keys=False, explicit_start=True, width=120)


def _values(source: RowSource) -> Iterator[Any]:
    for number, line in source.lines():
        try:
            yield jsonio.load(line)
        except ValueError as error:
            if source.manifest and not line.endswith(b"\n"):
                return  # the run was killed while it wrote this line
            raise RecordError(f"{source.path} line {number}: {error}", next_step="Fix or remove the line.") from None


# -- CSV


def csv_rows(run: JoinedRun) -> Iterator[str]:
    """A header, then one line per row."""
    columns, lines = table(run, run.source.rows)
    yield _line(list(map(_cell, columns)))
    for values in lines:
        yield _line(list(map(_cell, values)))


def table(run: JoinedRun, rows: Callable[[], Iterable[CaseResult]]) -> tuple[list[str], Iterator[list[Any]]]:
    """The columns and the rows, with a column for each metadata key and for the score of each evaluator."""
    names: dict[str, None] = {}
    keys: dict[str, None] = {}
    for row in rows():
        names.update(dict.fromkeys(result.name for result in row.evaluator_results))
        if len(keys) < MOST_METADATA:
            keys.update(dict.fromkeys(row.metadata))
    keys = dict.fromkeys(islice(keys, MOST_METADATA))
    columns = [*_COLUMNS, *(f"metadata.{key}" for key in keys), *(f"score: {name}" for name in names)]

    def lines() -> Iterator[list[Any]]:
        for row in rows():
            scores = scores_of(row)
            metadata = (_flat(row.metadata.get(key)) for key in keys)
            yield [*_fields(row, run), *metadata, *(scores.get(name) for name in names)]

    return columns, lines()


def _fields(row: CaseResult, run: JoinedRun) -> tuple[Any, ...]:
    error, usage, case = row.error, row.token_usage, run.case(row)
    ledgers = list(judge_ledgers(row.evaluator_results))
    return (
        *(row.run_id, row.suite, row.eval_id, row.target, row.attempt),
        *((None, None) if error else (row.score, row.verdict.value)),
        *((error.stage, error.message) if error else (None, None)),
        *(row.duration_ms, row.cost_usd),
        *((usage.input, usage.output) if usage else (None, None)),
        row.started_at,
        *("\n".join(map(str, row.hits)), "\n".join(map(str, row.misses))),
        *(row.reasoning, row.candidate_answer),
        question_of(case, row),
        *((case.expected_outcome, case.reference_answer, ", ".join(case.tags)) if case else (None, None, None)),
        *(row.threshold, row.model, row.finish_reason, usage.cached if usage else None),
        sum(ledger.get("call_count") or 0 for ledger in ledgers),
        judge_cost(row),
        row.prompt,
    )


def _flat(value: Any) -> Any:
    """A value of the metadata for one cell: objects and lists as JSON."""
    return jsonio.dump_line(value) if isinstance(value, dict | list) else value


def _cell(value: Any) -> Any:
    """Prefix strings that a spreadsheet would run as a formula with an apostrophe; None becomes empty."""
    if isinstance(value, str) and _FORMULA.match(value):
        return f"'{value}"
    return "" if value is None else value


def _line(cells: list[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


# -- JSON Lines


def joined_rows(run: JoinedRun, *, with_calls: bool = False) -> Iterator[str]:
    """One line per row, with the question, the expected outcome, the tags and the scores of its evaluators."""
    for row in run.source.rows():
        case = run.case(row)
        data = {
            **row.to_dict(),
            "question": question_of(case, row),
            "input_messages": [message.to_dict() for message in case.input_messages] if case else [],
            "expected_outcome": case.expected_outcome if case else None,
            "reference_answer": case.reference_answer if case else None,
            "tags": list(case.tags) if case else [],
            "scores": scores_of(row),
            "judge_cost_usd": judge_cost(row),
        }
        if with_calls:
            data["judge_calls"] = [encode(call) for call in run.calls(row)]
        yield f"{jsonio.dump_line(data)}\n"


def judge_cost(row: CaseResult) -> float | None:
    """What the judge calls of a row cost in USD; None if that is not known."""
    costs = [cost for ledger in judge_ledgers(row.evaluator_results) if (cost := ledger.get("cost_usd")) is not None]
    return sum(costs) if costs else None
