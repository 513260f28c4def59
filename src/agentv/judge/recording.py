"""How the judge calls of a run are recorded, and which of them are answered from the record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentv.evidence import JudgeCallRecord
from agentv.results import RowKey

if TYPE_CHECKING:
    from agentv.judge.recorded_replies import RecordedReplies

OnCall = Callable[[JudgeCallRecord], "asyncio.Future[Any] | None"]
"""Called when a call has ended, with secrets not yet masked. It must neither raise nor block.

A reply is returned to its caller when the future is done, whatever its outcome.
"""


def _first(_: RowKey) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Recording:
    """Receives every judge call of a run."""

    on_call: OnCall | None = None
    io: bool = True
    """Whether records contain prompts and replies."""
    replies: RecordedReplies | None = None
    """Replies that are returned instead of calling the judge again."""
    execution: Callable[[RowKey], int] = _first
    """Which judging of a row this is: 1, plus the number of its rows that were superseded."""


NOT_RECORDED = Recording()
