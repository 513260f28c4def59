"""The `mock` provider: a scripted model. Deterministic, offline, free."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentv.amounts import MOST_TOKENS, MOST_USD
from agentv.errors import ProviderError
from agentv.messages import Message, TokenUsage
from agentv.patterns import TIMEOUT_SECONDS, PythonPatterns, python_pattern
from agentv.targets.provider import Provider, Reply, Request, TargetScope, TargetSettings, retryable_status
from agentv.targets.structured import parse_messages


class TokenCounts(BaseModel):
    """Token usage that a scripted call reports."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid")

    input: int = Field(0, ge=0, le=MOST_TOKENS)
    output: int = Field(0, ge=0, le=MOST_TOKENS)
    cached: int | None = Field(None, ge=0, le=MOST_TOKENS)


class Script(BaseModel):
    """How the scripted model responds to a call."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    response: str | dict[str, Any] | None = Field(
        None, description="The answer: a string, or an object that is sent as indented JSON."
    )
    output_messages: list[dict[str, Any]] | None = Field(
        None, description="Messages of the answer, including tool calls. `response` is appended to them."
    )
    error: str | None = Field(None, min_length=1, description="Fail with this message, even if there is a `response`.")
    status: int | None = Field(
        None,
        ge=400,
        le=599,
        description="Fail with this HTTP status; 429 and 5xx are retried as with a real provider.",
    )
    delay_ms: float | None = Field(None, ge=0, description="Delay before the answer. Inherited by rules.")
    token_usage: TokenCounts | None = Field(None, description="Token usage that the call reports. Inherited by rules.")
    cost_usd: float | None = Field(
        None, ge=0, le=MOST_USD, description="Cost that the call reports. Inherited by rules."
    )

    @field_validator("response")
    @classmethod
    def _is_json(cls, value: Any) -> Any:
        _as_text(value)
        return value

    @field_validator("output_messages")
    @classmethod
    def _are_messages(cls, value: Any) -> Any:
        if value is not None:
            parse_messages(value)
        return value


class Rule(Script):
    """A script for the calls that match an expression. `error` and `status` are not inherited."""

    match: str = Field(
        description="Regular expression, searched in the system prompt and the question, joined by a newline."
    )

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str) -> str:
        python_pattern(value)
        return value

    @model_validator(mode="after")
    def _does_something(self) -> Rule:
        if all(v is None for v in (self.response, self.output_messages, self.error, self.status)):
            raise ValueError("a rule needs `response`, `output_messages`, `error` or `status`")
        return self


class MockSettings(Script, TargetSettings):
    """Settings of a `mock` target."""

    model: str | None = Field(None, description="Model name for reports.")
    rules: list[Rule] = Field(
        [], description="The first matching rule answers. Without a match, `response` is the answer."
    )
    delay_min_ms: float | None = Field(None, ge=0, description="With `delay_max_ms`: the delay is the mean of both.")
    delay_max_ms: float | None = Field(None, ge=0, description="See `delay_min_ms`. `delay_ms` overrides both.")

    @property
    def own_delay_ms(self) -> float:
        """The delay of calls whose rule sets none. It is the same for every call, so that runs are deterministic."""
        if self.delay_ms is not None:
            return self.delay_ms
        ends = [end for end in (self.delay_min_ms, self.delay_max_ms) if end is not None]
        return sum(ends) / len(ends) if ends else 0.0


@dataclass(frozen=True, slots=True)
class _Act:
    messages: tuple[Message, ...]
    failure: str | None
    status: int | None
    delay: float
    token_usage: TokenUsage | None
    cost_usd: float | None


class MockProvider(Provider):
    """Answers calls as scripted in its settings."""

    Settings: ClassVar[type[TargetSettings]] = MockSettings
    answers_by_prompt = True
    follows_prompts = False
    honours = frozenset({"temperature", "top_p", "seed"})  # without sampling, every value gives the same answer

    def __init__(self, settings: MockSettings, scope: TargetScope) -> None:
        self._target, self._model = scope.name, settings.model
        self._patterns = PythonPatterns([rule.match for rule in settings.rules])
        self._acts = [self._act(rule, settings) for rule in settings.rules]
        self._fallback = self._act(settings, settings)

    def _act(self, script: Script, base: MockSettings) -> _Act:
        messages = parse_messages(script.output_messages) if script.output_messages else ()
        if script.response is not None:
            messages = (*messages, Message("assistant", _as_text(script.response)))
        delay_ms = base.own_delay_ms if script.delay_ms is None else script.delay_ms
        usage = script.token_usage or base.token_usage
        return _Act(
            messages,
            self._failure(script),
            script.status,
            delay_ms / 1000,
            TokenUsage(usage.input, usage.output, usage.cached) if usage else None,
            base.cost_usd if script.cost_usd is None else script.cost_usd,
        )

    def _failure(self, script: Script) -> str | None:
        if script.status is None:
            return f"target '{self._target}': {script.error}" if script.error else None
        return f"target '{self._target}' returned HTTP {script.status}: {script.error or _reason(script.status)}"

    async def _chosen(self, text: str) -> _Act:
        try:
            index = await self._patterns.first_match(text)
        except TimeoutError:
            raise ProviderError(
                f"target '{self._target}': searching the rules' `match` timed out after {TIMEOUT_SECONDS:g} s "
                f"on a question of {len(text):,} characters",
                next_step="Reduce backtracking: avoid nested repeats like (a+)+ in `match`.",
            ) from None
        return self._fallback if index is None else self._acts[index]

    async def invoke(self, request: Request) -> Reply:
        act = await self._chosen(f"{request.instructions or ''}\n{request.question}")
        if act.delay:
            await asyncio.sleep(act.delay)
        if act.failure is not None:
            retryable = act.status is not None and retryable_status(act.status)
            raise ProviderError(act.failure, status=act.status, retryable=retryable)
        if not act.messages:
            raise ProviderError(
                f"target '{self._target}': the scripted model has no answer for this question",
                next_step="Add a `response`, or a rule whose `match` matches the question.",
            )
        return Reply(
            act.messages, token_usage=act.token_usage, cost_usd=act.cost_usd, finish_reason="stop", model=self._model
        )


def _as_text(response: str | dict[str, Any] | None) -> str:
    if isinstance(response, dict):
        try:
            return json.dumps(response, indent=2, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"not a JSON object: {error}") from None
    return response or ""


def _reason(status: int) -> str:
    from http import HTTPStatus  # noqa: PLC0415 - only needed for scripted failures

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "scripted failure"
