"""Chat completions over HTTP: `openai`, `azure`, and everybody who speaks the same protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, field_validator

from agentv.errors import ProviderError, TargetUnavailableError
from agentv.redact import Redactor
from agentv.targets.provider import Reply, Request, TargetScope, TargetSettings, retryable_status
from agentv.targets.providers.chat import parse_completion, wire_messages
from agentv.targets.providers.http import (
    error_code,
    holds_half_characters,
    is_http,
    proxy_for,
    retry_after_of,
    server_message,
    without_secrets,
)

if TYPE_CHECKING:
    import aiohttp

REPLY_CAP = 32 * 1024 * 1024
CONNECT_SECONDS = 30.0
SHOWN = 200


class ChatSettings(TargetSettings):
    """Settings of a target that speaks chat completions."""

    ALIASES: ClassVar[Mapping[str, str]] = {
        **TargetSettings.ALIASES,
        "maxTokens": "max_output_tokens",
        "maxOutputTokens": "max_output_tokens",
    }

    model: str = Field(min_length=1, description="The model, as the provider names it.")
    base_url: str | None = Field(None, description="Where the API is, up to and without `/chat/completions`.")
    api_key: str | None = Field(None, repr=False, description="The key, best given as `${{ NAME }}`.")
    temperature: float | None = Field(None, ge=0, description="Sent when set.")
    max_output_tokens: int | None = Field(None, ge=1, description="Longest answer, in tokens.")
    headers: dict[str, str] = Field(default_factory=dict, repr=False, description="Extra HTTP headers.")
    timeout_seconds: float | None = Field(600.0, gt=0, description="Deadline of one call. Default 600.")

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


class OpenAISettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY", "OPENAI_BASE_URL")


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

    model: str = Field(min_length=1, description="The deployment.")
    base_url: str | None = Field(None, description="The endpoint, or the name of the Azure resource.")
    api_version: str = Field("2024-12-01-preview", min_length=1, description="Version of the Azure API.")


class GroqSettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("GROQ_API_KEY",)


class MistralSettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("MISTRAL_API_KEY",)


class OpenRouterSettings(ChatSettings):
    READS: ClassVar[tuple[str, ...]] = ("OPENROUTER_API_KEY",)


@dataclass(frozen=True, slots=True)
class Preset:
    """What is known of a provider before its settings."""

    base_url: str | None = None
    needs_key: bool = True
    limit_name: str = "max_tokens"


class OpenAICompatibleProvider:
    """One HTTP session, opened at the first call."""

    Settings: ClassVar[type[ChatSettings]] = ChatSettings
    PRESET: ClassVar[Preset] = Preset(needs_key=False)

    def __init__(self, settings: ChatSettings, scope: TargetScope) -> None:
        self._settings, self._scope = settings, scope
        base = settings.base_url or self._read("_BASE_URL", "_ENDPOINT") or self.PRESET.base_url
        if base is None:
            raise TargetUnavailableError(scope.name, "it has no address; set `base_url`")
        key = (settings.api_key or self._read("_API_KEY") or "").strip()
        if not key and self.PRESET.needs_key and self.PRESET.base_url in (None, base):
            raise TargetUnavailableError(scope.name, f"it has no key; set `api_key` or {settings.READS[0]}")
        self._url = self._endpoint(base)
        if not is_http(self._url):
            raise TargetUnavailableError(scope.name, f"`base_url` is not an address like https://host/v1: {base}")
        self._shown_url = without_secrets(self._url)
        self._headers = {"Content-Type": "application/json", **self._credentials(key), **settings.headers}
        self._own_secrets = Redactor([key, *settings.headers.values()])
        self._options = self._fixed_body()
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None

    # -- what differs from provider to provider

    def _endpoint(self, base: str) -> str:
        parts = urlsplit(base)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/chat/completions", fragment=""))

    def _credentials(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _fixed_body(self) -> dict[str, Any]:
        optional = {
            "temperature": self._settings.temperature,
            self.PRESET.limit_name: self._settings.max_output_tokens,
        }
        return {"model": self._settings.model, **{k: v for k, v in optional.items() if v is not None}}

    def _read(self, *endings: str) -> str | None:
        found = (self._scope.environment.get(name) for name in self._settings.READS if name.endswith(endings))
        return next((value for value in found if value), None)

    # -- a call

    async def invoke(self, request: Request) -> Reply:
        body = json.dumps({**self._options, "messages": wire_messages(request)}).encode()
        status, headers, data = await self._post(body)
        text = data.decode("utf-8", "replace")
        if status != 200:
            raise self._refused(status, headers, text)
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            raise self._unreadable(headers, text) from None
        if isinstance(parsed, dict) and parsed.get("error") and not parsed.get("choices"):
            raise self._refused(error_code(parsed["error"]), headers, text)
        if ("\\ud" in text or "\\uD" in text) and holds_half_characters(parsed):
            raise self._error("the reply holds half a character (a lone surrogate)")
        try:
            return parse_completion(parsed)
        except ProviderError as error:
            raise self._error(error.message, next_step=error.next_step) from None

    async def aclose(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        import aiohttp  # noqa: PLC0415 - a third of a second to import; only calls need it

        session = self._session or self._open()
        try:
            async with session.post(
                self._url, data=body, headers=self._headers, allow_redirects=False, proxy=self._proxy
            ) as response:
                return response.status, response.headers, await self._read_body(response)
        except aiohttp.ClientSSLError as error:
            raise self._error(f"the TLS connection failed: {error.os_error}") from error
        except aiohttp.ClientConnectorError as error:
            reason = error.os_error.strerror or str(error.os_error)
            raise self._unreachable(f"could not connect to {self._shown_url}: {reason}") from error
        except TimeoutError as error:
            raise self._unreachable(f"could not connect to {self._shown_url}: no answer in time") from error
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError) as error:
            raise self._error(
                f"{self._shown_url} broke off the connection before its reply was complete", retryable=True
            ) from error
        except (aiohttp.ClientError, ValueError) as error:
            raise self._error(f"{self._shown_url} did not answer in HTTP ({type(error).__name__})") from error

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415 - as above

        self._proxy = proxy_for(self._url, self._scope.environment)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # the gate limits
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._session

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := await response.content.readany():
            chunks.append(chunk)
            size += len(chunk)
            if size > REPLY_CAP:
                raise self._error(f"the reply is larger than {REPLY_CAP // 2**20} MiB")
        return b"".join(chunks)

    # -- what can go wrong

    def _error(self, what: str, **details: Any) -> ProviderError:
        return ProviderError(f"target '{self._scope.name}': {what}", **details)

    def _unreachable(self, what: str) -> ProviderError:
        return self._error(what, retryable=True, next_step="Is the server running, and `base_url` right?")

    def _refused(self, status: int, headers: Mapping[str, str], text: str) -> ProviderError:
        if 300 <= status < 400:
            where = without_secrets(headers.get("Location", "")) or "another address"
            return self._error(
                f"{self._shown_url} answered HTTP {status}, a redirect to {where}, which is not followed",
                status=status,
                next_step="Set `base_url` to the final address.",
            )
        return self._error(
            f"{self._shown_url} answered HTTP {status}: {self._clean(server_message(text), 2000)}",
            status=status,
            retryable=retryable_status(status),
            retry_after=retry_after_of(headers),
            next_step="Check `api_key` of the target." if status in (401, 403) else None,
        )

    def _unreadable(self, headers: Mapping[str, str], text: str) -> ProviderError:
        kind = headers.get("Content-Type", "no content type")
        return self._error(
            f"{self._shown_url} answered what is not JSON ({kind}): {self._clean(text.strip(), SHOWN)!r}",
            next_step="Is `base_url` the address of an API, and not of a web page?",
        )

    def _clean(self, text: str, length: int) -> str:
        return self._scope.redactor.head(self._own_secrets.text(text), length)


class OpenAIProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[ChatSettings]] = OpenAISettings
    PRESET = Preset("https://api.openai.com/v1", limit_name="max_completion_tokens")


class GroqProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[ChatSettings]] = GroqSettings
    PRESET = Preset("https://api.groq.com/openai/v1")


class MistralProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[ChatSettings]] = MistralSettings
    PRESET = Preset("https://api.mistral.ai/v1")


class OpenRouterProvider(OpenAICompatibleProvider):
    Settings: ClassVar[type[ChatSettings]] = OpenRouterSettings
    PRESET = Preset("https://openrouter.ai/api/v1")


class OllamaProvider(OpenAICompatibleProvider):
    PRESET = Preset("http://127.0.0.1:11434/v1", needs_key=False)


class AzureProvider(OpenAICompatibleProvider):
    """Azure names the deployment in the path and takes the key in a header of its own."""

    Settings: ClassVar[type[ChatSettings]] = AzureSettings
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
