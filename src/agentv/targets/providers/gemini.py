"""The `gemini` provider: Google's models, through Google's library."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from agentv.messages import GenerationOptions
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.library import LibraryProvider, LibrarySettings
from agentv.targets.providers.model_settings import ExtraBodySettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class GeminiSettings(LibrarySettings, ExtraBodySettings):
    """Settings of a `gemini` target."""

    READS: ClassVar[tuple[str, ...]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL")

    model: str = Field("gemini-2.5-flash", min_length=1, description="Name of the model.")


class GeminiProvider(LibraryProvider):
    """Gemini, through the Gemini API (not Vertex AI)."""

    Settings: ClassVar[type[TargetSettings]] = GeminiSettings
    REQUIREMENT = "pydantic-ai-slim[google]>=2.60"
    LIBRARY, PRICED_AS = "google.genai", "gemini"
    honours = LibraryProvider.honours | {"seed", "stop", "logprobs"}
    BASE_URL = "https://generativelanguage.googleapis.com"

    def _build(self) -> Model[Any]:
        import httpx2  # noqa: PLC0415 - see library.py
        from google.genai import Client  # noqa: PLC0415
        from google.genai.types import HttpOptions  # noqa: PLC0415
        from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
        from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

        from agentv.targets.providers.library_http import client  # noqa: PLC0415

        # The library logs notes that are irrelevant to a run; without a handler they would go to stderr.
        logging.getLogger("google_genai").addHandler(logging.NullHandler())
        options = HttpOptions(
            base_url=self._base_url,
            extra_body=self._settings.extra_body or None,
            httpx_async_client=client(self._exchange),
            # Never used, but without it the library creates a client.
            httpx_client=httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(500))),
        )
        vendor = Client(vertexai=False, api_key=self._key, http_options=options)
        return GoogleModel(self._settings.model, provider=GoogleProvider(client=vendor))

    def _vendor_settings(self, options: GenerationOptions) -> dict[str, Any]:
        seconds = self._settings.timeout_seconds
        settings: dict[str, Any] = {"timeout": seconds} if seconds else {}
        if options.logprobs is not None:
            settings |= {"google_logprobs": True, "google_top_logprobs": options.logprobs}
        return settings
