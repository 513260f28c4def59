"""Values written as YAML read back as the same values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.suite.edit import flow, yaml_lines
from agentv.suite.yaml import YamlWalk

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(bool), inner, max_size=4)
)


@given(st.dictionaries(TEXTS.filter(bool), VALUES, max_size=4))
def test_every_mapping_reads_back(value: dict[str, Any]) -> None:
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
def test_odd_texts_read_back_as_texts(text: str) -> None:
    for value in ({"key": text}, {"list": [text, {"deep": text}]}, {text or "empty": 1}):
        assert YamlWalk("\n".join(yaml_lines(value)) + "\n").document() == value
