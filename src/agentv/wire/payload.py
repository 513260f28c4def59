"""The payload a judge script reads on stdin: one JSON object that always has every key, user data unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[str, Any] = MappingProxyType(
    {
        "eval_id": None,
        "attempt": None,
        "target": None,
        "suite": None,
        "question": None,
        "input_messages": [],
        "input_files": [],
        "expected_outcome": None,
        "expected_messages": [],
        "reference_answer": None,
        "candidate_answer": None,
        "output_messages": [],
        "guideline_files": [],
        "trace_summary": None,
        "metadata": {},
        "config": None,
    }
)
"""Every key of the payload, in the order they are written, with the value it has when there is nothing to send.

The SDKs have their own list of these keys; `conformance/payloads.json` checks all of them against this table.
"""

KEYS = tuple(EMPTY)


def with_empty_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` followed by every missing key with its empty value."""
    return {**values, **{key: copy(empty) for key, empty in EMPTY.items() if key not in values}}


def encode_payload(values: Mapping[str, Any], *, one_line: bool = False) -> bytes:
    """The payload as UTF-8 JSON: its own keys, then any others in `values`. ValueError when that cannot be written.

    With `one_line` it is ASCII with a line break at its end, so that no script can take it for several lines.
    """
    if not set(values) >= set(KEYS):
        raise ValueError(f"the payload must have the keys {sorted(KEYS)}, got {sorted(values)}")
    ordered = {**{key: values[key] for key in KEYS}, **values}
    try:
        if one_line:
            return json.dumps(ordered, allow_nan=False).encode("ascii") + b"\n"
        return json.dumps(ordered, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except RecursionError:
        raise ValueError("a value is nested too deeply") from None
    except UnicodeEncodeError:
        # Half a surrogate pair cannot be UTF-8; its \\u escape can.
        return json.dumps(ordered, allow_nan=False).encode("ascii")
