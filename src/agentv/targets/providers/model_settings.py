"""Settings that every target with a model behind it has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, field_validator

from agentv.http.urls import is_http
from agentv.targets.prices import Prices
from agentv.targets.provider import TargetSettings


class ModelSettings(TargetSettings):
    """Settings of a target that is a model."""

    ALIASES: ClassVar[Mapping[str, str]] = {
        **TargetSettings.ALIASES,
        "maxTokens": "max_output_tokens",
        "maxOutputTokens": "max_output_tokens",
    }

    model: str = Field(min_length=1, description="The model, as the provider names it.")
    base_url: str | None = Field(None, description="Where the API is, when it is not where it usually is.")
    api_key: str | None = Field(None, repr=False, description="The key, best given as `${{ NAME }}`.")
    temperature: float | None = Field(None, ge=0, description="Sent when set.")
    max_output_tokens: int | None = Field(None, ge=1, description="Longest answer, in tokens.")
    headers: dict[str, str] = Field(default_factory=dict, repr=False, description="Extra HTTP headers.")
    timeout_seconds: float | None = Field(600.0, gt=0, description="Deadline of one call. Default 600.")
    prices: Prices | None = Field(
        None, description="`input`, `output` and `cached`: US dollars per million tokens, instead of the price table."
    )

    @field_validator("base_url")
    @classmethod
    def _has_a_host(cls, value: str | None) -> str | None:
        if value is not None and "://" in value and not is_http(value):
            raise ValueError("expected an address like https://host/v1")
        return value

    @field_validator("headers")
    @classmethod
    def _fit_on_a_line(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\r\n\0]", text):
                raise ValueError(f"{name!r} is not a header name, or its value holds a line break")
        return value
