"""One entry of an evaluator list in a suite -> an `Evaluator`."""

from __future__ import annotations

from typing import Any

from agentv.evaluators.base import Evaluator
from agentv.evaluators.registry import evaluator_class, evaluator_types
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings, did_you_mean, one_of
from agentv.suite.validation import show, validate
from agentv.suite.yaml_events import Path as NodePath


def read_evaluator(raw: Any, findings: Findings, at: NodePath, files: SuiteFiles) -> Evaluator | None:
    """The evaluator, or None with what is wrong in `findings`. Without a `name` it is called by its type."""
    if not isinstance(raw, dict):
        findings.add(at, f"an evaluator is a mapping with `type`, got {show(raw)}")
        return None
    type_name = raw.get("type")
    kind = evaluator_class(type_name) if isinstance(type_name, str) else None
    if kind is None:
        _unknown_type(raw, findings, at)
        return None
    data = {kind.ALIASES.get(key, key): value for key, value in raw.items()}
    data.setdefault("name", type_name)
    evaluator = validate(kind, data, findings, at)
    if evaluator is None:
        return None
    try:
        for option in kind.FILES:
            if isinstance(raw.get(option), str):
                files.resolve(raw[option])
        return evaluator.anchored(files.directory)
    except ValueError as error:
        option = next((name for name in kind.FILES if name in raw), None)
        findings.add((*at, option) if option else at, str(error))
        return None


def _unknown_type(raw: dict[str, Any], findings: Findings, at: NodePath) -> None:
    types = evaluator_types()
    if "type" not in raw:
        findings.add(at, f"`type` is missing: say which evaluator this is: {one_of(types)}")
        return
    wanted = str(raw["type"])
    findings.add(
        (*at, "type"), f"unknown evaluator type '{wanted}'{did_you_mean(wanted, types)}; there are {one_of(types)}"
    )
