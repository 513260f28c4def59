"""The provider seam: one request in, one reply out.

To add a provider, subclass `Provider`: a `Settings` model (what a target may say in the configuration), a constructor
that takes those settings and a `TargetScope`, and `async invoke(request) -> Reply`. Everything else on the base class
is optional and has a default. Raise `ProviderError` when a call fails; the gate does retries, limits and deadlines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentv.errors import ProviderError
from agentv.messages import (
    NO_OPTIONS,
    Conversation,
    GenerationOptions,
    Message,
    TokenLogprob,
    TokenUsage,
    as_messages,
    final_text,
)
from agentv.redact import NO_SECRETS, Redactor
from agentv.targets.commands import RunCommand

GUIDELINES = "[[ ## Guidelines ## ]]"
"""The line above the guidelines of a case."""


@dataclass(frozen=True, slots=True, init=False)
class Request(Conversation):
    """What a target is asked: a conversation, how to answer it, and who asks.

    `Request("question", "system prompt")` is short for the messages of a system prompt and a question.
    """

    messages: tuple[Message, ...]
    """The whole conversation: roles `system`, `user`, `assistant` and `tool`."""
    options: GenerationOptions
    """How to answer. A provider that cannot honour a requested option is never sent the request."""
    eval_id: str
    attempt: int
    evaluator: str | None
    """The evaluator that asks a judge; None when the target under test is asked."""
    files: tuple[Path, ...]
    directory: Path | None
    """The suite's directory: where commands run when their target names no other."""
    guidelines: str
    """Guideline text of the case, for commands that take it apart from the question."""
    naming_files: tuple[Message, ...] | None
    """The same conversation with files only named, for commands that read the files; None without files."""

    def __init__(
        self,
        question: str | None = None,
        system_prompt: str | None = None,
        *,
        messages: Sequence[Message] = (),
        options: GenerationOptions = NO_OPTIONS,
        eval_id: str = "",
        attempt: int = 1,
        evaluator: str | None = None,
        files: tuple[Path, ...] = (),
        directory: Path | None = None,
        guidelines: str = "",
        naming_files: tuple[Message, ...] | None = None,
    ) -> None:
        fill = object.__setattr__
        fill(self, "messages", as_messages(question, system_prompt, messages))
        fill(self, "options", options)
        fill(self, "eval_id", eval_id)
        fill(self, "attempt", attempt)
        fill(self, "evaluator", evaluator)
        fill(self, "files", files)
        fill(self, "directory", directory)
        fill(self, "guidelines", guidelines)
        fill(self, "naming_files", naming_files)

    @property
    def instructions(self) -> str | None:
        """The system prompt with the guidelines of the case below it."""
        if not self.guidelines:
            return self.system_prompt
        return "\n\n".join(text for text in (self.system_prompt, f"{GUIDELINES}\n\n{self.guidelines}") if text)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a target answered."""

    output_messages: tuple[Message, ...]
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    """What the target itself reported; the runtime measures when it is None."""
    finish_reason: str | None = None
    """Why the model stopped, as the vendor says it: `stop`, `length`, `tool_calls`, ..."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """Log probabilities of the answer's tokens, when they were requested and the vendor gives them."""
    retries: int = 0
    cache_hit: bool = False
    recorded: bool = False
    """Found in a file rather than made now: how long that took says nothing about the target."""

    @property
    def text(self) -> str:
        return final_text(self.output_messages)

    @classmethod
    def of_text(cls, text: str, *, token_usage: TokenUsage | None = None, cost_usd: float | None = None) -> Reply:
        return cls((Message("assistant", text),), token_usage=token_usage, cost_usd=cost_usd)


class TargetSettings(BaseModel):
    """Settings every target may carry. A provider adds its own by subclassing."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    READS: ClassVar[tuple[str, ...]] = ()
    """Environment variables the provider reads on its own when a setting is absent."""

    ALIASES: ClassVar[Mapping[str, str]] = {
        "maxRetries": "max_retries",
        "providerBatching": "provider_batching",
        "retryInitialDelayMs": "retry_initial_delay_ms",
        "retryMaxDelayMs": "retry_max_delay_ms",
        "retryBackoffFactor": "retry_backoff_factor",
        "retryStatusCodes": "retry_status_codes",
        "timeoutSeconds": "timeout_seconds",
        "totalTimeoutSeconds": "total_timeout_seconds",
    }
    """Other spellings of settings -> the setting."""

    provider: str = Field(description="Which provider answers: `mock`, `cli`, `replay`, `openai`, ...")
    judge_target: str | None = Field(None, description="The target that judges this target's answers, or `none`.")
    timeout_seconds: float | None = Field(None, gt=0, description="Deadline of one call.")
    total_timeout_seconds: float | None = Field(
        None, gt=0, description="Deadline of a call with all its tries and the pauses between them."
    )
    max_concurrency: int | None = Field(
        None, ge=1, description="Calls in flight at once, fewer while the target throttles. Default 16."
    )
    requests_per_minute: float | None = Field(None, gt=0, description="Calls started per minute, evenly spaced.")
    max_retries: int = Field(
        2,
        ge=0,
        le=100,
        description="Extra tries after connection errors, 408, 429 and 5xx. Honours Retry-After.",
    )
    workers: int | None = Field(None, ge=1, description="Cases of this target in flight, unless `--workers` is given.")
    provider_batching: bool = Field(
        False, description="With `cli`: all cases of a suite in one command. Others are asked case by case."
    )
    retry_initial_delay_ms: float = Field(500.0, ge=0, description="Longest pause before the first extra try.")
    retry_max_delay_ms: float = Field(30_000.0, ge=0, description="Longest pause between two tries.")
    retry_backoff_factor: float = Field(2.0, ge=1, description="How much longer each pause may be than the last.")
    retry_status_codes: list[int] | None = Field(
        None, description="HTTP statuses worth another try, instead of 408, 429 and 5xx. Never 401 or 403."
    )

    @field_validator("provider_batching", mode="before")
    @classmethod
    def _written_as_text(cls, value: Any) -> Any:
        """AgentV takes these words in quotes, too."""
        words = {"true": True, "1": True, "false": False, "0": False}
        return words.get(value.lower(), value) if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or cls.ALIASES.keys().isdisjoint(data):
            return data
        spelled: dict[str, Any] = {}
        for key, value in data.items():
            name = cls.ALIASES.get(key, key)
            if name in spelled:
                raise ValueError(f"`{name}` is set twice, under two spellings; keep one")
            spelled[name] = value
        return spelled


@dataclass(frozen=True, slots=True)
class TargetScope:
    """Where a target lives: what a provider needs besides its settings."""

    name: str
    directory: Path
    """Relative paths in the settings start here: the directory of the configuration file."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment a child process of this target may see, already without other targets' secrets."""
    redactor: Redactor = NO_SECRETS
    """Masks secret values in what a server or a command said, before it is cut to length."""
    run_command: RunCommand | None = field(default=None, compare=False, repr=False)
    """Runs a command so that nothing of it outlives the pool; None to start it directly."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt that is repeated after a pause."""

    target: str
    request: Request
    tries: int
    """Attempts made so far."""
    delay: float
    error: ProviderError


