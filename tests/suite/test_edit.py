"""Values written as YAML are read back unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.suite.edit import flow, yaml_lines
from agentv.suite.yaml import YamlWalk

STRINGS = st.text(st.characters(codec="utf-8"), max_size=40)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STRINGS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS.filter(bool), inner, max_size=4)
)


@given(st.dictionaries(STRINGS.filter(bool), VALUES, max_size=4))
def test_any_mapping_is_read_back_unchanged(value: dict[str, Any]) -> None:
    if value:
        assert YamlWalk("\n".join(yaml_lines(value)) + "\n").document() == value
    assert YamlWalk(f"key: {flow(value)}").document() == {"key": value}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "no",
            "True",
            "NULL",
            "~",
            "12:30",
            "0755",
            "0o17",
            "1e3",
            ".inf",
            "- a",
            "# c",
            "a: b",
            "a #b",
            "'",
            "<<",
            "",
        ),
        *(
            " x",
            "x ",
            "a\nb",
            "a\nb\n",
            "a\n\n",
            "\na\nb",
            " a\nb",
            "a\n # b\n",
            "a\r\nb",
            "a\n\tb",
            "a\u2028b",
            "\ufeffa\nb",
        ),
    ],
)
def test_odd_strings_are_read_back_as_strings(text: str) -> None:
    for value in ({"key": text}, {"list": [text, {"deep": text}]}, {text or "empty": 1}):
        assert YamlWalk("\n".join(yaml_lines(value)) + "\n").document() == value
