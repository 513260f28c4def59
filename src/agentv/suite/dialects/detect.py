"""Which dialect a suite is written in, by its keys. A suite without keys of another dialect is in ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentv.suite.sniff import CASES


class Dialect(NamedTuple):
    """A way to write suites: its name, and its names for some of our keys, for messages."""

    label: str
    words: Mapping[str, str]


V4 = Dialect(
    "AgentV 4",
    {
        CASES: "tests",
        "evaluators": "assertions",
        "expected_outcome": "criteria",
        "reference_answer": "expected_output",
        "expected_messages": "expected_output",
    },
)
V5 = Dialect(
    "AgentV 5",
    {
        CASES: "tests",
        "evaluators": "assert",
        "expected_outcome": "assert",
        "reference_answer": "vars.expected_output",
        "expected_messages": "vars.expected_output",
    },
)

TRIVIAL_PROMPT = "{{input}}"
"""The prompt, without spaces, that sends the `input` of a case as it is."""
_V5_HEAD = frozenset({"providers", "default_test", "evaluate_options", "scenarios", "environment", "extensions"})
_V4_ONLY = frozenset({"assertions", "workspace", "input", "input_files", "preprocessors", "governance"})
_V4_HEAD = _V4_ONLY | {"name", "assert", "metadata", "version", "author", "license", "category", "requires"}
_V4_EXECUTION = frozenset({"assertions", "targets", "workers", "budget_usd", "budgetUsd", "cache", "fail_on_error"})
_OF_CASES = frozenset({"criteria", "assertions", "expected_output", "input_files", "depends_on", "mode", "workspace"})
_OF_TESTS = _OF_CASES | {"assert"}


def of_head(head: Mapping[str, Any], case_key: str | None) -> Dialect | None:
    """The dialect that the keys above or below the cases show; None if they do not."""
    if case_key == CASES:
        return None if _V4_ONLY.isdisjoint(head) else V4
    if not _V5_HEAD.isdisjoint(head) or is_trivial(head.get("prompts")):
        return V5
    execution = head.get("execution")
    inside = execution if isinstance(execution, dict) else {}
    if not _V4_HEAD.isdisjoint(head) or not _V4_EXECUTION.isdisjoint(inside) or case_key == "eval_cases":
        return V4
    return None


def foreign_keys(case_key: str) -> frozenset[str]:
    """The keys of cases that show that a suite with this key of its cases is in another dialect."""
    return _OF_CASES if case_key == CASES else _OF_TESTS


def of_cases(head: Mapping[str, Any]) -> Dialect:
    """The dialect of a suite whose cases have such keys."""
    return V5 if "prompts" in head else V4


def is_trivial(prompts: Any) -> bool:
    """Whether the prompts only send the `input` of each case."""
    if not isinstance(prompts, list) or len(prompts) != 1:
        return False
    only = prompts[0]
    return isinstance(only, str) and "".join(only.split()) == TRIVIAL_PROMPT
