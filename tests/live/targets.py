"""Targets for every provider that calls a server, pointed at third-party servers."""

from __future__ import annotations

from typing import Any

KEY = "sk-live-0123456789abcdef"


def settings(name: str, origin: str) -> dict[str, Any]:
    """The configuration of a target; `origin` is the address of its server or of a proxy in front of it."""
    provider, _, variant = name.partition("-")
    model = MODELS.get(name, "gpt-4")
    where = origin if provider in ("azure", "anthropic", "gemini", "bedrock") else f"{origin}/v1"
    chosen = {"provider": provider, "model": model, "api_key": KEY, "base_url": where}
    if variant == "responses":
        chosen["api"] = "responses"
    if provider == "bedrock":  # boto3 sends a key over HTTPS only; credentials that sign come from the environment
        chosen["region"] = "us-east-1"
        del chosen["api_key"]
    return chosen


ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIALIVE0123456789",
    "AWS_SECRET_ACCESS_KEY": "live-secret-0123456789abcdef",
    "GOOGLE_GENAI_API_VERSION": "v1beta",
}
"""Extra settings for the libraries: aimock supports only this version of the Gemini API."""


# The library warns about deprecated models, which every real model becomes at some point.
MODELS = {
    "anthropic": "claude-unknown",
    "gemini": "gemini-2.5-flash",
    "bedrock": "anthropic.claude-3-haiku-20240307-v1:0",
    "ollama": "llama3.2",
}

AIMOCK = (
    "openai",
    "openai-responses",
    "openai_compatible",
    "azure",
    "groq",
    "mistral",
    "openrouter",
    "ollama",
    "anthropic",
    "gemini",
    "bedrock",
)
"""Targets that `@copilotkit/aimock` can replace."""

MOCKLLM = ("openai", "openai_compatible", "groq", "mistral", "openrouter", "ollama")
"""Targets that `mockllm` can replace. (Its Claude accepts only plain text; Anthropic's library sends parts.)"""

LIBRARIES = {"openai-responses": "openai", "anthropic": "anthropic", "gemini": "google.genai", "bedrock": "boto3"}
"""Targets that need the library of an extra -> its module."""
