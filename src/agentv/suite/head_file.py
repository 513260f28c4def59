"""The head of a suite: where it is, its keys, and what is reported if the cases are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentv.regular_files import FileUnusableError, open_regular
from agentv.suite.findings import Findings
from agentv.suite.sniff import CASE_KEYS, CASES, is_yaml_suite
from agentv.suite.yaml import StreamItem, YamlProblem, YamlWalk
from agentv.text import did_you_mean

TARGETS = "targets"
IS_CONFIGURATION = (
    f"this is a configuration file, not a suite (it has `{TARGETS}` and no `evalcases`); pass a suite: its "
    "configuration is found near it, or set with --config"
)
SIDECAR_KEYS = frozenset({"$schema", "name", "dataset", "description", "execution", "evaluator", "target", "tags"})
"""Keys of a file beside a suite in JSON Lines that has its settings."""


def head_entries(path: Path, *, whole: bool) -> Iterator[StreamItem]:
    """The keys of a file that are not cases; without `whole`, only those above the cases."""
    with open_regular(path) as stream:
        for entry in YamlWalk(stream).entries(*CASE_KEYS):
            if entry.key not in CASE_KEYS or entry.index is None:
                yield entry
            if not whole and entry.key in CASE_KEYS:
                return


def sidecar(path: Path) -> Path | None:
    """The file beside a JSON Lines suite of AgentV that has the settings of the suite."""
    beside = path.with_suffix(".yaml")
    if not beside.is_file() or is_yaml_suite(beside):
        return None
    try:
        keys = {entry.key for entry in head_entries(beside, whole=True)}
    except (OSError, FileUnusableError, YamlProblem):
        return None
    return beside if keys and keys <= SIDECAR_KEYS else None


def report_missing_cases(head: dict[str, Any], findings: Findings) -> None:
    """Report that the cases are missing. A key that looks like a typo is removed, so it is not reported twice."""
    if TARGETS in head:
        findings.add((TARGETS,), IS_CONFIGURATION, at_key=True)
        head.clear()
        return
    for key in head:
        if did_you_mean(key, CASE_KEYS):
            findings.add((key,), f"unknown key `{key}` (did you mean `{CASES}`?)", at_key=True)
            del head[key]
            return
    what = f"`{CASES}` is missing" if head else "the file is empty"
    findings.add_at(1, 1, f"{what}: list the cases under `{CASES}:`")
