"""What a judge script reads on stdin: one JSON object, every key always there, user data as it was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

KEYS = (
    "eval_id",
    "attempt",
    "target",
    "suite",
    "question",
    "input_messages",
    "input_files",
    "expected_outcome",
    "expected_messages",
    "reference_answer",
    "candidate_answer",
    "output_messages",
    "guideline_files",
    "trace_summary",
    "metadata",
    "config",
)


def encode_payload(values: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> bytes:
    """The payload as UTF-8 JSON, with `more` keys after it. ValueError when a value is nothing JSON can say."""
    if set(values) != set(KEYS):
        raise ValueError(f"the payload has the keys {sorted(values)}, not {sorted(KEYS)}")
    ordered = {key: values[key] for key in KEYS} | dict(more or {})
    try:
        text = json.dumps(ordered, ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")
    except RecursionError:
        raise ValueError("a value is nested too deeply") from None
    except UnicodeEncodeError:
        # Half a surrogate pair cannot be UTF-8; its \\u escape can.
        return json.dumps(ordered, allow_nan=False).encode("ascii")
