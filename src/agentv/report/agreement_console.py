"""Agreement of verdicts with labels of people, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentv.report.terminal import INDENT, Look, align
from agentv.results import RowKey
from agentv.text import plural

_LISTED = 10
_HEAD = ["JUDGE", "LABELS", "AGREE", "95% INTERVAL", "KAPPA", "WRONGLY PASSED", "WRONGLY FAILED"]


def render_agreement(judges: Mapping[str, Any], keys: Sequence[RowKey], passed: Sequence[bool], look: Look) -> str:
    """`JudgesData` of the viewer as far as it is about labels. `keys` and `passed` are those of all rows of the run."""
    evaluators = [one for one in judges["evaluators"] if one["labels"] and (one["judge"] or not one["member"])]
    entries = [("verdict of the row", judges["labels"]), *((one["name"], one["labels"]) for one in evaluators)]
    head, *rows = (
        f"{INDENT}{'  '.join(cells)}".rstrip()
        for cells in align([_HEAD, *(_cells(name, found, look) for name, found in entries)])
    )
    notes = [note for note in judges["notes"] if "label" in note or "people" in note]
    people = [f"{INDENT}{text}" for text in (*(_people(pair, look) for pair in judges["people"]), *notes)]
    return "\n".join([look.style(head, "dim"), *rows, *people, *_disagreements(judges["labels"], keys, passed, look)])


def _people(pair: Mapping[str, Any], look: Look) -> str:
    one, other = look.text(pair["one"]), look.text(pair["other"])
    rows = f"{pair['agree']:,} of {plural(pair['rows'], 'row')}"
    return f"{one} and {other} agree on {rows} (kappa {_decimal(pair['kappa'])})."


def _cells(name: str, found: Mapping[str, Any], look: Look) -> list[str]:
    low, high = found["interval"]
    return [
        look.cut(look.text(name), 30),
        f"{found['labels']:,}",
        f"{found['agree']:,} ({found['agree'] / found['labels']:.0%})",
        f"{low:.0%} to {high:.0%}",
        _decimal(found["kappa"]),
        f"{found['wrongly_passed']:,}",
        f"{found['wrongly_failed']:,}",
    ]


def _disagreements(
    found: Mapping[str, Any], keys: Sequence[RowKey], passed: Sequence[bool], look: Look
) -> Iterator[str]:
    rows = found["rows"]
    if not rows:
        return
    yield ""
    yield f"{INDENT}{look.style('Different verdicts', 'bold')}"
    for row in rows[:_LISTED]:
        label, verdict = ("fail", "pass") if passed[row] else ("pass", "not a pass")
        case = f"{look.text(keys[row].eval_id)} ({look.text(keys[row].target)})"
        yield f"{INDENT}{case}: labelled {label}, the verdict is {verdict}"
    more = found["labels"] - found["agree"] - len(rows[:_LISTED])
    if more:
        yield f"{INDENT}and {more:,} more"


def _decimal(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
