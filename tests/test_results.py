"""Scores are validated when they are created."""

from __future__ import annotations

from typing import Any

import pytest

from agentv.errors import ScoreError
from agentv.results import Score


@pytest.mark.parametrize("field", ["hits", "misses", "warnings"])
@pytest.mark.parametrize("items", [(5,), ("a", None), "one string"])
def test_score_with_a_list_that_is_not_strings_is_refused(field: str, items: Any):
    with pytest.raises(TypeError, match=f"`{field}` of a score must be strings"):
        Score(1.0, **{field: items})


@pytest.mark.parametrize("score", [True, "1", None])
def test_score_that_is_not_a_number_is_refused(score: Any):
    with pytest.raises(ScoreError, match="score must be a number from 0 to 1, got"):
        Score(score)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
def test_score_out_of_range_is_refused(score: float):
    with pytest.raises(ScoreError, match=r"score must be .* 0 (to|and) 1, got"):
        Score(score)
