"""What a function under test gets from a target with `provider: python`."""

# Standard library only, and no imports of this package: agentv also loads this file in environments without it.
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class TargetRequest:
    """One case: its prompt, the whole conversation, and the variables of the case."""

    __slots__ = ("attempt", "eval_id", "files", "messages", "prompt", "system_prompt", "vars")

    def __init__(
        self,
        prompt: str,
        *,
        system_prompt: str | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - the name in suites
        eval_id: str = "",
        attempt: int = 1,
        files: Sequence[str] = (),
    ) -> None:
        self.prompt = prompt
        """The text of the last user message."""
        self.system_prompt = system_prompt
        self.messages = list(messages)
        """The conversation as `{"role": ..., "content": ...}`, with the system prompt first."""
        self.vars = dict(vars or {})
        self.eval_id = eval_id
        self.attempt = attempt
        self.files = list(files)
        """Paths of the files that the case refers to."""

    def __repr__(self) -> str:
        return f"TargetRequest({self.prompt!r}, eval_id={self.eval_id!r}, attempt={self.attempt!r})"
