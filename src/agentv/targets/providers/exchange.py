"""HTTP with the server of one target: one pool, and every failure a `ProviderError` that says what to do."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentv.errors import ProviderError
from agentv.redact import Redactor
from agentv.targets.provider import TargetScope, retryable_status
from agentv.targets.providers.connections import Connections
from agentv.targets.providers.http import (
    GOOD,
    error_code,
    holds_half_characters,
    merged_headers,
    proxy_for,
    retry_after_of,
    server_message,
    without_secrets,
)
from agentv.targets.providers.http1 import (
    BrokenOffError,
    ConnectError,
    HttpError,
    ProxyError,
    ReplyTooLargeError,
    Response,
    TlsError,
)

if TYPE_CHECKING:
    from agentv.targets.providers.proxied import ProxiedConnections

REPLY_CAP = 32 * 1024 * 1024
SHOWN = 200

_UNKNOWN_MODEL = re.compile(
    r"\bmodel\b.{0,200}(not exist|not found|invalid|not a valid|unknown|not supported for generate)"
    r"|(invalid|unknown) model|(model|Deployment)_?NotFound|model:|deployment.{0,100}not exist",
    re.IGNORECASE | re.DOTALL,
)
_BAD_KEY = re.compile(r"api[ _-]?key", re.IGNORECASE)
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|credit balance is too low|billing_not_active")
_GOOGLE_DELAY = re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')


class Exchange:
    """Posts to one server, on connections that are opened when they are needed."""

    def __init__(
        self,
        scope: TargetScope,
        url: str,
        *,
        secrets: Iterable[str],
        key_from: str,
        model: str,
        limit: int = 0,
        headers: Mapping[str, str] | None = None,
        assumed: Mapping[str, Any] | None = None,
    ) -> None:
        self._scope, self._url, self._limit = scope, url, limit
        self._headers = headers or {}
        """Those of the target, which win over a library's."""
        self._assumed = assumed or {}
        """What a library cannot do without, and servers that imitate its vendor's leave out of their replies."""
        self._key_from, self._model = key_from, model
        self._own_secrets = Redactor(secrets)
        self._connections: Connections | ProxiedConnections | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, encoded: bool = False) -> Response:
        """Status, headers and body of the answer. Redirects are not followed.

        An `encoded` address goes out as it is: one that was signed may not be spelled in another way.
        """
        connections = self._connections or self._open()
        try:
            return await connections.post(url, headers, body, encoded=encoded)
        except (HttpError, ValueError) as error:
            raise self._without_reply(without_secrets(url), error) from error

    def _open(self) -> Connections | ProxiedConnections:
        proxy = proxy_for(self._url, self._scope.environment)
        if proxy is None:
            self._connections = Connections(limit=self._limit, cap=REPLY_CAP)
        else:
            from agentv.targets.providers.proxied import ProxiedConnections  # noqa: PLC0415 - aiohttp is slow to import

            self._connections = ProxiedConnections(proxy, limit=self._limit, cap=REPLY_CAP)
        return self._connections

    async def post_for_library(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of a good answer. All else is raised here, before a library makes its own of it."""
        status, received, data = await self.post(url, merged_headers(headers, self._headers), body, encoded=True)
        text = data.decode("utf-8", "replace")
        if status not in GOOD:
            raise self.refused(url, status, received, text)
        parsed = self.read_json(url, received, text)
        if isinstance(parsed, dict) and parsed.get("error"):
            raise self.refused(url, error_code(parsed["error"]), received, text)
        if isinstance(parsed, dict) and any(parsed.get(name) is None for name in self._assumed):
            said = {name: value for name, value in parsed.items() if value is not None}
            data = json.dumps({**self._assumed, **said}).encode()
        return received, data.removeprefix(codecs.BOM_UTF8)

    async def aclose(self) -> None:
        if self._connections is not None:
            connections, self._connections = self._connections, None
            await connections.aclose()

    def read_json(self, url: str, headers: Mapping[str, str], text: str) -> Any:
        """The JSON value of a reply."""
        try:
            parsed = json.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            raise self._unreadable(url, headers, text) from None
        if ("\\ud" in text or "\\uD" in text) and holds_half_characters(parsed):
            raise self.error("the reply holds half a character (a lone surrogate)")
        return parsed

    # -- what can go wrong

    def error(self, what: str, **details: Any) -> ProviderError:
        return ProviderError(f"target '{self._scope.name}': {what}", **details)

    def of_target(self, error: ProviderError) -> ProviderError:
        """An error in the reply itself, told of this target."""
        return self.error(
            error.message, token_usage=error.token_usage, cost_usd=error.cost_usd, next_step=error.next_step
        )

    def clean(self, text: str, length: int) -> str:
        """The beginning of what a server said, without secrets."""
        return self._scope.redactor.head(self._own_secrets.text(text), length)

    def refused(self, url: str, status: int, headers: Mapping[str, str], text: str) -> ProviderError:
        """The error that an HTTP status stands for."""
        shown = without_secrets(url)
        if 300 <= status < 400:
            where = without_secrets(headers.get("Location", "")) or "another address"
            return self.error(
                f"{shown} answered HTTP {status}, a redirect to {where}, which is not followed",
                status=status,
                next_step="Set `base_url` to the final address.",
            )
        said = server_message(text)
        return self.error(
            f"{shown} answered HTTP {status}: {self.clean(said, 2000)}",
            status=status,
            retryable=retryable_status(status) and not _OUT_OF_CREDIT.search(text),
            retry_after=_retry_after(status, headers, text),
            next_step=self._next_step(status, said, text),
        )

    def _next_step(self, status: int, said: str, text: str) -> str | None:
        if status in (401, 403) or (status == 400 and _BAD_KEY.search(said)):
            return f"Check {self._key_from} of the target."
        if status in (400, 404) and (_UNKNOWN_MODEL.search(said) or "model_not_found" in text):
            return f"Check `model` of the target: the server does not know '{self._model}'."
        if status == 429 and _OUT_OF_CREDIT.search(text):
            return "The account has no credit left, so trying again cannot help: look at its billing."
        if status == 404:
            return "Check `base_url` and `model` of the target: there is nothing at this address."
        return None

    def _without_reply(self, shown: str, error: HttpError | ValueError) -> ProviderError:
        if isinstance(error, ConnectError):
            hint = "Is the server running, and `base_url` right?"
            return self.error(f"could not connect to {shown}: {error}", retryable=True, next_step=hint)
        if isinstance(error, ProxyError):
            proxy = without_secrets(proxy_for(self._url, self._scope.environment) or "")
            variable = "HTTPS_PROXY" if self._url.startswith("https") else "HTTP_PROXY"
            return self.error(
                f"could not connect to {shown} through the proxy {proxy}: {error}",
                retryable=error.retryable,
                next_step=f"Check {variable} in the environment, or name the host in NO_PROXY.",
            )
        if isinstance(error, TlsError):
            return self.error(f"the TLS connection to {shown} failed: {error}", next_step=_tls_hint(str(error)))
        if isinstance(error, BrokenOffError):
            return self.error(f"{shown} broke off the connection before its reply was complete", retryable=True)
        if isinstance(error, ReplyTooLargeError):
            return self.error(f"the reply is larger than {REPLY_CAP // 2**20} MiB")
        if isinstance(error, HttpError):
            return self.error(f"{shown} did not answer in HTTP: {self.clean(str(error), SHOWN)}")
        return self.error(f"the call to {shown} cannot be sent: {error}", next_step="Check `base_url` and `headers`.")

    def _unreadable(self, url: str, headers: Mapping[str, str], text: str) -> ProviderError:
        kind = headers.get("Content-Type", "no content type")
        hint = "Is `base_url` the address of an API, and not of a web page?"
        if "event-stream" in kind:
            hint = "The server streams its replies unasked: turn that off there."
        return self.error(
            f"{without_secrets(url)} answered what is not JSON ({kind}): {self.clean(text.strip(), SHOWN)!r}",
            next_step=hint,
        )


def _tls_hint(error: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in error:
        return "Let SSL_CERT_FILE name the certificates to trust, or check the host of `base_url`."
    return "Does the server speak TLS? If not, `base_url` begins with http://."


def _retry_after(status: int, headers: Mapping[str, str], text: str) -> float | None:
    asked = retry_after_of(headers)
    if asked is None and status in (429, 503) and (delay := _GOOGLE_DELAY.search(text)):
        return float(delay.group(1))
    return asked
