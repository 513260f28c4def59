"""An httpx2 client for vendors' libraries that sends through our `Exchange`."""

from __future__ import annotations

import httpx2

from agentv.targets.providers.exchange import Exchange

# Headers that belong to the connection. Our client sets its own `Accept-Encoding`.
_NOT_SENT = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})
_NOT_KEPT = frozenset({"content-encoding", "content-length", "content-type", "transfer-encoding", "connection"})


class ExchangeTransport(httpx2.AsyncBaseTransport):
    """Sends through an `Exchange`. The library only sees successful replies: the exchange raises all errors."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_SENT}
        headers, data = await self._exchange.post_for_library(str(request.url), sent, await request.aread())
        kept = [(name, value) for name, value in headers.items() if name.lower() not in _NOT_KEPT]
        return httpx2.Response(200, headers=[*kept, ("content-type", "application/json")], content=data)


def client(exchange: Exchange) -> httpx2.AsyncClient:
    """A client without timeouts and proxies: the gate enforces deadlines, and the exchange uses the proxy."""
    return httpx2.AsyncClient(
        transport=ExchangeTransport(exchange), timeout=httpx2.Timeout(None), trust_env=False, follow_redirects=False
    )
