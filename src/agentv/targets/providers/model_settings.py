"""Settings common to all targets that call a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from agentv.http.urls import is_http
from agentv.targets.prices import Prices
from agentv.targets.provider import TargetSettings

OWN_FIELDS = ("model", "messages", "input", "stream")
"""Fields of a request that only agentv sets."""
OPTIONS_OF_FIELDS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "seed": "seed",
    "random_seed": "seed",
    "stop": "stop",
    "stop_sequences": "stop",
    "logprobs": "logprobs",
    "top_logprobs": "logprobs",
}
"""Fields of a request, or of `extra_body` -> the generation option that they set."""


class ModelSettings(TargetSettings):
    """Settings of a target that calls a model."""

    ALIASES: ClassVar[Mapping[str, str]] = {
        **TargetSettings.ALIASES,
        "maxTokens": "max_output_tokens",
        "maxOutputTokens": "max_output_tokens",
    }

    model: str = Field(min_length=1, description="Name of the model at the provider.")
    base_url: str | None = Field(None, description="URL of the API. Default: that of the vendor.")
    api_key: str | None = Field(None, repr=False, description="API key, preferably as `${{ NAME }}`.")
    temperature: float | None = Field(None, ge=0, description="Sampling temperature; only sent if set.")
    top_p: float | None = Field(None, ge=0, le=1, description="Nucleus sampling; only sent if set.")
    max_output_tokens: int | None = Field(None, ge=1, description="Maximum length of an answer in tokens.")
    headers: dict[str, str] = Field(default_factory=dict, repr=False, description="Extra HTTP headers.")
    timeout_seconds: float | None = Field(600.0, gt=0, description="Deadline of one attempt, in seconds. Default 600.")
    prices: Prices | None = Field(
        None, description="`input`, `output` and `cached` in US dollars per million tokens. Overrides the price table."
    )

    @property
    def fixed_options(self) -> frozenset[str]:
        own = ("temperature", "top_p", "max_output_tokens")
        return frozenset(name for name in own if getattr(self, name) is not None)

    @field_validator("base_url")
    @classmethod
    def _has_a_host(cls, value: str | None) -> str | None:
        if value is not None and "://" in value and not is_http(value):
            raise ValueError("expected a URL like https://host/v1")
        return value

    @field_validator("headers")
    @classmethod
    def _fit_on_a_line(cls, value: dict[str, str]) -> dict[str, str]:
        return check_headers(value)


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """The same headers. Raises ValueError if one of them cannot be sent."""
    for name, text in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\r\n\0]", text):
            raise ValueError(f"{name!r} is not a valid header name, or its value contains a line break")
    return headers


class ExtraBodySettings(ModelSettings):
    """Settings of a target whose requests can have fields that agentv has no setting for."""

    extra_body: dict[str, Any] = Field(
        default_factory=dict,
        description="Further fields of the request, such as `tools` or `reasoning_effort`, exactly as the API names "
        "them.",
    )

    @property
    def fixed_options(self) -> frozenset[str]:
        return super().fixed_options | {OPTIONS_OF_FIELDS[k] for k in self.extra_body if k in OPTIONS_OF_FIELDS}

    @field_validator("extra_body")
    @classmethod
    def _leaves_own_fields(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in OWN_FIELDS:
            if name in value:
                raise ValueError(f"`{name}` is set by agentv; remove it from `extra_body`")
        return value
