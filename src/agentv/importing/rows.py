"""Tests of promptfoo that are rows of a CSV file."""

from __future__ import annotations

import re
from typing import Any

from agentv.importing.source import FILE, Node, Notes

_SHORT = re.compile(
    r"(?P<type>(?:not-)?[a-z][a-z-]*)(?:\((?P<threshold>\d+(?:\.\d+)?)\))?(?::(?P<value>.*))?", re.DOTALL
)
_TYPES = {
    *("contains", "icontains", "contains-any", "contains-all", "icontains-any", "icontains-all", "equals", "regex"),
    *("starts-with", "is-json", "contains-json", "llm-rubric", "model-graded-closedqa", "factuality", "similar"),
    *("latency", "cost", "javascript", "python", "levenshtein", "rouge-n"),
}
_MORE_NAMES = {"fn": "javascript", "eval": "javascript", "grade": "llm-rubric"}


def row_as_test(row: Node, notes: Notes) -> Node:
    """A row as a test: columns are variables, but for those whose name starts with two underscores."""
    test: dict[str, Any] = {"vars": {}, "assert": []}
    for name, cell in row.value.items():
        if re.fullmatch(r"__expected\d*", name):
            test["assert"] += [short_assertion(cell)] if cell.strip() else []
        elif not name.startswith("__"):
            test["vars"][name] = cell
        elif name == "__description" and cell:
            test["description"] = cell
        elif name == "__threshold" and cell:
            test["threshold"] = _number(cell)
        elif name != "__metric" and cell:
            notes.left_out(row, f"the column `{name}` is not carried over")
    if metric := row.value.get("__metric"):
        test["assert"] = [{**item, "metric": metric} for item in test["assert"]]
    return row.with_value(test)


def short_assertion(text: str) -> dict[str, Any]:
    """`contains: x`, `similar(0.8): x` and the like, as cells spell them; anything else must be equal."""
    if text.strip().startswith(FILE):
        return {"type": "python" if ".py" in text else "javascript", "value": text.strip()}
    found = _SHORT.fullmatch(text.strip())
    kind = _MORE_NAMES.get(found["type"], found["type"]) if found else ""
    if found is None or kind.removeprefix("not-") not in _TYPES:
        return {"type": "equals", "value": text}
    assertion: dict[str, Any] = {"type": kind}
    if found["value"] is not None:
        assertion["value"] = found["value"].strip()
    if found["threshold"]:
        assertion["threshold"] = float(found["threshold"])
    return assertion


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell
