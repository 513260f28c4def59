"""HTTP requests to the server of one target. Every failure becomes a `ProviderError` with a next step."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from agentv.errors import ProviderError
from agentv.http.client import (
    BrokenOffError,
    Client,
    ConnectError,
    HttpError,
    HttpReply,
    ProxyError,
    ReplyTooLargeError,
    TlsError,
)
from agentv.http.urls import is_http, proxy_for, without_secrets
from agentv.json_sizes import TooManyValuesError
from agentv.targets.provider import TargetScope, retryable_status
from agentv.targets.providers import large_json
from agentv.text import without_controls
from agentv.workers import IN_LINE_BYTES, WorkerError

GOOD = (200, 201, 203)
"""HTTP statuses of successful replies: some gateways send others than 200."""
REPLY_CAP = 8 * 1024 * 1024
"""Size limit of a decompressed reply."""
SHOWN = 200
SHOWN_MESSAGE = 2000
LONGEST_ERROR = 4000
DIAGNOSED = 4096
"""The part of an error that is searched for a known cause."""

_CODES = {"rate_limit_exceeded": 429, "rate_limit_error": 429, "server_error": 500, "overloaded_error": 529}
"""Error codes of vendors -> the HTTP status they correspond to."""
_UNKNOWN_MODEL = re.compile(
    r"\bmodel\b.{0,200}(not exist|not found|invalid|not a valid|unknown|not supported for generate)"
    r"|(invalid|unknown) model|(model|Deployment)_?NotFound|model:|deployment.{0,100}not exist",
    re.IGNORECASE | re.DOTALL,
)
_BAD_KEY = re.compile(r"api[ _-]?key", re.IGNORECASE)
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|credit balance is too low|billing_not_active")
_GOOGLE_DELAY = re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')


class Exchange:
    """Sends POST requests to one server over a pool of connections, which is opened on first use."""

    def __init__(
        self,
        scope: TargetScope,
        url: str,
        *,
        secrets: Iterable[str],
        key_from: str,
        model: str | None,
        url_from: str = "`base_url`",
        limit: int = 0,
        headers: Mapping[str, str] | None = None,
        assumed: Mapping[str, Any] | None = None,
    ) -> None:
        self._scope, self._url, self._limit = scope, url, limit
        self._headers = headers or {}
        """Headers of the target. They override those of a library."""
        self._assumed = assumed or {}
        """Fields that a library requires in every reply and that servers imitating its vendor may leave out."""
        self._key_from, self._model, self._url_from = key_from, model, url_from
        self._redactor = scope.redactor.adding(secrets)
        self._client: Client | None = None

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, encoded: bool = False, method: str = "POST"
    ) -> HttpReply:
        """Status, headers and body of the reply. Redirects are not followed.

        An `encoded` URL is sent unchanged, because the signature of a signed URL covers its spelling.
        """
        client = self._client or self._open()
        try:
            return await client.post(url, headers, body, encoded=encoded, method=method)
        except (HttpError, ValueError) as error:
            raise self._without_reply(without_secrets(url), error) from error

    def _open(self) -> Client:
        proxy = proxy_for(self._url, self._scope.environment)
        if proxy is not None and not is_http(proxy):
            raise self._no_proxy(without_secrets(self._url), "its URL must look like http://host:port", False)
        self._client = Client(cap=REPLY_CAP, limit=self._limit, proxy=proxy)
        return self._client

    async def post_for_library(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of a successful reply. Errors are raised here, so that libraries never see them."""
        status, received, data = await self.post(url, merged_headers(headers, self._headers), body, encoded=True)
        if status not in GOOD:
            raise self.refused(url, status, received, data)
        parsed = await self.read_json(url, received, data)
        if isinstance(parsed, dict) and parsed.get("error"):
            raise self.refused(url, error_code(parsed["error"]), received, data)
        if isinstance(parsed, dict) and any(parsed.get(name) is None for name in self._assumed):
            present = {name: value for name, value in parsed.items() if value is not None}
            data = json.dumps({**self._assumed, **present}).encode()
        return received, data.removeprefix(codecs.BOM_UTF8)

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def read_json(self, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        """The JSON value of a reply. Large replies are parsed in a worker, so that the timeout of the call holds."""
        try:
            return await large_json.parse(body)
        except large_json.LoneSurrogateError:
            raise self.error("the reply contains a lone surrogate (half a character)") from None
        except TooManyValuesError as error:
            raise self.error(f"the reply was not read: {error}") from None
        except WorkerError as error:
            raise self.error(f"the reply of {len(body):,} bytes could not be parsed: {error.message}") from None
        except ValueError:
            raise self._unreadable(url, headers, beginning(body)) from None

    # -- errors

    def error(self, what: str, **details: Any) -> ProviderError:
        """An error of this target. What it quotes of the server is masked here, before it is truncated."""
        return ProviderError(f"target '{self._scope.name}': {self.clean(what, LONGEST_ERROR)}", **details)

    def of_target(self, error: ProviderError) -> ProviderError:
        """The error of a parsed reply, with the name of this target."""
        return self.error(
            error.message, token_usage=error.token_usage, cost_usd=error.cost_usd, next_step=error.next_step
        )

    def clean(self, text: str, length: int) -> str:
        """The beginning of a server's message, with secrets masked and without control characters."""
        return without_controls(self._redactor.head(text, length))

    def refused(self, url: str, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error for an HTTP status other than success."""
        text = beginning(body)
        shown = without_secrets(url)
        if 300 <= status < 400:
            location = self.clean(headers.get("Location", ""), SHOWN)
            where = without_secrets(location) or "another address"
            return self.error(
                f"{shown} returned HTTP {status}, a redirect to {where}, which is not followed",
                status=status,
                next_step=f"Set {self._url_from} to the final address.",
            )
        message, text = _server_message(text), text[:DIAGNOSED]
        return self.error(
            f"{shown} returned HTTP {status}: {self.clean(message, SHOWN_MESSAGE)}",
            status=status,
            retryable=retryable_status(status) and not _OUT_OF_CREDIT.search(text),
            retry_after=_retry_after(status, headers, text),
            next_step=self._next_step(status, message, text),
        )

    def _next_step(self, status: int, message: str, text: str) -> str | None:
        message = message[:DIAGNOSED]
        if status in (401, 403) or (status == 400 and _BAD_KEY.search(message)):
            return f"Check {self._key_from} of the target."
        if self._model and status in (400, 404) and (_UNKNOWN_MODEL.search(message) or "model_not_found" in text):
            return f"Check `model` of the target: the server does not know '{self._model}'."
        if status == 429 and _OUT_OF_CREDIT.search(text):
            return "The account has no credit left. Check its billing; retrying does not help."
        if status == 404:
            settings = self._url_from + (" and `model`" if self._model else "")
            return f"Check {settings} of the target: nothing was found at this URL."
        return None

    def _without_reply(self, shown: str, error: HttpError | ValueError) -> ProviderError:
        if isinstance(error, ConnectError):
            hint = f"Check that the server is running and that {self._url_from} is correct."
            return self.error(f"could not connect to {shown}: {error}", retryable=True, next_step=hint)
        if isinstance(error, ProxyError):
            return self._no_proxy(
                shown, self.clean(str(error), SHOWN), error.status is None or retryable_status(error.status)
            )
        if isinstance(error, TlsError):
            return self.error(
                f"the TLS connection to {shown} failed: {error}", next_step=_tls_hint(str(error), self._url_from)
            )
        if isinstance(error, BrokenOffError):
            return self.error(f"{shown} closed the connection before the reply was complete", retryable=True)
        if isinstance(error, ReplyTooLargeError):
            return self.error(
                f"the reply of {shown} is larger than {REPLY_CAP // 2**20} MiB and was not read",
                next_step=("Set `max_output_tokens` of the target, or request" if self._model else "Request")
                + " less.",
            )
        if isinstance(error, HttpError):
            return self.error(f"{shown} sent an invalid HTTP reply: {self.clean(str(error), SHOWN)}")
        return self.error(
            f"cannot send the request to {shown}: {self.clean(str(error), SHOWN)}",
            next_step=f"Check {self._url_from} and `headers`.",
        )

    def _no_proxy(self, shown: str, why: str, retryable: bool) -> ProviderError:
        proxy = without_secrets(proxy_for(self._url, self._scope.environment) or "")
        variable = "HTTPS_PROXY" if self._url.startswith("https") else "HTTP_PROXY"
        return self.error(
            f"could not connect to {shown} through the proxy {proxy}: {why}",
            retryable=retryable,
            next_step=f"Check {variable} in the environment, or add the host to NO_PROXY.",
        )

    def _unreadable(self, url: str, headers: Mapping[str, str], text: str) -> ProviderError:
        kind = self.clean(headers.get("Content-Type", "no content type"), SHOWN)
        hint = f"Check that {self._url_from} is the URL of an API, not of a web page."
        if "event-stream" in kind:
            hint = (
                "The server streams its replies although agentv did not request that. Disable streaming on the server."
            )
        return self.error(
            f"{without_secrets(url)} sent a reply that is not JSON ({kind}): {self.clean(text.strip(), SHOWN)!r}",
            next_step=hint,
        )


def _tls_hint(error: str, url_from: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in error:
        return f"Set SSL_CERT_FILE to the certificates to trust, or check the host in {url_from}."
    return f"If the server does not use TLS, {url_from} must start with http://."


def _retry_after(status: int, headers: Mapping[str, str], text: str) -> float | None:
    seconds = _retry_after_of(headers)
    if seconds is None and status in (429, 503) and (delay := _GOOGLE_DELAY.search(text)):
        return float(delay.group(1))
    return seconds


def merged_headers(own: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Both sets of headers. `others` override `own`, case-insensitively, so no header is sent twice."""
    merged = {name.lower(): (name, value) for name, value in own.items()}
    for name, value in others.items():
        merged[name.lower()] = (merged.get(name.lower(), (name,))[0], value)
    return dict(merged.values())


def error_code(error: Any) -> int:
    """The HTTP status in the body of an error that a gateway sent with HTTP 200."""
    if not isinstance(error, dict):
        return 200
    code = str(error.get("code"))
    if re.fullmatch("[45][0-9][0-9]", code):
        return int(code)
    return _CODES.get(code) or _CODES.get(str(error.get("type")), 200)


def beginning(body: bytes) -> str:
    """The beginning of a body, for messages: everything that a message can show, and more to mask it correctly."""
    return body[:IN_LINE_BYTES].decode("utf-8", "replace")


def _server_message(text: str) -> str:
    """The error message in the body of a reply, in any of the formats that servers use."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip() or "no reason given"
    for value in (data.get("error"), data) if isinstance(data, dict) else ():
        if isinstance(value, str) and value:
            return value
        for key in ("message", "detail"):
            if isinstance(value, dict) and isinstance(value.get(key), str) and value[key]:
                return str(value[key])
    return text.strip() or "no reason given"


def _retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as requested by the server, which sends milliseconds, seconds or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("Retry-After", 1.0)):
        text = headers.get(name, "").strip()
        if not text:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few servers send a date

            try:
                seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
            except (TypeError, ValueError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None
