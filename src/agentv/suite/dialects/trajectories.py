"""`trajectory:...` assertions as `tool_trajectory`."""

from __future__ import annotations

from typing import Any

from agentv.suite.dialects.kinds import Entry
from agentv.suite.dialects.parts import Part
from agentv.suite.dialects.tables import unsupported
from agentv.suite.yaml import NodePath

USED, SEQUENCE = "trajectory:tool_used", "trajectory:tool_sequence"
_BY_NAME = "name the tool"


def rewritten(kind: str, entry: Entry) -> dict[str, Any]:
    """The options of a `tool_trajectory`, which scores 1 or 0."""
    raw, at, written, part = entry.raw, entry.at, entry.written, entry.part
    node: NodePath = (*written, "value")
    options = {key: value for key, value in raw.items() if key != "value"} | {"all_or_nothing": True}
    value = raw.get("value")
    if value is None:
        part.refuse(written, "`value` is missing: write the tools that the target must call", at_key=False)
    if isinstance(value, dict) and "pattern" in value:
        part.refuse((*node, "pattern"), unsupported("pattern", _BY_NAME))
    if kind == USED:
        return {**options, "mode": "any_order", **_used(value, at, node, part)}
    if kind == SEQUENCE:
        steps, mode = value, "in_order"
        if isinstance(value, dict):
            steps, mode, node = value.get("steps"), value.get("mode", mode), (*node, "steps")
        part.move((*at, "expected"), node)
        return {
            **options,
            "mode": mode,
            "expected": [_call(step) for step in steps] if isinstance(steps, list) else steps,
        }
    part.move((*at, "expected", 0), node)
    call = value if isinstance(value, dict) else {"name": value}
    match = "exact" if call.get("mode") == "exact" else "superset"
    return {
        **options,
        "mode": "superset",
        "expected": [_call({key: item for key, item in call.items() if key != "mode"})],
        "args_match": match,
    }


def _used(value: Any, at: NodePath, node: NodePath, part: Part) -> dict[str, Any]:
    listed = value if isinstance(value, list) else [value]
    minimums: dict[Any, Any] = {}
    maximums: dict[Any, Any] = {}
    part.move((*at, "minimums"), node)
    part.move((*at, "maximums"), node)
    for each in listed:
        call = each if isinstance(each, dict) else {"name": each}
        name = call.get("name")
        if not isinstance(name, str):
            continue
        minimums[name] = call.get("min", 0 if "max" in call else 1)
        if "max" in call:
            maximums[name] = call["max"]
    return {"minimums": minimums, **({"maximums": maximums} if maximums else {})}


def _call(step: Any) -> Any:
    if isinstance(step, str):
        return {"tool": step}
    if isinstance(step, dict) and "name" in step:
        return {"tool" if key == "name" else key: value for key, value in step.items()}
    return step
