"""The payload that a judge script reads from stdin: one JSON object, without the keys of absent optional values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any

from agentv.wire.payload_names import second_names, with_tool_counts

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
        "vars": None,
        "config": None,
    }
)
"""Every key of the payload, in the order in which they are written, with its empty value.

The SDKs have their own list of these keys; `conformance/payloads.json` checks all of them against this table.
"""

KEYS = tuple(EMPTY)
NULLABLE = frozenset({"output_messages", "trace_summary", "config"})
"""Keys that are always written, with `null` for an absent value. Other absent values are left out: scripts that check
their input, such as those written with AgentV's SDK, accept a missing key but not `null`."""


def with_empty_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` followed by every missing key with its empty value."""
    return {**values, **{key: copy(empty) for key, empty in EMPTY.items() if key not in values}}


def _without_absent(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_absent(item) if isinstance(item, Mapping) else item
        for key, item in value.items()
        if item is not None
    }


def without_absent_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The payload as it is sent: without None, except for `NULLABLE` keys. Nothing inside user data is left out."""
    kept = {key: value for key, value in values.items() if value is not None or key in NULLABLE}
    if isinstance(summary := kept.get("trace_summary"), Mapping):
        kept["trace_summary"] = _without_absent(summary)
    return kept


def encode_payload(values: Mapping[str, Any], *, one_line: bool = False, own_names_only: bool = False) -> bytes:
    """The payload as UTF-8 JSON: the keys of `EMPTY` first, then any others, then AgentV's names of the same values.

    With `one_line` it is one line of ASCII that ends with a newline, so that no script can read it as several lines.
    Raises ValueError if it cannot be encoded.
    """
    if not set(values) >= set(KEYS):
        raise ValueError(f"the payload must have the keys {sorted(KEYS)}, got {sorted(values)}")
    ordered = without_absent_values({**{key: values[key] for key in KEYS}, **values})
    if not own_names_only and isinstance(summary := ordered["trace_summary"], Mapping):
        ordered["trace_summary"] = with_tool_counts(summary)
    try:
        if one_line:
            return _encoded(ordered, own_names_only, ensure_ascii=True).encode("ascii") + b"\n"
        return _encoded(ordered, own_names_only, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("a value is nested too deeply") from None
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded as UTF-8; its \\u escape can.
        return _encoded(ordered, own_names_only, ensure_ascii=True).encode("ascii")


def _encoded(ordered: Mapping[str, Any], own_names_only: bool, *, ensure_ascii: bool) -> str:
    dumps = partial(json.dumps, ensure_ascii=ensure_ascii, allow_nan=False)
    members = {key: dumps(value) for key, value in ordered.items()}
    if not own_names_only:
        members |= second_names(ordered, members, dumps)
    return f"{{{', '.join(f'{dumps(key)}: {text}' for key, text in members.items())}}}"
