"""The fence around evidence, tested with the vectors shared by the runtime and both SDKs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.evaluators.llm.fence import MARK_LENGTH, fence

VECTORS = json.loads((Path(__file__).parents[2] / "conformance" / "fences.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_fence_matches_the_shared_vector(vector: dict[str, Any]) -> None:
    fenced = fence([(name, text) for name, text in vector["parts"]], vector["around"], vector["markLength"])
    assert (fenced.mark, fenced.text) == (vector["mark"], vector["text"])


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_mark_of_a_vector_does_not_occur_in_its_parts(vector: dict[str, Any]) -> None:
    texts = [*vector["around"], *(text for part in vector["parts"] for text in part)]
    assert not any(vector["mark"] in text.lower() for text in texts)


def test_prompt_marks_are_unpredictable() -> None:
    assert MARK_LENGTH >= 12
