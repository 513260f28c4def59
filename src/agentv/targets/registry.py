"""Providers by name. Classes are imported when a target first uses them."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from agentv.errors import UsageError
from agentv.targets.provider import Provider, TargetScope, TargetSettings

BUILT_IN = {
    "mock": "agentv.targets.providers.mock:MockProvider",
    "cli": "agentv.targets.providers.cli:CliProvider",
    "replay": "agentv.targets.providers.replay:ReplayProvider",
    "openai": "agentv.targets.providers.openai_compatible:OpenAIProvider",
    "openai_compatible": "agentv.targets.providers.openai_compatible:OpenAICompatibleProvider",
    "azure": "agentv.targets.providers.openai_compatible:AzureProvider",
    "anthropic": "agentv.targets.providers.anthropic:AnthropicProvider",
    "gemini": "agentv.targets.providers.gemini:GeminiProvider",
    "bedrock": "agentv.targets.providers.bedrock:BedrockProvider",
    "groq": "agentv.targets.providers.openai_compatible:GroqProvider",
    "mistral": "agentv.targets.providers.openai_compatible:MistralProvider",
    "openrouter": "agentv.targets.providers.openai_compatible:OpenRouterProvider",
    "ollama": "agentv.targets.providers.openai_compatible:OllamaProvider",
}
"""`provider` -> where its class is. A new provider is one file and one line here."""

ALIASES = {
    "azure-openai": "azure",
    "openai-compatible": "openai_compatible",
    "google": "gemini",
    "google-gemini": "gemini",
}
ENTRY_POINTS = "agentv.providers"


class ProviderClass(Protocol):
    """What a provider's class offers: a settings model, and a constructor."""

    Settings: type[TargetSettings]

    def __call__(self, settings: Any, scope: TargetScope) -> Provider: ...


@cache
def _third_party() -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def provider_names() -> list[str]:
    """Every provider a target can name."""
    return sorted({*BUILT_IN, *_third_party()})


@cache
def provider_class(name: str) -> ProviderClass | None:
    """The class of a provider, or None when there is no such provider."""
    name = ALIASES.get(name, name)
    where = BUILT_IN.get(name) or _third_party().get(name)
    if where is None:
        return None
    module, _, attribute = where.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"provider '{name}' could not be loaded from {where}: {error}",
            next_step="Install or repair the package that offers it.",
        ) from error
    settings = getattr(found, "Settings", None)
    is_settings = isinstance(settings, type) and issubclass(settings, TargetSettings)
    if not (isinstance(found, type) and is_settings and callable(getattr(found, "invoke", None))):
        raise UsageError(
            f"{where} (provider '{name}') is no provider: it needs `async invoke(request)` and `Settings`",
            next_step="Make `Settings` a subclass of agentv.targets.provider.TargetSettings.",
        )
    return cast("ProviderClass", found)
