"""Replies of commands, and recorded answers, in the spelling of AgentV 4 and 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_our_names(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A reply or a recorded answer with our keys: AgentV 4 and 5 write messages under `output`."""
    listed = value.get("output")
    if "output_messages" in value or not isinstance(listed, list):
        return value
    if not all(isinstance(item, Mapping) and "role" in item for item in listed):
        return value
    return {**value, "output_messages": listed}


def of_fixture(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A line of a replay fixture of AgentV in our form; its attempts are counted from 0."""
    if not str(value.get("schema_version", "")).startswith("agentv.replay_fixture."):
        return value
    attempt = value.get("attempt")
    return {
        **value,
        "eval_id": value.get("test_id"),
        "target": value.get("source_target"),
        "attempt": attempt + 1 if isinstance(attempt, int) and not isinstance(attempt, bool) else None,
    }
