"""Providers by name. Classes are imported when a target first uses them."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Protocol, cast

from agentv.errors import UsageError
from agentv.targets.provider import Provider, TargetScope, TargetSettings

BUILT_IN = {
    "mock": "agentv.targets.providers.mock:MockProvider",
    "cli": "agentv.targets.providers.cli:CliProvider",
    "http": "agentv.targets.providers.http_endpoint:HttpProvider",
    "python": "agentv.targets.providers.python_function:PythonProvider",
    "replay": "agentv.targets.providers.replay:ReplayProvider",
    "openai": "agentv.targets.providers.openai_compatible:OpenAIProvider",
    "openai_compatible": "agentv.targets.providers.openai_compatible:OpenAICompatibleProvider",
    "azure": "agentv.targets.providers.openai_compatible:AzureProvider",
    "embeddings": "agentv.targets.providers.embeddings:EmbeddingsProvider",
    "anthropic": "agentv.targets.providers.anthropic:AnthropicProvider",
    "gemini": "agentv.targets.providers.gemini:GeminiProvider",
    "bedrock": "agentv.targets.providers.bedrock:BedrockProvider",
    "groq": "agentv.targets.providers.openai_compatible:GroqProvider",
    "mistral": "agentv.targets.providers.openai_compatible:MistralProvider",
    "openrouter": "agentv.targets.providers.openai_compatible:OpenRouterProvider",
    "local": "agentv.targets.providers.local:LocalProvider",
    "ollama": "agentv.targets.providers.openai_compatible:OllamaProvider",
}
"""Provider name -> its class. To add a provider, write one file and add one line here."""

ALIASES = {
    "azure-openai": "azure",
    "openai-compatible": "openai_compatible",
    "google": "gemini",
    "google-gemini": "gemini",
}
ENTRY_POINTS = "agentv.providers"


class ProviderClass(Protocol):
    """The interface of a provider class: a settings model and a constructor."""

    Settings: type[TargetSettings]
    answers_by_prompt: bool
    honours: frozenset[str]
    embeds: bool
    follows_prompts: bool

    def honoured(self, settings: TargetSettings | None) -> frozenset[str]: ...

    def __call__(self, settings: Any, scope: TargetScope) -> Provider: ...


@cache
def _third_party() -> dict[str, str]:
    """Providers of other packages. Only read for names that are not built in and to list all names."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, and few runs need it

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def provider_names() -> list[str]:
    """The names of all providers."""
    return sorted({*BUILT_IN, *_third_party()})


@cache
def provider_class(name: str) -> ProviderClass | None:
    """The class of a provider, or None if the name is unknown."""
    name = ALIASES.get(name, name)
    where = BUILT_IN.get(name) or _third_party().get(name)
    if where is None:
        return None
    module, _, attribute = where.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"provider '{name}' could not be loaded from {where}: {error}",
            next_step="Install or repair the package that provides it.",
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, Provider)):
        raise UsageError(
            f"{where} (provider '{name}') must be a subclass of agentv.targets.provider.Provider",
            next_step="Derive the class from Provider and implement `async invoke(self, request)`.",
        )
    if kind.__abstractmethods__:
        raise UsageError(
            f"{where} (provider '{name}') does not implement `invoke`",
            next_step="Add `async def invoke(self, request: Request) -> Reply` to the class.",
        )
    if not (isinstance(kind.Settings, type) and issubclass(kind.Settings, TargetSettings)):
        raise UsageError(
            f"`Settings` of {where} (provider '{name}') must be a subclass of agentv.targets.provider.TargetSettings",
            next_step="Derive it from TargetSettings, or leave it out if the provider has no settings.",
        )
    return cast("ProviderClass", kind)
