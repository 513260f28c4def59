"""Export the rows of a results file as YAML documents or as a CSV table."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import yaml

from agentv import jsonio
from agentv.errors import RecordError
from agentv.report.row_source import RowSource
from agentv.results import CaseResult

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TYPED = re.compile(r"[-+.]?[0-9][0-9a-fA-FxXoO_.:+-]*|[yYnN]")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_COLUMNS = (
    *("run_id", "suite", "eval_id", "target", "attempt", "score", "verdict", "error_stage", "error"),
    *("duration_ms", "cost_usd", "input_tokens", "output_tokens", "started_at"),
    *("hits", "misses", "reasoning", "candidate_answer"),
)


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


def csv_rows(source: RowSource) -> Iterator[str]:
    """A header, then one line per row, with a score column for each evaluator."""
    names = list(dict.fromkeys(result.name for row in source.rows() for result in row.evaluator_results))
    yield _line([*_COLUMNS, *(_cell(f"score: {name}") for name in names)])
    for row in source.rows():
        scores = {result.name: result.score for result in row.evaluator_results if result.error is None}
        yield _line([*map(_cell, _fields(row)), *(_cell(scores.get(name)) for name in names)])


def _fields(row: CaseResult) -> tuple[Any, ...]:
    error, usage = row.error, row.token_usage
    return (
        *(row.run_id, row.suite, row.eval_id, row.target, row.attempt),
        *((None, None) if error else (row.score, row.verdict.value)),
        *((error.stage, error.message) if error else (None, None)),
        *(row.duration_ms, row.cost_usd),
        *((usage.input, usage.output) if usage else (None, None)),
        row.started_at,
        *("\n".join(map(str, row.hits)), "\n".join(map(str, row.misses))),
        *(row.reasoning, row.candidate_answer),
    )


def _cell(value: Any) -> Any:
    """Prefix strings that a spreadsheet would run as a formula with an apostrophe; None becomes empty."""
    if isinstance(value, str) and _FORMULA.match(value):
        return f"'{value}"
    return "" if value is None else value


def _line(cells: list[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
