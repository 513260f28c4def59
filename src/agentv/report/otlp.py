"""Sends spans to an OpenTelemetry collector: OTLP over HTTP, encoded as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from agentv.errors import AgentVError
from agentv.http.client import Client, HttpError, HttpReply
from agentv.http.otlp import OtlpEndpoint
from agentv.jsonio import dump_line
from agentv.redact import NO_SECRETS, Redactor
from agentv.report.spans import RunSpans, Span
from agentv.text import without_controls

RETRIED = frozenset({429, 502, 503, 504})
ATTEMPTS = 5
FIRST_DELAY, LONGEST_DELAY = 0.25, 8.0
LARGEST_REPLY = 1024 * 1024
LARGEST_BATCH = 512
"""Spans in one request."""
LARGEST_BODY = 1024 * 1024
"""Characters in one request; a longer trace is sent alone."""
_QUOTED = 300


class OtlpError(AgentVError):
    """Spans could not be sent."""

    exit_code = 3


class OtlpSender:
    """Sends spans in batches. Use it with `async with`."""

    def __init__(self, endpoint: OtlpEndpoint, redactor: Redactor = NO_SECRETS, *, attempts: int = ATTEMPTS) -> None:
        self._endpoint = endpoint
        self._redactor = redactor.adding(endpoint.secrets)
        self._attempts = attempts
        self._headers = {**endpoint.headers, "content-type": "application/json"}
        self._client = Client(cap=LARGEST_REPLY, proxy=endpoint.proxy)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def send(self, body: str) -> None:
        """Send one request. Retries while the collector is overloaded or unavailable. Raises OtlpError."""
        delay = FIRST_DELAY
        for attempt in range(1, self._attempts + 1):
            problem, retry_after = await self._try(body.encode("utf-8"))
            if problem is None:
                return
            if retry_after is None or attempt == self._attempts:
                break
            await asyncio.sleep(min(max(delay, retry_after), LONGEST_DELAY))
            delay *= 2
        raise OtlpError(
            f"could not send spans to {self._endpoint.shown}: {problem}",
            next_step="Check the endpoint and its headers (OTEL_EXPORTER_OTLP_HEADERS), then send the run again.",
        )

    async def _try(self, body: bytes) -> tuple[str | None, float | None]:
        """What went wrong, and after how many seconds to retry; None for never."""
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                reply = await self._client.post(self._endpoint.url, self._headers, body)
        except TimeoutError:
            return f"no reply within {self._endpoint.timeout:g} s", 0.0
        except HttpError as error:
            return self._clean(str(error)), 0.0
        except ValueError as error:
            return self._clean(str(error)), None
        if 200 <= reply.status < 300:
            return None, None
        text = self._clean(reply.body[: LARGEST_REPLY >> 2].decode("utf-8", "replace"))
        problem = f"HTTP {reply.status}" + (f": {text}" if text else "")
        return problem, _retry_after(reply) if reply.status in RETRIED else None

    def _clean(self, text: str) -> str:
        return without_controls(self._redactor.text(text)).strip()[:_QUOTED]


def batches(run: RunSpans, traces: Iterable[list[Span]]) -> Iterator[tuple[str, int]]:
    """The traces as OTLP messages in JSON, each with its number of traces. A trace is never split."""
    head, tail = dump_line(run.request([])).rsplit("[]", 1)
    waiting: list[str] = []
    count = size = 0
    for trace in traces:
        spans = [dump_line(span) for span in trace]
        length = sum(map(len, spans))
        if waiting and (len(waiting) + len(spans) > LARGEST_BATCH or size + length > LARGEST_BODY):
            yield f"{head}[{','.join(waiting)}]{tail}", count
            waiting, count, size = [], 0, 0
        waiting += spans
        count, size = count + 1, size + length
    if waiting:
        yield f"{head}[{','.join(waiting)}]{tail}", count


async def send_all(endpoint: OtlpEndpoint, messages: Iterable[tuple[str, int]]) -> int:
    """Send all messages and return the number of traces. Raises OtlpError for the first that fails."""
    sent = 0
    async with OtlpSender(endpoint) as sender:
        for body, count in messages:
            await sender.send(body)
            sent += count
    return sent


def _retry_after(reply: HttpReply) -> float:
    try:
        return max(0.0, min(float(reply.headers.get("retry-after", "")), LONGEST_DELAY))
    except ValueError:
        return 0.0
