"""Settings of `http` targets: the request as templates, and where the answer is in the reply."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentv.http.urls import is_http
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.http_reply import compiled_expression
from agentv.targets.providers.model_settings import check_headers
from agentv.targets.providers.request_variables import VARIABLES
from agentv.templates import Template, TemplateError, compile_template
from agentv.text import is_typo

_ORIGIN = re.compile(r"https?://[^/?#{}\s]+(?=[/?#]|$)", re.IGNORECASE)


class UsageExpressions(BaseModel):
    """Where a reply reports its usage."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid")

    input: str | None = Field(None, description="Input tokens.")
    output: str | None = Field(None, description="Output tokens.")
    cached: str | None = Field(None, description="Input tokens from the vendor's cache.")
    cost_usd: str | None = Field(None, description="Cost in US dollars.")

    @field_validator("*")
    @classmethod
    def _is_an_expression(cls, value: str | None) -> str | None:
        return _checked_expression(value)


class HttpSettings(TargetSettings):
    """Settings of a target behind an HTTP API."""

    TEMPLATES: ClassVar[frozenset[str]] = TargetSettings.TEMPLATES | {"url", "headers", "body"}

    url: str = Field(description="URL to call. `{{ variables }}` are percent-encoded.")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = Field("POST", description="HTTP method.")
    headers: dict[str, str] = Field(
        default_factory=dict, repr=False, description="HTTP headers, with `{{ variables }}`."
    )
    body: Any = Field(
        None,
        description="Body of the request: text, or any structure, which is sent as JSON. Strings can contain "
        "`{{ prompt }}` and other variables.",
    )
    response: str | None = Field(
        None, description="JMESPath expression for the answer in the JSON reply. Default: a common key, or the text."
    )
    output_messages: str | None = Field(
        None, description="JMESPath expression for all messages of the reply, with tool calls, instead of `response`."
    )
    usage: UsageExpressions | None = Field(
        None, description="JMESPath expressions for `input`, `output`, `cached` (tokens) and `cost_usd`."
    )
    stream: bool | None = Field(
        None, description="Whether the reply is a stream of server-sent events. Default: by its content type."
    )
    timeout_seconds: float | None = Field(600.0, gt=0, description="Deadline of one attempt, in seconds. Default 600.")

    @field_validator("url")
    @classmethod
    def _has_a_fixed_host(cls, value: str) -> str:
        origin = _ORIGIN.match(value)
        if origin is None or not is_http(origin[0]):
            raise ValueError("must be a URL like https://host/path, with variables only after the host")
        _checked(url_template(value))
        return value

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in check_headers(value).items():
            _checked(_compiled(text, name))
        return value

    @field_validator("body")
    @classmethod
    def _is_a_template(cls, value: Any) -> Any:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("must be text or a structure that JSON can express") from None
        for where, text in strings_in(value):
            _checked(_compiled(text, where))
        return value

    @field_validator("response", "output_messages")
    @classmethod
    def _is_an_expression(cls, value: str | None) -> str | None:
        return _checked_expression(value)

    @model_validator(mode="after")
    def _sends_the_question(self) -> HttpSettings:
        if self.method == "GET" and self.body is not None:
            raise ValueError("a GET request has no `body`; put the variables into `url`, or set `method: POST`")
        names = self.names()
        if not names or names <= {"eval_id", "attempt"}:
            raise ValueError(
                "the request does not contain the question; use `{{ prompt }}` or `{{ messages }}` in `body` or `url`"
            )
        return self

    def names(self) -> frozenset[str]:
        """The variables of the request."""
        texts = [self.url, *self.headers.values(), *(text for _, text in strings_in(self.body))]
        return frozenset(name for text in texts if "{" in text for name in compile_template(text).names)


def url_template(url: str) -> Template:
    """The template of a URL. Values are inserted percent-encoded."""
    return compile_template(url, escape=_percent_encoded)


def _percent_encoded(text: str) -> str:
    if text in (".", ".."):
        raise TemplateError(f"a value in the URL must not be `{text}`, which would change its path")
    return quote(text, safe="")


def strings_in(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """All strings of a body, except for keys, each with its path like `messages[0].content`."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from strings_in(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings_in(item, f"{where}[{index}]")


def _compiled(text: str, where: str) -> Template:
    try:
        return compile_template(text)
    except TemplateError as error:
        raise TemplateError(f"`{where}`: {error.message}" if where else error.message, error.line) from None


def _checked(template: Template) -> None:
    if typo := _misspelled(template.names):
        name, known = typo
        raise TemplateError(
            f"unknown variable `{name}` (did you mean `{known}`?); write `vars.{name}` if it is a variable of the case"
        )


def _misspelled(names: Iterable[str]) -> tuple[str, str] | None:
    """A name that is none of `VARIABLES` but nearly one of them, which a variable of a case hardly is."""
    for name in sorted(names):
        near = next((known for known in VARIABLES if is_typo(name, known)), None)
        if name not in VARIABLES and near is not None:
            return name, near
    return None


def _checked_expression(value: str | None) -> str | None:
    if value is not None:
        compiled_expression(value)
    return value
