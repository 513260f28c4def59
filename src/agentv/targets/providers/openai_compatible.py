"""Providers with a chat completions API: `openai`, `azure` and all compatible servers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field

from agentv.errors import ProviderError, TargetUnavailableError
from agentv.http.urls import is_http
from agentv.messages import NO_OPTIONS, OPTIONS
from agentv.targets.best_effort import SCHEMA, describing_schema, is_any_object
from agentv.targets.prices import Pricer
from agentv.targets.provider import NO_HOOKS, CallHooks, Provider, Reply, Request, TargetScope, TargetSettings
from agentv.targets.providers.chat import (
    ResponseFormats,
    choice_error,
    parse_completion,
    wire_messages,
    wire_options,
)
from agentv.targets.providers.exchange import GOOD, Exchange, error_code, merged_headers
from agentv.targets.providers.model_settings import ExtraBodySettings
from agentv.targets.providers.rejected_options import send_best_effort

_REFUSED_FORMAT = re.compile(r"response[_ ]format|json[_ ]schema|structured[_ ]output|grammar", re.IGNORECASE)
_INVALID_SCHEMA = re.compile(r"invalid[ _](json[ _])?schema|schema conversion|grammar", re.IGNORECASE)
"""The server supports schemas, but not this one."""
_SCHEMA_UNKNOWN = ("off", "json_object")
"""Values of `structured_output` with which the server does not get the schema."""
_BROKEN_FORMAT = "json_validate_failed"
"""Groq's error code for output that does not match the schema. The next attempt may succeed."""


class ChatSettings(ExtraBodySettings):
    """Settings of a target with a chat completions API."""

    base_url: str | None = Field(None, description="URL of the API, without `/chat/completions`.")
    structured_output: Literal["auto", "json_schema", "json_object", "off"] = Field(
        "auto",
        description="How JSON is requested from a judge: with a schema, as any object, or only in the prompt (`off`). "
        "`auto` uses `json_schema`, and `off` after the server has rejected it.",
    )


class OpenAISettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_ADMIN_KEY",
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
        "OPENAI_WEBHOOK_SECRET",
    )

    api: Literal["chat", "responses"] = Field(
        "chat", description="API to call: chat completions, or responses (needs the extra `responses`)."
    )


class AzureSettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT")
    ALIASES: ClassVar[Mapping[str, str]] = {
        **ChatSettings.ALIASES,
        "endpoint": "base_url",
        "resource": "base_url",
        "resource_name": "base_url",
        "resourceName": "base_url",
        "deployment": "model",
        "deployment_name": "model",
        "deploymentName": "model",
        "version": "api_version",
        "apiVersion": "api_version",
    }

    model: str = Field(min_length=1, description="Name of the deployment.")
    base_url: str | None = Field(None, description="URL of the endpoint, or the name of the Azure resource.")
    api_version: str = Field("2024-12-01-preview", min_length=1, description="Version of the Azure API.")


class GroqSettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("GROQ_API_KEY",)


class MistralSettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("MISTRAL_API_KEY",)


class OpenRouterSettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("OPENROUTER_API_KEY",)


@dataclass(frozen=True, slots=True)
class Preset:
    """Defaults of a provider."""

    base_url: str | None = None
    needs_key: bool = True
    limit_name: str = "max_tokens"
    seed_name: str = "seed"


