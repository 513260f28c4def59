"""The `anthropic` provider: Claude, through Anthropic's library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from agentv.messages import GenerationOptions
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.library import LibraryProvider, LibrarySettings
from agentv.targets.providers.model_settings import ExtraBodySettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model

ROOM_TO_ANSWER = 4096


class AnthropicSettings(LibrarySettings, ExtraBodySettings):
    """Settings of an `anthropic` target."""

    READS: ClassVar[tuple[str, ...]] = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_AUTH_TOKEN",
    )
    ALIASES: ClassVar[Mapping[str, str]] = {
        **LibrarySettings.ALIASES,
        "deployment": "model",
        "variant": "model",
        "thinkingBudget": "thinking_budget",
    }

    max_output_tokens: int | None = Field(
        None, ge=1, description="Maximum length of an answer in tokens. Default 4096, plus `thinking_budget`."
    )
    thinking_budget: int | None = Field(None, ge=1024, description="Maximum tokens for thinking before the answer.")

    @property
    def fixed_options(self) -> frozenset[str]:
        # While it thinks, Claude rejects other temperatures than 1 and limits below the budget.
        thinks = self.thinking_budget is not None
        return super().fixed_options | ({"temperature", "top_p", "max_output_tokens"} if thinks else set())


class AnthropicProvider(LibraryProvider):
    """Claude, through the messages API."""

    Settings: ClassVar[type[TargetSettings]] = AnthropicSettings
    REQUIREMENT = "pydantic-ai-slim[anthropic]>=2.60"
    LIBRARY, PRICED_AS = "anthropic", "anthropic"
    BASE_URL = "https://api.anthropic.com"
    DECLARES_TOOLS = True
    honours = LibraryProvider.honours | {"stop"}
    ASSUMED: ClassVar[Mapping[str, Any]] = {"usage": {"input_tokens": 0, "output_tokens": 0}}

    def _build(self) -> Model[Any]:
        from anthropic import AsyncAnthropic  # noqa: PLC0415 - see library.py
        from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
        from pydantic_ai.providers.anthropic import AnthropicProvider as Vendor  # noqa: PLC0415

        from agentv.targets.providers.library_http import client  # noqa: PLC0415

        vendor = AsyncAnthropic(
            api_key=self._key,
            base_url=self._base_url,
            max_retries=0,
            timeout=self._settings.timeout_seconds,
            http_client=client(self._exchange),
        )
        return AnthropicModel(self._settings.model, provider=Vendor(anthropic_client=vendor))

    def _vendor_settings(self, options: GenerationOptions) -> dict[str, Any]:
        budget = self._settings.thinking_budget
        configured = self._settings.max_output_tokens or options.max_output_tokens
        limit = configured or ROOM_TO_ANSWER + (budget or 0)
        settings: dict[str, Any] = {"max_tokens": limit}
        if self._settings.extra_body:
            settings["extra_body"] = self._settings.extra_body
        if budget is not None:
            settings["anthropic_thinking"] = {"type": "enabled", "budget_tokens": budget}
        return settings
