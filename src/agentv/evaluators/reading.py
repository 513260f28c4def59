"""One entry of an evaluator list in a suite -> an `Evaluator`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from agentv.evaluators.base import Evaluator
from agentv.evaluators.registry import evaluator_class, evaluator_types
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings
from agentv.suite.validation import show, validate_partly
from agentv.suite.yaml import NodePath
from agentv.text import all_of, did_you_mean, one_of


def read_evaluator(raw: Any, findings: Findings, at: NodePath, files: SuiteFiles) -> Evaluator | None:
    """The evaluator, or None with what is wrong in `findings`. Without a `name` it is called by its type."""
    if not isinstance(raw, dict):
        findings.add(at, f"an evaluator is a mapping with `type`, got {show(raw)}")
        return None
    kind = _kind(raw, findings, at)
    return None if kind is None else _read_as(kind, raw, findings, at, files)


class _Parts:
    """Reads evaluators inside an evaluator."""

    def __init__(self, findings: Findings, at: NodePath, files: SuiteFiles) -> None:
        self.findings, self.at, self.files = findings, at, files
        self.wrong = False

    def __call__(self, entry: Any, node: NodePath, kind: type[Evaluator] | None) -> Evaluator | None:
        place = (*self.at, *node)
        if kind is None:
            found = read_evaluator(entry, self.findings, place, self.files)
        else:
            found = _read_as(kind, entry, self.findings, place, self.files)
        self.wrong = self.wrong or found is None
        return found

    def complain(self, node: NodePath, message: str) -> None:
        self.wrong = True
        self.findings.add((*self.at, *node), message)


def _read_as(
    kind: type[Evaluator], raw: dict[str, Any], findings: Findings, at: NodePath, files: SuiteFiles
) -> Evaluator | None:
    told: list[str] = []
    parts = _Parts(findings, at, files)

    def complain(option: str, message: str) -> None:
        told.append(option)
        findings.add((*at, option), message, at_key=True)

    data = kind.read_children({"name": raw["type"], **kind.normalize(raw, complain)}, parts)
    spelled = {option: alias for alias, option in kind.ALIASES.items() if alias in raw and alias not in told}
    evaluator, wrong = validate_partly(kind, data, findings, at, spelled=spelled)
    if evaluator is None:
        return None
    try:
        evaluator = evaluator.load_files(files.find)
    except ValueError as error:
        named = next((name for name in kind.FILES if isinstance(raw.get(name), str)), None)
        findings.add((*at, named) if named else at, f"`{named}`: {error}" if named else str(error))
        return None
    if wrong or told or parts.wrong:
        return None
    for path in evaluator.depends_on(files.directory):
        with suppress(ValueError):  # a file that cannot be read is the script's affair, told when it runs
            files.fingerprints.note_once(path)
    return evaluator


def _kind(raw: dict[str, Any], findings: Findings, at: NodePath) -> type[Evaluator] | None:
    """The class that `type` names."""
    wanted = raw.get("type")
    try:
        kind = evaluator_class(wanted) if isinstance(wanted, str) else None
    except Exception as error:
        findings.add((*at, "type"), f"the evaluator type {show(wanted)} cannot be loaded: {error}")
        return None
    if kind is not None:
        return kind
    types = evaluator_types()
    if "type" not in raw:
        near = next((key for key in raw if did_you_mean(key, ["type"])), None)
        hint = f" (did you mean `type` by `{near}`?)" if near else ""
        findings.add(at, f"`type` is missing{hint}: say which evaluator this is: {one_of(types)}")
    else:
        near_type = did_you_mean(str(wanted), types)
        findings.add((*at, "type"), f"unknown evaluator type {show(wanted)}{near_type}; there are {all_of(types)}")
    return None
