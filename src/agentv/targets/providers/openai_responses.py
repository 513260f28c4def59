"""The `openai` provider with `api: responses`: OpenAI's responses API, through OpenAI's library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.messages import GenerationOptions
from agentv.targets.providers.library import LibraryProvider

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class ResponsesProvider(LibraryProvider):
    """The responses API. Its settings are those of `openai`."""

    REQUIREMENT = "pydantic-ai-slim[openai]>=2.60"
    LIBRARY, PRICED_AS = "openai", "openai"
    BASE_URL = "https://api.openai.com/v1"
    LATE_SYSTEM = True
    honours = LibraryProvider.honours | {"logprobs"}

    def _needs_key(self) -> bool:
        return self._base_url == self.BASE_URL

    def _vendor_settings(self, options: GenerationOptions) -> dict[str, Any]:
        settings: dict[str, Any] = {"extra_body": self._settings.extra_body} if self._settings.extra_body else {}
        if options.logprobs is None:
            return settings
        return {**settings, "openai_logprobs": True, "openai_top_logprobs": options.logprobs}

    def _build(self) -> Model[Any]:
        from openai import AsyncOpenAI  # noqa: PLC0415 - see library.py
        from pydantic_ai.models.openai import OpenAIResponsesModel  # noqa: PLC0415
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

        from agentv.targets.providers.library_http import client  # noqa: PLC0415

        vendor = AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=self._settings.timeout_seconds,
            http_client=client(self._exchange),
        )
        return OpenAIResponsesModel(self._settings.model, provider=OpenAIProvider(openai_client=vendor))