OnRetry = Callable[[Retry], None]
OnStart = Callable[[], None]


def _ignore_retry(_: Retry) -> None:
    pass


def _ignore_start() -> None:
    pass


async def _do_not_wait() -> None:
    pass


@dataclass(frozen=True, slots=True)
class CallHooks:
    """What the runtime wants to know about one call, and what a provider must await to stay within its limits."""

    on_start: OnStart = _ignore_start
    """Called once, when the call no longer waits for its turn at the target."""
    on_retry: OnRetry = _ignore_retry
    """Called for every attempt that is repeated."""
    before_second_request: Callable[[], Awaitable[None]] = _do_not_wait
    """Awaited before a second request is sent for the same call, so that `requests_per_minute` holds."""


NO_HOOKS = CallHooks()


class Provider(ABC):
    """The live object behind a target. Subclasses implement `invoke`; all other members have defaults."""

    Settings: ClassVar[type[TargetSettings]] = TargetSettings
    """The settings a target of this provider may have in the configuration."""
    answers_by_prompt: bool = False
    """Whether a reply depends on the request's prompt alone: not on the eval case, the directory, or files. `--cache`
    shares replies between cases only when this is True."""
    cacheable: bool = True
    """Whether `--cache` keeps replies at all. False for replies that are free and may change, like recorded ones."""
    honours: frozenset[str] = frozenset()
    """Names of the `GenerationOptions` that the provider passes on or satisfies anyway. A request with any other option
    fails before anything is sent."""
    keeps_deadline: bool = False
    """Whether the provider itself ends calls at `timeout_seconds`. Otherwise the gate cancels them."""
    takes_batches: bool = False
    """Whether `invoke_batch` sends all requests together, for targets with `provider_batching`."""

    @abstractmethod
    async def invoke(self, request: Request) -> Reply:
        """Send the request and return the reply."""

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        """`invoke`, with the hooks of the runtime. Override it to send a second request for the same call."""
        hooks.on_start()
        return await self.invoke(request)

    async def invoke_batch(self, requests: Sequence[Request]) -> Mapping[str, Reply]:
        """Replies by eval id. By default, one request after the other."""
        return {request.eval_id: await self.invoke(request) for request in requests}

    async def prepare(self) -> None:  # noqa: B027 - optional
        """Load what calls need, like a library. The time it takes does not count toward the deadline of a call."""

    def forget(self, request: Request) -> None:  # noqa: B027 - optional
        """The reply to this request could not be used: do not return a cached copy of it again."""

    async def aclose(self) -> None:  # noqa: B027 - optional
        """Release connections and processes. No call follows."""


class ProviderLayer(Provider):
    """A provider in front of another: the gate, the budget meter, the judge cache. Subclasses override `call`."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.answers_by_prompt = provider.answers_by_prompt
        self.cacheable = provider.cacheable
        self.honours = provider.honours
        self.keeps_deadline = provider.keeps_deadline
        self.takes_batches = provider.takes_batches

    async def invoke(self, request: Request) -> Reply:
        return await self.call(request, NO_HOOKS)

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        return await self.provider.call(request, hooks)

    async def invoke_batch(self, requests: Sequence[Request]) -> Mapping[str, Reply]:
        return await self.provider.invoke_batch(requests)

    async def prepare(self) -> None:
        await self.provider.prepare()

    def forget(self, request: Request) -> None:
        self.provider.forget(request)

    async def aclose(self) -> None:
        await self.provider.aclose()


def retryable_status(status: int) -> bool:
    """Whether a call that failed with this HTTP status may succeed when it is made again."""
    return status in (408, 429) or status >= 500


JsonObject = dict[str, Any]
