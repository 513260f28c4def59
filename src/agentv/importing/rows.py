"""Read promptfoo tests from the rows of a CSV file."""

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
_THRESHOLD = re.compile(r"__config:__expected\d*:threshold")
_ALIASES = {"fn": "javascript", "eval": "javascript", "grade": "llm-rubric"}


def row_as_test(row: Node, notes: Notes) -> Node:
    """Convert a row to a test. Columns are variables, except those whose name starts with two underscores."""
    test: dict[str, Any] = {"vars": {}, "assert": []}
    for name, cell in row.value.items():
        if re.fullmatch(r"__expected\d*", name):
            test["assert"] += [_assertion(row, name, cell)] if cell.strip() else []
        elif not name.startswith("__"):
            test["vars"][name] = cell
        elif name == "__description" and cell:
            test["description"] = cell
        elif name == "__threshold" and cell:
            test["threshold"] = _number(cell)
        elif name.startswith("__metadata:"):
            _add_metadata(test, name.removeprefix("__metadata:"), cell)
        elif cell and name != "__metric" and not _THRESHOLD.fullmatch(name):
            notes.left_out(row, f"the column `{name}` is not imported")
    return row.with_value(test)


def _assertion(row: Node, name: str, cell: str) -> dict[str, Any]:
    assertion = short_assertion(cell)
    numbers = ("", "1") if name in ("__expected", "__expected1") else (name.removeprefix("__expected"),)
    for number in numbers:
        if threshold := row.value.get(f"__config:__expected{number}:threshold"):
            assertion["threshold"] = _number(threshold)
    return assertion | ({"metric": metric} if (metric := row.value.get("__metric")) else {})


def _add_metadata(test: dict[str, Any], name: str, cell: str) -> None:
    if name.endswith("[]"):
        parts = re.split(r"(?<!\\),", cell)
        test.setdefault("metadata", {})[name[:-2]] = [part.replace("\\,", ",").strip() for part in parts if part]
    elif cell:
        test.setdefault("metadata", {})[name] = cell


def short_assertion(text: str) -> dict[str, Any]:
    """Parse the short form of assertions: `contains: x`, `similar(0.8): x`. Any other text becomes `equals`."""
    if text.strip().startswith(FILE):
        return {"type": "python" if ".py" in text else "javascript", "value": text.strip()}
    match = _SHORT.fullmatch(text.strip())
    kind = _ALIASES.get(match["type"], match["type"]) if match else ""
    if match is None or kind.removeprefix("not-") not in _TYPES:
        return {"type": "equals", "value": text}
    assertion: dict[str, Any] = {"type": kind}
    if match["value"] is not None:
        assertion["value"] = match["value"].strip()
    if match["threshold"]:
        assertion["threshold"] = float(match["threshold"])
    return assertion


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell
