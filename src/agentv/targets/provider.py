"""The provider interface: one request in, one reply out.

To add a provider, subclass `Provider` with a `Settings` model (the settings a target may have in the configuration), a
constructor that takes those settings and a `TargetScope`, and `async invoke(request) -> Reply`. Everything else on the
base class is optional and has a default. Raise `ProviderError` when a call fails. The gate handles retries, limits and
deadlines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from agentv.amounts import bounded
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
from agentv.targets.commands import RunCommand, RunJob
from agentv.targets.outage import DEFAULT_LIMIT
from agentv.targets.shared import Shared
from agentv.templates import compile_template

if TYPE_CHECKING:
    from agentv.suite.search import ProgramSearch
    from agentv.suite.yaml import NodePath
    from agentv.targets.turnstile import Turnstile

GUIDELINES = "[[ ## Guidelines ## ]]"
"""The heading above the guidelines of a case in the prompt."""
NO_VARS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, init=False)
class Request(Conversation):
    """A call to a target: the conversation, the generation options, and the case it belongs to.

    `Request("question", "system prompt")` builds the messages from a system prompt and a question.
    """

    messages: tuple[Message, ...]
    """The whole conversation: roles `system`, `user`, `assistant` and `tool`."""
    options: GenerationOptions
    """Generation options. If the provider does not support a requested option, the call fails and nothing is sent."""
    eval_id: str
    attempt: int
    evaluator: str | None
    """The evaluator that calls a judge; None for calls to the target under test."""
    from_script: bool
    """Whether a judge script makes the call. Its errors may be caused by the script, not by the target."""
    files: tuple[Path, ...]
    directory: Path | None
    """The suite's directory. AgentV's command templates run here."""
    guidelines: str
    """Guidelines of the case, for commands that take them separately from the question."""
    naming_files: tuple[Message, ...] | None
    """The conversation with file names in place of file contents, for commands that read the files themselves. None if
    the case has no files."""
    vars: Mapping[str, Any]
    """The variables of the case."""
    prompt: str | None
    """The id of the suite's prompt that the messages are made from."""
    turn: int
    """The turn of a conversation, from 1; 0 for a case with one turn."""
    embeddings: bool
    """Whether the reply must contain the embeddings of the messages. Only the provider `embeddings` has them."""
    best_effort: bool
    """Whether to leave out options that the model does not support, and to describe the schema in the prompt if it
    cannot be enforced, instead of failing the call."""
    choice: int
    """Which of several independent replies to the same messages it is. They do not share one cached reply."""

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
        from_script: bool = False,
        files: tuple[Path, ...] = (),
        directory: Path | None = None,
        guidelines: str = "",
        naming_files: tuple[Message, ...] | None = None,
        vars: Mapping[str, Any] = NO_VARS,  # noqa: A002 - the key in suites
        prompt: str | None = None,
        turn: int = 0,
        embeddings: bool = False,
        best_effort: bool = False,
        choice: int = 0,
    ) -> None:
        fill = object.__setattr__
        fill(self, "messages", as_messages(question, system_prompt, messages))
        fill(self, "options", options)
        fill(self, "eval_id", eval_id)
        fill(self, "attempt", attempt)
        fill(self, "evaluator", evaluator)
        fill(self, "from_script", from_script)
        fill(self, "files", files)
        fill(self, "directory", directory)
        fill(self, "guidelines", guidelines)
        fill(self, "naming_files", naming_files)
        fill(self, "vars", vars)
        fill(self, "prompt", prompt)
        fill(self, "turn", turn)
        fill(self, "embeddings", embeddings)
        fill(self, "best_effort", best_effort)
        fill(self, "choice", choice)

    @property
    def instructions(self) -> str | None:
        """The system prompt followed by the guidelines of the case."""
        if not self.guidelines:
            return self.system_prompt
        return "\n\n".join(text for text in (self.system_prompt, f"{GUIDELINES}\n\n{self.guidelines}") if text)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a target."""

    output_messages: tuple[Message, ...]
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    """Duration reported by the target. If None, the runtime measures it."""
    finish_reason: str | None = None
    """Why the model stopped, as reported by the vendor: `stop`, `length`, `tool_calls`, ..."""
    model: str | None = None
    """The model that answered, as reported by the vendor. It may differ from the configured name."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """Log probabilities of the answer's tokens, if they were requested and the vendor returned them."""
    embeddings: tuple[bytes, ...] | None = None
    """The embeddings that were requested, each as 32-bit floats (little-endian)."""
    retries: int = 0
    cache_hit: bool = False
    recorded: bool = False
    """Whether the reply was read from a file. The measured time then says nothing about the target."""
    warnings: tuple[str, ...] = ()
    """Values that the target reported and that could not be used."""
    dropped_options: tuple[str, ...] = ()
    """Options of a request with `best_effort` that were not sent: the model does not support them, or the schema is
    described in the prompt."""
    execution: Mapping[str, Any] | None = None
    """The node that ran the command of the target, and how often it was tried."""

    def __post_init__(self) -> None:
        amounts = bounded(self.token_usage, self.cost_usd, self.duration_ms)
        if amounts.warnings:
            for name in ("token_usage", "cost_usd", "duration_ms"):
                object.__setattr__(self, name, getattr(amounts, name))
            object.__setattr__(self, "warnings", (*self.warnings, *amounts.warnings))

    @property
    def text(self) -> str:
        return final_text(self.output_messages)

    @classmethod
    def of_text(cls, text: str, *, token_usage: TokenUsage | None = None, cost_usd: float | None = None) -> Reply:
        return cls((Message("assistant", text),), token_usage=token_usage, cost_usd=cost_usd)


