"""The gate in front of a provider: it enforces concurrency, request rate, deadlines and retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace

from agentv.errors import AgentVError, ProviderError, ProviderTimeoutError
from agentv.messages import NO_OPTIONS, GenerationOptions
from agentv.targets.outage import Outage
from agentv.targets.provider import (
    NO_HOOKS,
    CallHooks,
    OnRetry,
    Provider,
    ProviderLayer,
    Reply,
    Request,
    Retry,
    TargetSettings,
)
from agentv.targets.turnstile import Turnstile

DEFAULT_CONCURRENCY = 16
LONGEST_RETRY_AFTER = 120.0
NEVER_RETRIED = (401, 403)
SLOW_DOWN = "Lower `max_concurrency` of the target, set its `requests_per_minute`, or raise its `max_retries`."
TRY_LATER = "The server failed, not your suite. Try again later, or raise `max_retries` of the target."


class TargetGate(ProviderLayer):
    """A provider behind the limits of its target."""

    def __init__(
        self,
        provider: Provider,
        settings: TargetSettings,
        *,
        name: str,
        on_retry: OnRetry | None = None,
        retry_command: str | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`retry_command` is the command that repeats calls that were not made because the target was down."""
        super().__init__(provider)
        self.name = name
        self._settings = settings
        self._on_retry, self._sleep, self._jitter, self._clock = on_retry, sleep, jitter, clock
        limit = settings.max_concurrency or DEFAULT_CONCURRENCY
        interval = 60.0 / settings.requests_per_minute if settings.requests_per_minute else 0.0
        self._turnstile = Turnstile(limit, interval=interval, sleep=sleep, clock=clock)
        self._deadline = None if provider.keeps_deadline else settings.timeout_seconds
        self._closed = False
        limit = settings.max_consecutive_errors
        self._down, self._down_as_judge = (Outage(name, limit, retry_command) for _ in range(2))

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        """Call the provider, with retries for errors that a retry can fix. A target that is down is not called."""
        self._refuse_unhonoured(request.options)
        if request.from_script:  # a script must not be able to declare a target down for other cases
            return await self._call(request, hooks, None)
        outage = self._down if request.evaluator is None else self._down_as_judge
        outage.refuse()
        try:
            reply = await self._call(request, hooks, outage)
        except ProviderError as error:
            outage.failed(error)
            raise
        outage.succeeded()
        return reply

    async def _call(self, request: Request, hooks: CallHooks, outage: Outage | None) -> Reply:
        turnstile, total = self._turnstile, self._settings.total_timeout_seconds
        ticket, tries, ends_at = turnstile.ticket(), 0, None
        entered = turnstile.enter_now()
        if entered is None:
            with _waiting(hooks):
                entered = await turnstile.enter(ticket, judging=request.evaluator is not None)
        while True:
            tries, well = tries + 1, False
            try:
                async with self._shared_slot(request, hooks):
                    if tries == 1:
                        if outage is not None:  # the target may have been declared down while this call waited
                            outage.refuse()
                        with nullcontext() if self.is_prepared else _waiting(hooks):
                            await self.prepare()
                        ends_at = None if total is None else self._clock() + total
                        hooks.on_start()
                    reply = await self._attempt(request, ends_at, hooks)
                well = True
            except ProviderError as error:
                retry = self._again(request, error, tries, entered, ends_at)
            finally:
                turnstile.leave(entered, well=well)
            if well:
                return reply if tries == 1 else replace(reply, retries=reply.retries + tries - 1)
            if self._on_retry is not None:
                self._on_retry(retry)
            hooks.on_retry(retry)
            with _waiting(hooks):
                await self._sleep(retry.delay)
                entered = await self._reenter(ticket, retry, ends_at)

    @asynccontextmanager
    async def _shared_slot(self, request: Request, hooks: CallHooks) -> AsyncIterator[None]:
        """A slot of those that the target shares with others."""
        if self.shared_slots is None:
            yield
            return
        entered = self.shared_slots.enter_now()
        if entered is None:
            with _waiting(hooks):
                ticket, judging = self.shared_slots.ticket(), request.evaluator is not None
                entered = await self.shared_slots.enter(ticket, judging=judging)
        try:
            yield
        finally:
            self.shared_slots.leave(entered, well=True)

    @property
    def batches(self) -> bool:
        """Whether all cases of a suite go to the target in one batch: it is configured and the provider supports it."""
        return self._settings.provider_batching and self.takes_batches

    async def invoke_batch(self, requests: Sequence[Request]) -> Mapping[str, Reply]:
        """Send all requests in one call and return replies by eval id. Batches are not retried."""
        for request in requests:
            self._refuse_unhonoured(request.options)
        entered, well = await self._turnstile.enter(self._turnstile.ticket()), False
        try:
            self._down.refuse()
            replies = await self.provider.invoke_batch(requests)
            well = True
        except ProviderError as error:
            self._down.failed(error)
            raise
        finally:
            self._turnstile.leave(entered, well=well)
        self._down.succeeded()
        return replies

    # -- what calls wait for

    @property
    def queue(self) -> tuple[int, int, int]:
        """The ticket of the first waiting call (0 for none), the number of waiting calls, and how many call a judge."""
        return self._turnstile.queue

    @property
    def latest_ticket(self) -> int:
        return self._turnstile.latest_ticket

    @property
    def paused_for(self) -> float:
        """Seconds until calls may start again after the target was rate limiting; negative if they may now."""
        return self._turnstile.paused_until - self._clock()

    @property
    def limit(self) -> str:
        """What holds up waiting calls: the concurrency or, if a slot is free, the rate."""
        turnstile, rate = self._turnstile, self._settings.requests_per_minute
        if rate and turnstile.inside < turnstile.window:
            return f"{rate:g} calls per minute"
        return f"{turnstile.window} at a time"

    async def aclose(self) -> None:
        """Close the provider. Calling this again does nothing."""
        if not self._closed:
            self._closed = True
            await self.provider.aclose()

    def _refuse_unhonoured(self, options: GenerationOptions) -> None:
        if options is NO_OPTIONS:
            return
        unhonoured = [f"`{name}`" for name in options.requested if name not in self.honours]
        if unhonoured:
            known = ", ".join(f"`{name}`" for name in sorted(self.honours)) or "none"
            raise ProviderError(
                f"target '{self.name}': its provider '{self._settings.provider}' does not support the option "
                f"{', '.join(unhonoured)}; nothing was sent",
                next_step=f"Leave the option out or use another target. Options this provider supports: {known}.",
            )

    # -- one attempt

    async def _attempt(self, request: Request, ends_at: float | None, hooks: CallHooks) -> Reply:
        seconds = self._deadline
        if ends_at is not None:
            left = max(0.0, ends_at - self._clock())
            seconds = left if seconds is None else min(left, seconds)
        try:
            async with asyncio.timeout(seconds) as deadline:
                reply = await self.provider.call(request, self._provider_hooks(hooks))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # a task of the provider was cancelled, not this call
                raise self._crashed("it cancelled its own call") from None
            raise
        except AgentVError:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                raise self._late(seconds) from None
            from agentv.processes.causes import raised  # noqa: PLC0415 - compiles patterns that most runs never need

            raise self._crashed(raised(error)) from error
        if not isinstance(reply, Reply):
            raise self._crashed(f"`invoke` must return a Reply, got {type(reply).__name__}")
        return reply

    def _provider_hooks(self, hooks: CallHooks) -> CallHooks:
        if not self._turnstile.keeps_time:
            return NO_HOOKS

        async def wait_for_rate() -> None:
            with _waiting(hooks):
                await self._turnstile.start_another()

        return CallHooks(before_second_request=wait_for_rate)

    def _late(self, seconds: float | None) -> ProviderTimeoutError:
        if seconds == self._deadline:
            return ProviderTimeoutError(
                f"target '{self.name}' did not answer within {self._deadline:g} s",
                next_step="Raise `timeout_seconds` of the target, or `--timeout`. Timeouts are not retried.",
            )
        return ProviderTimeoutError(
            f"target '{self.name}' did not answer within {self._settings.total_timeout_seconds:g} s, "
            "including all attempts",
            next_step="Raise `total_timeout_seconds` of the target.",
        )

    def _crashed(self, what: str) -> ProviderError:
        return ProviderError(
            f"target '{self.name}': its provider crashed: {what}",
            next_step="This is a bug in the provider, not in your suite. Please report it to the provider's author.",
        )

    # -- retries

    def _again(self, request: Request, error: ProviderError, tries: int, entered: int, ends_at: float | None) -> Retry:
        """The next retry; raises the error if there is none. If the target is rate limiting, all its calls pause."""
        delay, pause = self._pauses(tries, error)
        if _throttled(error):
            self._turnstile.pause(entered, pause)
        if tries > self._settings.max_retries or not self._worth_another(error):
            raise _counted(error, tries) from error.__cause__
        if ends_at is not None and max(self._clock() + delay, self._turnstile.paused_until) >= ends_at:
            raise self._out_of_time(error, tries) from error.__cause__
        return Retry(self.name, request, tries, delay, error)

    async def _reenter(self, ticket: int, retry: Retry, ends_at: float | None) -> int:
        judging = retry.request.evaluator is not None
        if ends_at is None:
            return await self._turnstile.enter(ticket, judging=judging)
        try:
            if self._turnstile.paused_until < ends_at:
                async with asyncio.timeout(max(0.0, ends_at - self._clock())):
                    return await self._turnstile.enter(ticket, judging=judging)
        except TimeoutError:
            pass
        raise self._out_of_time(retry.error, retry.tries) from retry.error.__cause__

    def _out_of_time(self, error: ProviderError, tries: int) -> ProviderError:
        attempts = "1 attempt" if tries == 1 else f"{tries} attempts"
        limit = f"`total_timeout_seconds` ({self._settings.total_timeout_seconds:g} s)"
        error.message += f" (after {attempts}; another could not start within {limit})"
        return _advised(error)

    def _worth_another(self, error: ProviderError) -> bool:
        codes = self._settings.retry_status_codes
        if error.status is None or codes is None:
            return error.retryable and error.status not in NEVER_RETRIED
        return error.status in codes and error.status not in NEVER_RETRIED

    def _pauses(self, tries: int, error: ProviderError) -> tuple[float, float]:
        """Seconds until this call is retried, and seconds for which all calls pause if the target is rate limiting."""
        first, longest = (
            self._settings.retry_initial_delay_ms / 1000,
            self._settings.retry_max_delay_ms / 1000,
        )
        if error.retry_after is not None:
            requested = min(error.retry_after, LONGEST_RETRY_AFTER)
            # Slightly later than requested, so that waiting calls do not all come back at the same moment.
            return requested + self._jitter() * min(first, longest), requested
        ceiling = first
        for _ in range(tries - 1):
            ceiling = min(longest, ceiling * self._settings.retry_backoff_factor)
        delay = self._jitter() * min(longest, ceiling)
        return delay, delay


@contextmanager
def _waiting(hooks: CallHooks) -> Iterator[None]:
    hooks.on_wait(True)
    try:
        yield
    finally:
        hooks.on_wait(False)


def _throttled(error: ProviderError) -> bool:
    """Whether the target is rate limiting. A used-up quota is not retryable, so it does not count."""
    return error.retryable and (error.status == 429 or (error.status == 503 and error.retry_after is not None))


def _counted(error: ProviderError, tries: int) -> ProviderError:
    if tries > 1:
        error.message += f" (after {tries} attempts)"
    return _advised(error)


def _advised(error: ProviderError) -> ProviderError:
    if error.retryable and error.next_step is None:
        error.next_step = SLOW_DOWN if _throttled(error) else TRY_LATER
    return error