class OpenAICompatibleProvider(Provider):
    """A provider with a chat completions API."""

    Settings: ClassVar[type[TargetSettings]] = ChatSettings
    PRESET: ClassVar[Preset] = Preset(needs_key=False)
    answers_by_prompt = True
    honours = frozenset(OPTIONS)

    def __init__(self, settings: ChatSettings, scope: TargetScope) -> None:
        self._settings, self._scope = settings, scope
        base = settings.base_url or self._read("_BASE_URL", "_ENDPOINT") or self.PRESET.base_url
        if base is None:
            raise TargetUnavailableError(scope.name, "it has no URL; set `base_url`")
        key = (settings.api_key or self._read("_API_KEY") or "").strip()
        if not key and self.PRESET.needs_key and self.PRESET.base_url in (None, base):
            raise TargetUnavailableError(scope.name, f"it has no API key; set `api_key` or {settings.READS[0]}")
        self._url = self._endpoint(base)
        if not is_http(self._url):
            raise TargetUnavailableError(scope.name, f"`base_url` must be a URL like https://host/v1, got {base}")
        own = {"Content-Type": "application/json", **self._credentials(key)}
        self._headers = merged_headers(own, settings.headers)
        self._options = self._fixed_body()
        self.fixes = settings.fixed_options
        self._format = settings.structured_output
        self._formats = ResponseFormats()
        self._rejected: set[str] = set()
        """Options that the model has rejected."""
        self._pricer = Pricer(settings.prices, url=self._url)
        self._exchange = Exchange(
            scope,
            self._url,
            secrets=[key, *settings.headers.values()],
            key_from=f"`api_key` (or {settings.READS[0]})" if settings.READS else "`api_key`",
            model=settings.model,
        )

    async def price_gap(self) -> str | None:
        return await self._pricer.gap(self._settings.model, is_alias=self._settings.provider == "azure")

    # -- differences between providers

    def _endpoint(self, base: str) -> str:
        parts = urlsplit(base)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/chat/completions", fragment=""))

    def _credentials(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _fixed_body(self) -> dict[str, Any]:
        optional = {
            "temperature": self._settings.temperature,
            "top_p": self._settings.top_p,
            self.PRESET.limit_name: self._settings.max_output_tokens,
        }
        known = {k: v for k, v in optional.items() if v is not None}
        return {"model": self._settings.model, **self._settings.extra_body, **known}

    def _read(self, *endings: str) -> str | None:
        values = (self._scope.environment.get(name) for name in self._settings.READS if name.endswith(endings))
        return next((value for value in values if value), None)

    # -- a call

    async def invoke(self, request: Request) -> Reply:
        return await self.call(request, NO_HOOKS)

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        hooks.on_start()
        self._pricer.start()
        if not request.best_effort:
            return await self._call(request, hooks)
        return await send_best_effort(request, partial(self._call, hooks=hooks), self._rejected, hooks)

    async def _call(self, request: Request, hooks: CallHooks) -> Reply:
        options = request.options
        is_described = request.best_effort and options.response_schema is not None and self._format in _SCHEMA_UNKNOWN
        if is_described:
            request = describing_schema(request)
        body = {**self._options, "messages": wire_messages(request)}
        if options is not NO_OPTIONS:  # settings of the target override the request
            names = self.PRESET
            body = {**wire_options(options, limit_name=names.limit_name, seed_name=names.seed_name), **body}
        if options.response_schema is not None and self._format != "off":
            reply = await self._ask_for_object(request, body, options.response_schema, hooks)
        else:
            reply = await self._ask(body)
        return replace(reply, dropped_options=(SCHEMA,)) if is_described else reply

    async def aclose(self) -> None:
        await self._exchange.aclose()
        await self._pricer.aclose()

    async def _ask(self, body: dict[str, Any], response_format: str | None = None) -> Reply:
        """Send one request. `response_format` is JSON text."""
        if response_format is not None:
            body.pop("response_format", None)  # a judge needs its own
        sent = json.dumps(body)
        if response_format is not None:
            sent = f'{sent[:-1]}, "response_format": {response_format}}}'
        status, headers, data = await self._exchange.post(self._url, self._headers, sent.encode())
        if status not in GOOD:
            raise self._exchange.refused(self._url, status, headers, data)
        parsed = await self._exchange.read_json(self._url, headers, data)
        if isinstance(parsed, dict) and parsed.get("error") and not parsed.get("choices"):
            raise self._exchange.refused(self._url, error_code(parsed["error"]), headers, data)
        if upstream_error := choice_error(parsed):
            raise self._exchange.refused(
                self._url, error_code(upstream_error), headers, json.dumps({"error": upstream_error}).encode()
            )
        if not self._pricer.ready:
            await self._pricer.loaded()
        try:
            return parse_completion(parsed, self._pricer, self._settings.model)
        except ProviderError as error:
            raise self._exchange.of_target(error) from None

    async def _ask_for_object(
        self, request: Request, body: dict[str, Any], schema: Mapping[str, Any], hooks: CallHooks
    ) -> Reply:
        """Request structured output. If the server rejects it, retry without `response_format`."""
        mode = self._format
        wanted = "json_object" if request.best_effort and is_any_object(schema) else mode
        try:
            return await self._ask(body, self._formats.text(wanted, schema))
        except ProviderError as error:
            if error.status not in (400, 404, 422):
                raise
            broken = _BROKEN_FORMAT in error.message or "failed_generation" in error.message
            if not broken and not _REFUSED_FORMAT.search(error.message):
                raise
            if mode != "auto" and not request.best_effort:
                error.next_step = f"Set `structured_output` of the target to a value other than `{mode}`."
                raise
            if mode == "auto" and not broken and not _INVALID_SCHEMA.search(error.message):
                self._format = "off"
        await hooks.before_second_request()
        if not request.best_effort:
            return await self._ask(body)
        body["messages"] = wire_messages(request if mode in _SCHEMA_UNKNOWN else describing_schema(request))
        return replace(await self._ask(body), dropped_options=(SCHEMA,))


class OpenAIProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[TargetSettings]] = OpenAISettings
    PRESET = Preset("https://api.openai.com/v1", limit_name="max_completion_tokens")

    def __init__(self, settings: OpenAISettings, scope: TargetScope) -> None:
        super().__init__(settings, scope)
        self._responses = None
        if settings.api == "responses":
            # Imported only if needed: its library is slow to load.
            from agentv.targets.providers.openai_responses import ResponsesProvider  # noqa: PLC0415

            self._responses = ResponsesProvider(settings, scope)
            self.honours = self.honoured(settings)

    @classmethod
    def honoured(cls, settings: TargetSettings | None) -> frozenset[str]:
        if not isinstance(settings, OpenAISettings) or settings.api == "chat":
            return cls.honours
        from agentv.targets.providers.openai_responses import ResponsesProvider  # noqa: PLC0415 - as above

        return ResponsesProvider.honours

    async def prepare(self) -> None:
        if self._responses is not None:
            await self._responses.prepare()

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        return await (super().call if self._responses is None else self._responses.call)(request, hooks)

    async def aclose(self) -> None:
        await super().aclose()
        if self._responses is not None:
            await self._responses.aclose()


class GroqProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[TargetSettings]] = GroqSettings
    PRESET = Preset("https://api.groq.com/openai/v1")
    honours = frozenset(OPTIONS) - {"logprobs"}


class MistralProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[TargetSettings]] = MistralSettings
    PRESET = Preset("https://api.mistral.ai/v1", seed_name="random_seed")
    honours = frozenset(OPTIONS) - {"logprobs"}


class OpenRouterProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[TargetSettings]] = OpenRouterSettings
    PRESET = Preset("https://openrouter.ai/api/v1")


class OllamaProvider(OpenAICompatibleProvider):
    PRESET = Preset("http://127.0.0.1:11434/v1", needs_key=False)
    honours = frozenset(OPTIONS) - {"tool_choice", "logprobs"}


class AzureProvider(OpenAICompatibleProvider):
    """Azure OpenAI: the deployment is part of the path, and the key has its own header."""

    Settings: ClassVar[type[TargetSettings]] = AzureSettings
    PRESET = Preset(limit_name="max_completion_tokens")

    def _endpoint(self, base: str) -> str:
        settings = self._settings
        if not isinstance(settings, AzureSettings):
            raise TypeError("an azure target needs AzureSettings")
        parts = urlsplit(base if "://" in base else f"https://{base}.openai.azure.com")
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        if path.endswith("/openai/v1"):
            return urlunsplit(parts._replace(path=f"{path}/chat/completions"))
        if "/openai/deployments/" not in path:
            path = f"{path.removesuffix('/openai')}/openai/deployments/{quote(settings.model, safe='')}"
        query = parts.query if "api-version=" in parts.query else f"api-version={quote(settings.api_version)}"
        return urlunsplit(parts._replace(path=f"{path}/chat/completions", query=query, fragment=""))

    def _credentials(self, key: str) -> dict[str, str]:
        return {"api-key": key} if key else {}