class TargetSettings(BaseModel):
    """Settings that every target may have. Providers add theirs by subclassing."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    READS: ClassVar[tuple[str, ...]] = ()
    """Environment variables that the provider reads if a setting is absent."""

    ALIASES: ClassVar[Mapping[str, str]] = {
        "maxRetries": "max_retries",
        "providerBatching": "provider_batching",
        "retryInitialDelayMs": "retry_initial_delay_ms",
        "retryMaxDelayMs": "retry_max_delay_ms",
        "retryBackoffFactor": "retry_backoff_factor",
        "retryStatusCodes": "retry_status_codes",
        "timeoutSeconds": "timeout_seconds",
        "totalTimeoutSeconds": "total_timeout_seconds",
        "cli_verbose": "verbose",
        "cliVerbose": "verbose",
        "keepTempFiles": "keep_temp_files",
        "keep_output_files": "keep_temp_files",
        "keepOutputFiles": "keep_temp_files",
    }
    """Alternative spellings of settings -> the setting."""

    IGNORED: ClassVar[frozenset[str]] = frozenset({"verbose", "keep_temp_files"})
    """Settings of `cli` targets that AgentV (npm) accepts on every target. Elsewhere they are ignored with a note."""

    TEMPLATES: ClassVar[frozenset[str]] = frozenset({"system_prompt", "prompt"})
    """Settings whose strings are templates. What `${{ NAME }}` inserts into them is not interpreted as a template."""

    provider: str = Field(description="Provider of the target: `mock`, `cli`, `replay`, `openai`, ...")
    judge_target: str | None = Field(None, description="Target that judges this target's answers; `none` disables it.")
    system_prompt: str | None = Field(
        None,
        min_length=1,
        description="System prompt of every case, before that of the case; may use `{{ variable }}`.",
    )
    prompt: str | None = Field(
        None,
        min_length=1,
        description="Template for the last user message of every case: `{{ input }}` is its text, other names are "
        "variables of the case.",
    )
    timeout_seconds: float | None = Field(None, gt=0, description="Deadline of one attempt, in seconds.")
    total_timeout_seconds: float | None = Field(
        None, gt=0, description="Deadline of a call in seconds, including all retries and the pauses between them."
    )
    max_concurrency: int | None = Field(
        None, ge=1, description="Maximum parallel calls; lowered while the target is rate limiting. Default 16."
    )
    requests_per_minute: float | None = Field(None, gt=0, description="Maximum calls per minute, evenly spaced.")
    max_retries: int = Field(
        2,
        ge=0,
        le=100,
        description="Retries after connection errors, 408, 429 and 5xx. Honours Retry-After.",
    )
    max_consecutive_errors: int = Field(
        DEFAULT_LIMIT,
        ge=0,
        description="Equal errors in a row after which the target is declared down and its remaining cases are not "
        "called; 0 for never.",
    )
    cache: bool = Field(
        False,
        description="Cache the answers of the target in .agentv/cache. Answers of `mock` and `replay` and in batches "
        "are never cached. For judge calls, use `--cache`.",
    )
    workers: int | None = Field(
        None, ge=1, description="Cases judged at a time, while as many are answered; `--workers` overrides. Default 16."
    )
    provider_batching: bool = Field(
        False, description="With `cli`: run all cases of a suite in one command. Other providers run case by case."
    )
    retry_initial_delay_ms: float = Field(500.0, ge=0, description="Maximum pause before the first retry.")
    retry_max_delay_ms: float = Field(30_000.0, ge=0, description="Maximum pause before any retry.")
    retry_backoff_factor: float = Field(2.0, ge=1, description="Factor by which the maximum pause grows per retry.")
    retry_status_codes: list[int] | None = Field(
        None, description="HTTP statuses to retry, instead of 408, 429 and 5xx. 401 and 403 are never retried."
    )

    @field_validator("system_prompt", "prompt")
    @classmethod
    def _is_a_wording(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and compile_template(value).is_constant and info.field_name == "prompt":
            raise ValueError("must contain the question: write `{{ input }}` in it; instructions are a `system_prompt`")
        return value

    @field_validator("provider_batching", mode="before")
    @classmethod
    def _written_as_text(cls, value: Any) -> Any:
        """AgentV (npm) also accepts these values as strings."""
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

    @property
    def on_nodes(self) -> bool:
        """Whether the target runs commands that can run on nodes."""
        return False

    @property
    def sends_secrets(self) -> bool:
        """Whether keys of the target may be sent to nodes."""
        return False

    @property
    def fixed_options(self) -> frozenset[str]:
        """Names of the `GenerationOptions` that these settings set. They override those of a request."""
        return frozenset()

    @property
    def concurrency(self) -> int | None:
        """Maximum parallel calls, if the settings determine it."""
        return self.max_concurrency

    def identity_of_files(self, directory: Path) -> list[str]:
        """What identifies the files that the answers come from: replies are cached for these files only.

        `directory` is that of the configuration file. Default: nothing.
        """
        del directory
        return []

    @property
    def changes_prompts(self) -> bool:
        """Whether it adds something to the prompts of its cases (`targets/wording.py`)."""
        return self.system_prompt is not None or self.prompt is not None

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        """What the target needs on this machine and does not find: messages by setting. Default: nothing.

        `directory` is that of the configuration file. The messages are reported before anything is called.
        """
        del directory, search
        return {}


@dataclass(frozen=True, slots=True)
class TargetScope:
    """The context of a target: what a provider needs besides its settings."""

    name: str
    directory: Path
    """The directory of the configuration file. Relative paths in the settings are relative to it."""
    agentv_file: bool = False
    """Whether the target is configured in a `targets.yaml`, which AgentV (npm) reads, too."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment for child processes of this target, without the secrets of other targets."""
    redactor: Redactor = NO_SECRETS
    """Masks secret values in the output of servers and commands before it is truncated."""
    run_command: RunCommand | None = field(default=None, compare=False, repr=False)
    """Runs a command so that none of its processes outlives the pool; None to start commands directly."""
    run_job: RunJob | None = field(default=None, compare=False, repr=False)
    """Runs a command where the target's commands run: here or on nodes; None to start commands directly."""
    shared: Shared = field(default_factory=Shared, compare=False, repr=False)
    """What the targets of the pool use together."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt that will be retried after a pause."""

    target: str
    request: Request
    tries: int
    """Attempts made so far."""
    delay: float
    error: ProviderError


