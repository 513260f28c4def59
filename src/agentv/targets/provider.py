"""The provider seam: one request in, one reply out.

A provider is a class with a `Settings` model (what a target may say in the configuration), a constructor that takes
those settings and a `TargetScope`, and `async invoke(request) -> Reply`. It may have `async aclose()`. Raise
`ProviderError` when the call failed; retries, limits and deadlines are the gate's business, not the provider's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from agentv.messages import Message, TokenUsage, final_text


@dataclass(frozen=True, slots=True)
class Request:
    """What a target is asked. `messages` is the conversation; `question` its text, for one-string targets."""

    question: str
    system_prompt: str | None = None
    messages: tuple[Message, ...] = ()
    eval_id: str = ""
    attempt: int = 1
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a target answered."""

    output_messages: tuple[Message, ...]
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    """What the target itself reported; the runtime measures when it is None."""
    finish_reason: str | None = None
    retries: int = 0

    @property
    def text(self) -> str:
        return final_text(self.output_messages)

    @classmethod
    def of_text(
        cls, text: str, *, token_usage: TokenUsage | None = None, cost_usd: float | None = None
    ) -> Reply:
        return cls((Message("assistant", text),), token_usage=token_usage, cost_usd=cost_usd)


@runtime_checkable
class Provider(Protocol):
    """The live object behind a target."""

    async def invoke(self, request: Request) -> Reply: ...


class TargetSettings(BaseModel):
    """Settings every target may carry. A provider adds its own by subclassing."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    READS: ClassVar[tuple[str, ...]] = ()
    """Environment variables the provider reads on its own when a setting is absent."""

    provider: str = Field(description="Which provider answers: `mock`, `cli`, `replay`, `openai`, ...")
    judge_target: str | None = Field(None, description="The target that judges this target's answers, or `none`.")
    timeout_seconds: float | None = Field(None, gt=0, description="Deadline of one call.")
    max_concurrency: int | None = Field(None, ge=1, description="Calls in flight at once. Default 16.")
    requests_per_minute: float | None = Field(None, gt=0, description="Calls started per minute, evenly spaced.")
    max_retries: int = Field(
        2, ge=0, le=100, description="Extra tries after connection errors, 408, 429 and 5xx. Honours Retry-After."
    )
    workers: int | None = Field(None, ge=1, description="Cases of this target in flight, unless `--workers` is given.")


@dataclass(frozen=True, slots=True)
class TargetScope:
    """Where a target lives: what a provider needs besides its settings."""

    name: str
    directory: Path
    """Relative paths in the settings start here: the directory of the configuration file."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment a child process of this target may see, already without other targets' secrets."""
    workspace: Path | None = None
    """The suite's directory, for commands that run there."""


JsonObject = dict[str, Any]
