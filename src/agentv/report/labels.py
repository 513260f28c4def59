"""Labels of runs that are not new evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def replayed_id(manifest: Mapping[str, Any]) -> str | None:
    """The id of the run that was replayed; None if targets and judges were called."""
    replayed = manifest.get("replayed")
    run_id = replayed.get("run_id") if isinstance(replayed, dict) else None
    return run_id if isinstance(run_id, str) else None
