"""The gate in front of a provider: how many calls at once, how fast, how long, how often again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agentv.errors import AgentVError, ProviderError, ProviderTimeoutError
from agentv.targets.provider import Provider, Reply, Request, TargetSettings

DEFAULT_CONCURRENCY = 16
LONGEST_RETRY_AFTER = 120.0
NEVER_RETRIED = (401, 403)


@dataclass(frozen=True, slots=True)
class Retry:
    """A try that failed and is made again after a pause."""

    target: str
    request: Request
    tries: int
    """Tries made so far."""
    delay: float
    error: ProviderError


OnRetry = Callable[[Retry], None]


class TargetGate:
    """One provider with the limits of its target. Is a `Provider` itself."""

    def __init__(
        self,
        provider: Provider,
        settings: TargetSettings,
        *,
        name: str,
        on_retry: OnRetry | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.provider = provider
        self._settings = settings
        self._on_retry, self._sleep, self._jitter, self._clock = on_retry, sleep, jitter, clock
        self._slots = asyncio.Semaphore(settings.max_concurrency or DEFAULT_CONCURRENCY)
        self._interval = 60.0 / settings.requests_per_minute if settings.requests_per_minute else 0.0
        self._next_start = float("-inf")
        self._deadline = None if getattr(provider, "keeps_deadline", False) else settings.timeout_seconds
        self._closed = False

    async def invoke(
        self, request: Request, *, on_retry: OnRetry | None = None, on_start: Callable[[], None] | None = None
    ) -> Reply:
        """Call the provider, again when that can help. `on_retry` hears of every try that is repeated, `on_start` when
        the first one begins: until then the call waits for its turn."""
        tries = 0
        while True:
            tries += 1
            try:
                async with self._slots:
                    await self._keep_pace()
                    if on_start is not None and tries == 1:
                        on_start()
                    reply = await self._call(request)
            except ProviderError as error:
                if tries > self._settings.max_retries or not self._worth_another(error):
                    raise _counted(error, tries) from error.__cause__
                retry = Retry(self.name, request, tries, self._pause(tries, error), error)
            else:
                return reply if tries == 1 else replace(reply, retries=reply.retries + tries - 1)
            for listener in (self._on_retry, on_retry):
                if listener is not None:
                    listener(retry)
            await self._sleep(retry.delay)

    async def aclose(self) -> None:
        """Close the provider, if it can be closed. A second time does nothing."""
        close = getattr(self.provider, "aclose", None)
        if close is not None and not self._closed:
            self._closed = True
            await close()

    async def _keep_pace(self) -> None:
        if self._interval:
            now = self._clock()
            start = max(now, self._next_start)
            self._next_start = start + self._interval
            if start > now:
                await self._sleep(start - now)

    async def _call(self, request: Request) -> Reply:
        try:
            async with asyncio.timeout(self._deadline) as deadline:
                reply = await self.provider.invoke(request)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # something inside the provider was cancelled, not us
                raise self._crashed("it was cancelled from within") from None
            raise
        except AgentVError:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                raise self._late() from None
            raise self._crashed(f"{type(error).__name__}: {error}") from error
        if not isinstance(reply, Reply):
            raise self._crashed(f"it returned {type(reply).__name__} instead of a Reply")
        return reply

    def _late(self) -> ProviderTimeoutError:
        return ProviderTimeoutError(
            f"target '{self.name}' did not answer within {self._deadline:g} s",
            next_step="Raise `timeout_seconds` of the target, or `--timeout`. Timeouts are not retried.",
        )

    def _crashed(self, what: str) -> ProviderError:
        return ProviderError(
            f"target '{self.name}': its provider crashed: {what}",
            next_step="This is a defect of the provider, not of your suite; report it to who wrote it.",
        )

    def _worth_another(self, error: ProviderError) -> bool:
        codes = self._settings.retry_status_codes
        if error.status is None or codes is None:
            return error.retryable and error.status not in NEVER_RETRIED
        return error.status in codes and error.status not in NEVER_RETRIED

    def _pause(self, tries: int, error: ProviderError) -> float:
        first, longest = (
            self._settings.retry_initial_delay_ms / 1000,
            self._settings.retry_max_delay_ms / 1000,
        )
        if error.retry_after is not None:
            # A little later than asked, so that many waiting calls do not all come back at once.
            return min(error.retry_after, LONGEST_RETRY_AFTER) + self._jitter() * min(first, longest)
        ceiling = first
        for _ in range(tries - 1):
            ceiling = min(longest, ceiling * self._settings.retry_backoff_factor)
        return self._jitter() * min(longest, ceiling)


def _counted(error: ProviderError, tries: int) -> ProviderError:
    if tries > 1:
        error.message += f" (after {tries} tries)"
    return error
