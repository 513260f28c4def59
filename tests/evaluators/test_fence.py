"""The fence around evidence: the vectors that the runtime and both SDKs share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.evaluators.llm.fence import MARK_LENGTH, fence

VECTORS = json.loads((Path(__file__).parents[2] / "conformance" / "fences.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_parts_get_exactly_this_fence(vector: dict[str, Any]) -> None:
    fenced = fence([(name, text) for name, text in vector["parts"]], vector["around"], vector["markLength"])
    assert (fenced.mark, fenced.text) == (vector["mark"], vector["text"])


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_no_vector_has_its_mark_in_a_part(vector: dict[str, Any]) -> None:
    texts = [*vector["around"], *(text for part in vector["parts"] for text in part)]
    assert not any(vector["mark"] in text.lower() for text in texts)


def test_marks_of_prompts_cannot_be_guessed() -> None:
    assert MARK_LENGTH >= 12
