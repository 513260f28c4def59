"""Messages of errors."""

from __future__ import annotations

import pytest

from agentv.errors import ProviderError


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("could not connect (after 3 attempts)", "could not connect (after 3 attempts).\nStart it."),
        ("the key was [redacted]", "the key was [redacted].\nStart it."),
        ("it failed", "it failed.\nStart it."),
        ("it failed!", "it failed!\nStart it."),
        ("its log:\nline", "its log:\nline\nStart it."),
    ],
)
def test_message_ends_with_a_full_stop_before_the_next_step(message: str, printed: str) -> None:
    assert str(ProviderError(message, next_step="Start it.")) == printed
