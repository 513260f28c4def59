"""What `run.json` must hold for its run to go on: somebody may have edited it, or another version written it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentv.errors import RecordError

NEEDED: Mapping[str, tuple[type, str]] = {
    "run_id": (str, "text"),
    "cwd": (str, "text"),
    "options": (dict, "an object"),
    "scripted": (bool, "true or false"),
}
OPTIONAL = ("digests", "configuration", "budget")
"""Objects that a run of an older version may lack."""
SPENT = ("spent_usd", "judge_calls")


def check_manifest(data: Mapping[str, Any], path: Path) -> None:
    """RecordError, with the field, when a run cannot go on from this."""
    for name, (kind, word) in NEEDED.items():
        if type(data.get(name)) is not kind:
            raise unusable(path, f"`{name}` is missing, or is not {word}")
    for name in OPTIONAL:
        if not isinstance(data.get(name), dict | None):
            raise unusable(path, f"`{name}` is not an object")
    if not all(isinstance(shown, dict) for shown in (data.get("configuration") or {}).values()):
        raise unusable(path, "`configuration` holds something that is not an object")
    for name in SPENT:
        amount = (data.get("budget") or {}).get(name, 0)
        if type(amount) not in (int, float) or not math.isfinite(amount) or amount < 0:
            raise unusable(path, f"`budget.{name}` is not a number from 0")


def unusable(path: Path, why: str) -> RecordError:
    return RecordError(f"the run cannot go on from {path}: {why}", next_step="Restore it, or start a new run.")
