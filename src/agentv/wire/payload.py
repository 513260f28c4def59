"""The payload that a judge script reads from stdin: one JSON object that always has every key."""

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
"""Every key of the payload, in the order in which they are written, with its empty value.

The SDKs have their own list of these keys; `conformance/payloads.json` checks all of them against this table.
"""

KEYS = tuple(EMPTY)


def with_empty_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` followed by every missing key with its empty value."""
    return {**values, **{key: copy(empty) for key, empty in EMPTY.items() if key not in values}}


def encode_payload(values: Mapping[str, Any], *, one_line: bool = False) -> bytes:
    """The payload as UTF-8 JSON: the keys of `EMPTY` first, then any others. Raises ValueError if it cannot be encoded.

    With `one_line` it is one line of ASCII that ends with a newline, so that no script can read it as several lines.
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
        # A lone surrogate cannot be encoded as UTF-8; its \\u escape can.
        return json.dumps(ordered, allow_nan=False).encode("ascii")
