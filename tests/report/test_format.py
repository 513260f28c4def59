"""Numbers as people read them."""

from __future__ import annotations

from agentv.messages import TokenUsage
from agentv.report.format import format_tokens


def test_cached_tokens_are_shown_as_part_of_the_input() -> None:
    assert format_tokens(TokenUsage(1, 12, 38)) == "51 tokens (1 in + 38 cached, 12 out)"
    assert format_tokens(TokenUsage(1, 12)) == "13 tokens (1 in, 12 out)"
