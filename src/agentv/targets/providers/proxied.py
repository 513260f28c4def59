"""Calls that go through a proxy of the environment: aiohttp knows how."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from yarl import URL

from agentv.targets.provider import retryable_status
from agentv.targets.providers.connections import CONNECT_SECONDS, USER_AGENT, os_reason
from agentv.targets.providers.http import is_http
from agentv.targets.providers.http1 import (
    BadReplyError,
    BrokenOffError,
    HttpError,
    ProxyError,
    ReplyTooLargeError,
    Response,
    TlsError,
)


class ProxiedConnections:
    """Like `Connections`, with somebody in between."""

    def __init__(self, proxy: str, *, limit: int = 0, cap: int) -> None:
        self._proxy, self._cap = proxy, cap
        self._usable = is_http(proxy)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT},
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, encoded: bool = False) -> Response:
        if not self._usable:  # aiohttp would speak HTTP to whatever answers there
            raise ProxyError("it is not an address like http://host:port", retryable=False)
        address = URL(url, encoded=True) if encoded else url
        try:
            async with self._session.post(
                address, data=body, headers=headers, allow_redirects=False, proxy=self._proxy
            ) as response:
                return response.status, response.headers, await self._read_body(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _as_ours(error) from error

    async def aclose(self) -> None:
        await self._session.close()

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := await response.content.readany():
            chunks.append(chunk)
            size += len(chunk)
            if size > self._cap:
                raise ReplyTooLargeError
        return b"".join(chunks)


def _as_ours(error: Exception) -> HttpError:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return ProxyError(f"it answered HTTP {error.status}", retryable=retryable_status(error.status))
    if isinstance(error, aiohttp.ClientSSLError):
        return TlsError(str(error.os_error))
    if isinstance(error, aiohttp.ClientConnectorError):  # only the proxy is connected to
        return ProxyError(os_reason(error.os_error))
    if isinstance(error, TimeoutError):
        return ProxyError("no answer in time")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientConnectionError):
        return BrokenOffError("the connection was broken off")
    return BadReplyError(type(error).__name__)