OnRetry = Callable[[Retry], None]
OnStart = Callable[[], None]
OnWait = Callable[[bool], None]


def _ignore_retry(_: Retry) -> None:
    pass


def _ignore_start() -> None:
    pass


def _ignore_wait(_: bool) -> None:
    pass


async def _do_not_wait() -> None:
    pass


@dataclass(frozen=True, slots=True)
class CallHooks:
    """Callbacks of the runtime for one call."""

    on_start: OnStart = _ignore_start
    """Called once, when the call has stopped waiting for the limits of the target."""
    on_retry: OnRetry = _ignore_retry
    """Called for every attempt that is retried."""
    on_wait: OnWait = _ignore_wait
    """Called with True when the call starts to wait for the limits of the target or for a retry, and with False when
    it no longer waits. Not called for a call that can start immediately and succeeds."""
    before_second_request: Callable[[], Awaitable[None]] = _do_not_wait
    """Await this before sending a second request for the same call, to respect `requests_per_minute`."""


NO_HOOKS = CallHooks()


class Provider(ABC):
    """The live object behind a target. Subclasses implement `invoke`; all other members have defaults."""

    Settings: ClassVar[type[TargetSettings]] = TargetSettings
    """The settings a target of this provider may have in the configuration."""
    answers_by_prompt: bool = False
    """Whether a reply depends only on the prompt: not on the eval case, the directory or files. Only then, `--cache`
    shares replies between cases."""
    cacheable: bool = True
    """Whether `--cache` stores replies. False for replies that are free and may change, such as recorded ones."""
    honours: frozenset[str] = frozenset()
    """Names of the `GenerationOptions` that the provider supports. A request with any other option fails and is not
    sent."""
    fixes: frozenset[str] = frozenset()
    """Names of the `GenerationOptions` that settings of the target override (`Settings.fixed_options`)."""
    embeds: bool = False
    """Whether requests for embeddings can be answered."""
    follows_prompts: bool = True
    """Whether instructions in a prompt, such as the description of a schema, can change the reply."""
    keeps_deadline: bool = False
    """Whether the provider enforces `timeout_seconds`. Otherwise the gate cancels calls."""
    runs_commands: bool = False
    """Whether a call starts a program. A judge script may choose such a target only if the suite names it."""
    shared_slots: Turnstile | None = None
    """Slots that other targets use too. The gate takes one for each attempt. Waiting for it is not part of the call."""
    takes_batches: bool = False
    """Whether `invoke_batch` sends all requests together, for targets with `provider_batching`."""

    @classmethod
    def honoured(cls, settings: TargetSettings | None) -> frozenset[str]:
        """`honours` of a target with these settings; None if they are invalid. It opens nothing."""
        del settings
        return cls.honours

    @abstractmethod
    async def invoke(self, request: Request) -> Reply:
        """Send the request and return the reply."""

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        """`invoke` with the hooks of the runtime. Override this to send a second request for the same call."""
        hooks.on_start()
        return await self.invoke(request)

    async def invoke_batch(self, requests: Sequence[Request]) -> Mapping[str, Reply]:
        """Send several requests and return the replies by eval id. By default, sends them one after another."""
        return {request.eval_id: await self.invoke(request) for request in requests}

    async def prepare(self) -> None:  # noqa: B027 - optional
        """Load what calls need, such as a library. This does not count towards the deadline of a call."""

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare` returns immediately. Otherwise its time counts as waiting, not as part of a call."""
        return True

    async def price_gap(self) -> str | None:
        """Why the cost of calls is or may be unknown, with the remedy; None if it is known."""
        return None

    def forget(self, request: Request) -> None:  # noqa: B027 - optional
        """Drop the cached reply to this request, which turned out to be unusable."""

    async def aclose(self) -> None:  # noqa: B027 - optional
        """Release connections and processes. No calls are made after this."""


class ProviderLayer(Provider):
    """A provider in front of another: the gate, the budget meter, the judge cache. Subclasses override `call`."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.answers_by_prompt = provider.answers_by_prompt
        self.cacheable = provider.cacheable
        self.honours = provider.honours
        self.fixes = provider.fixes
        self.embeds = provider.embeds
        self.follows_prompts = provider.follows_prompts
        self.keeps_deadline = provider.keeps_deadline
        self.runs_commands = provider.runs_commands
        self.shared_slots = provider.shared_slots
        self.takes_batches = provider.takes_batches

    async def invoke(self, request: Request) -> Reply:
        return await self.call(request, NO_HOOKS)

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        return await self.provider.call(request, hooks)

    async def invoke_batch(self, requests: Sequence[Request]) -> Mapping[str, Reply]:
        return await self.provider.invoke_batch(requests)

    async def prepare(self) -> None:
        await self.provider.prepare()

    @property
    def is_prepared(self) -> bool:
        return self.provider.is_prepared

    async def price_gap(self) -> str | None:
        return await self.provider.price_gap()

    def forget(self, request: Request) -> None:
        self.provider.forget(request)

    async def aclose(self) -> None:
        await self.provider.aclose()


def retryable_status(status: int) -> bool:
    """Whether a call that failed with this HTTP status may succeed if it is retried."""
    return status in (408, 429) or status >= 500


JsonObject = dict[str, Any]
