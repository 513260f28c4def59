"""`embeddings`: an OpenAI-compatible embeddings API, for `similarity` evaluators and for scripts that need vectors."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, model_validator

from agentv.messages import TokenUsage
from agentv.targets.provider import CallHooks, Reply, Request, TargetSettings
from agentv.targets.providers.exchange import GOOD, error_code
from agentv.targets.providers.openai_compatible import ChatSettings, OpenAICompatibleProvider, OpenAISettings, Preset
from agentv.targets.structured import named_model
from agentv.targets.vectors import cosine, packed
from agentv.text import plural

NOT_A_CHAT = (
    "An embeddings target cannot answer or judge; name it in `target` of a `similarity` evaluator, or in "
    "`judge.embeddings` of a script."
)

LONGEST = 1e150
"""Longer vectors are not embeddings, and the product of their lengths would be infinite."""


class EmbeddingsSettings(ChatSettings):
    """Settings of a target with an embeddings API."""

    READS: ClassVar[tuple[str, ...]] = OpenAISettings.READS

    base_url: str | None = Field(None, description="URL of the API, without `/embeddings`. Default: that of OpenAI.")

    @model_validator(mode="after")
    def _generates_nothing(self) -> Self:
        for name in ("temperature", "max_output_tokens", "structured_output"):
            if name in self.model_fields_set:
                raise ValueError(f"`{name}` has no effect on embeddings; remove it")
        return self


class EmbeddingsProvider(OpenAICompatibleProvider):
    """Replies to two user messages with the cosine of their embeddings, as text; on request, to any number of messages
    with the embeddings."""

    Settings: ClassVar[type[TargetSettings]] = EmbeddingsSettings
    PRESET: ClassVar[Preset] = Preset("https://api.openai.com/v1")
    honours: frozenset[str] = frozenset()
    embeds = True

    def _endpoint(self, base: str) -> str:
        parts = urlsplit(base)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/embeddings", fragment=""))

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        strings = [message.content for message in request.messages if message.role == "user"]
        is_right = len(strings) == len(request.messages) and (request.embeddings or len(strings) == 2)
        if not is_right or not all(isinstance(text, str) for text in strings):
            raise self._exchange.error("it compares two strings and got a conversation", next_step=NOT_A_CHAT)
        hooks.on_start()
        self._pricer.start()
        body = json.dumps({"model": self._settings.model, "input": strings, "encoding_format": "float"})
        status, headers, data = await self._exchange.post(self._url, self._headers, body.encode())
        if status not in GOOD:
            raise self._exchange.refused(self._url, status, headers, data)
        parsed = await self._exchange.read_json(self._url, headers, data)
        if isinstance(parsed, dict) and parsed.get("error") and not parsed.get("data"):
            raise self._exchange.refused(self._url, error_code(parsed["error"]), headers, data)
        usage = _usage(parsed)
        if not self._pricer.ready:
            await self._pricer.loaded()
        cost = None if usage is None else self._pricer.cost(usage, (parsed.get("model"), self._settings.model))
        vectors = _vectors(parsed, len(strings))
        if vectors is None:
            count = "two embeddings" if len(strings) == 2 else plural(len(strings), "embedding")
            raise self._exchange.error(
                f"the reply does not contain {count} of the same length",
                token_usage=usage,
                cost_usd=cost,
                next_step="Is this an embeddings endpoint?",
            )
        if not all(map(_has_angle, vectors)):
            raise self._exchange.error(
                "an embedding in the reply is zero, infinite or not a number, so it cannot be compared",
                token_usage=usage,
                cost_usd=cost,
                next_step="Check the model: some return zeros for empty text.",
            )
        if not request.embeddings:
            return Reply.of_text(f"{cosine(*vectors):.6f}", token_usage=usage, cost_usd=cost)
        model = named_model(parsed.get("model")) if isinstance(parsed, dict) else None
        return Reply((), usage, cost, model=model, embeddings=tuple(map(packed, vectors)))


def _has_angle(vector: list[float]) -> bool:
    try:
        return 0 < math.hypot(*vector) < LONGEST
    except OverflowError:
        return False


def _usage(parsed: Any) -> TokenUsage | None:
    usage = parsed.get("usage") if isinstance(parsed, dict) else None
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return TokenUsage(count, 0) if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def _vectors(parsed: Any, count: int) -> list[list[float]] | None:
    """The embeddings in the order of the strings; None if the reply is anything else."""
    items = parsed.get("data") if isinstance(parsed, dict) else None
    if not isinstance(items, list) or len(items) != count or not all(isinstance(item, dict) for item in items):
        return None
    vectors = [item.get("embedding") for item in items]
    for vector in vectors:
        if not isinstance(vector, list) or not vector or not all(type(value) in (int, float) for value in vector):
            return None
    return vectors if len({len(vector) for vector in vectors}) == 1 else None
