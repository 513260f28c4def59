"""Rows of a CSV file of AgentV: special columns whose names begin with two underscores."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_EXPECTED = re.compile(r"__expected\d*")
_METADATA = "__metadata:"
_SHORT = re.compile(
    r"(?P<type>(?:not-)?[a-z]+(?:[-:][a-z]+)*)(?:\((?P<threshold>[\d.]+)\))?(?::(?P<value>.*))?", re.DOTALL
)
_LISTS = ("-any", "-all")


def with_columns(raw: dict[str, Any]) -> dict[str, Any]:
    """The case of a row: special columns are assertions, metadata and settings; the others are variables."""
    variables = raw.get("vars")
    if not isinstance(variables, Mapping):
        return raw
    case = {key: value for key, value in raw.items() if key != "vars"}
    fields: dict[str, Any] = {}
    checks: list[Any] = []
    metadata: dict[str, Any] = {}
    for name, value in variables.items():
        if _EXPECTED.fullmatch(name):
            checks += [] if value in (None, "") else [_check(str(value))]
        elif name.startswith(_METADATA):
            key = name.removeprefix(_METADATA)
            metadata[key.removesuffix("[]")] = _listed(value) if key.endswith("[]") else value
        elif name == "__threshold":
            case["threshold"] = float(value) if _is_number(value) else value
        elif not name.startswith("__"):
            fields[name.removeprefix("vars.")] = value
    metric = variables.get("__metric")
    if metric and len(checks) == 1 and isinstance(checks[0], dict):
        checks[0]["metric"] = metric
    text = fields.get("input", case.get("input"))
    if isinstance(text, str):
        fields["input"] = f"{variables.get('__prefix') or ''}{text}{variables.get('__suffix') or ''}"
        case.pop("input", None)
    if checks:
        case["assert"] = checks
    if metadata:
        case["metadata"] = metadata
    return {**case, "vars": fields}


def _check(text: str) -> Any:
    """An assertion in short form: `contains:x`, else a text that the answer must equal."""
    match = _SHORT.fullmatch(text.strip())
    if match is None or (match["value"] is None and match["type"] not in ("is-json", "not-is-json")):
        return {"type": "equals", "value": text}
    kind, value = match["type"], match["value"]
    if kind in ("grade", "llm-rubric"):
        return (value or "").strip()
    check: dict[str, Any] = {"type": kind}
    if match["threshold"] is not None:
        check["threshold"] = float(match["threshold"])
    if value is not None:
        check["value"] = _listed(value) if kind.endswith(_LISTS) else value
    return check


def _listed(value: Any) -> list[str]:
    text = str(value)
    try:
        items = json.loads(text)
    except ValueError:
        items = None
    return [str(item) for item in items] if isinstance(items, list) else [item.strip() for item in text.split(",")]


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
