"""Which column of a CSV file is which field of a case, by the names of the columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentv.errors import UsageError
from agentv.importing.source import UnreadableError, read_text
from agentv.text import all_of

TAB = "\t"
_SAMPLE = 20_000
_FIELDS = {
    "id": ("id", "case_id", "eval_id", "test_id", "key"),
    "input": ("input", "question", "prompt", "query", "user_input", "instruction", "text", "message"),
    "reference_answer": (
        *("reference_answer", "answer", "expected", "expected_answer", "expected_output", "reference", "ground_truth"),
        *("groundtruth", "gold", "output", "target", "label", "response"),
    ),
    "expected_outcome": ("expected_outcome", "outcome", "criteria", "criterion", "rubric"),
}
"""Field of a case -> names of columns, the likeliest first."""
_READ_AS_IS = {*_FIELDS, "question"}
"""Columns of these names need no mapping."""


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """The columns of a CSV file, and the fields that they probably are."""

    names: tuple[str, ...]
    fields: dict[str, str]
    """Field of a case -> column."""
    rows: int
    delimiter: str

    @property
    def mapping(self) -> dict[str, str]:
        """The fields whose columns must be named in the suite, because they have other names."""
        return {name: column for name, column in self.fields.items() if column not in _READ_AS_IS}


def read_columns(path: Path) -> CsvColumns:
    """Read the file and guess its columns. UsageError if it has no column for the question."""
    try:
        text = read_text(path)
    except UnreadableError as error:
        raise UsageError(f"{error}.") from None
    delimiter = TAB if path.suffix.lower() == ".tsv" else _delimiter(text)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise UsageError(f"{path} is not a valid CSV file: {error}.") from None
    if not rows:
        raise UsageError(f"{path} is empty.", next_step="The first line must have the names of the columns.")
    names = tuple(name.strip() for name in rows[0])
    fields = _guessed(names)
    if "input" not in fields:
        raise UsageError(
            f"{path}: none of the columns {all_of(names)} has a name for the question.",
            next_step=f"Rename the column with the questions to `question`; known names: {all_of(_FIELDS['input'])}.",
        )
    return CsvColumns(names, fields, len(rows) - 1, delimiter)


def _delimiter(text: str) -> str:
    try:
        return csv.Sniffer().sniff(text[:_SAMPLE].partition("\n")[0], delimiters=",;\t|").delimiter
    except csv.Error:  # one column
        return ","


def _guessed(names: Sequence[str]) -> dict[str, str]:
    spellings = {re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_"): name for name in reversed(names)}
    fields: dict[str, str] = {}
    for field, likely in _FIELDS.items():
        column = next((spellings[name] for name in likely if name in spellings), None)
        if column is not None and column not in fields.values():
            fields[field] = column
    return fields
