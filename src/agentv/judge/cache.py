"""A judge that is asked the same thing once: its gate, with the replies of earlier calls in front of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from agentv.judge.cache_store import ReplyStore, free
from agentv.redact import NO_SECRETS, Redactor
from agentv.targets.config import TargetSpec, looks_secret
from agentv.targets.environment import Environment
from agentv.targets.gate import TargetGate
from agentv.targets.provider import CallHooks, OnStart, Provider, ProviderLayer, Reply, Request, TargetSettings
from agentv.targets.registry import provider_class


class JudgeCache:
    """The kept replies of a run, and the calls whose replies are on their way. An `async with`."""

    def __init__(self, store: ReplyStore) -> None:
        self.store = store
        self.flights: dict[bytes, Flight] = {}

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = [flight.task for flight in self.flights.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.store.__aexit__(kind, error, trace)


@dataclass(slots=True, eq=False)
class Flight:
    """One call that several may wait for. It goes on while somebody waits, whoever began it."""

    task: asyncio.Task[Reply]
    forget: Callable[[], None]
    """Nobody may join any more."""
    waiting: int = 0
    started: bool = False
    orphaned: bool = False
    """Who began it has left: the next to get the reply is the one it is paid for."""
    on_start: list[OnStart] = field(default_factory=list)

    def begin(self) -> None:
        self.started = True
        for tell in self.on_start:
            tell()

    async def join(self, on_start: OnStart) -> Reply:
        """Wait for the reply. To be cancelled here ends the call only when nobody else waits for it."""
        if self.started:
            on_start()
        else:
            self.on_start.append(on_start)
        self.waiting += 1
        try:
            await asyncio.wait((self.task,))
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.forget()
                self.task.cancel()
        return self.task.result()


class CachedJudge(ProviderLayer):
    """A gate whose replies are kept."""

    def __init__(self, gate: TargetGate, fingerprint: str, cache: JudgeCache) -> None:
        super().__init__(gate)
        self._fingerprint, self._cache = fingerprint, cache

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        """The kept reply, that of the same call when one is under way, or the judge's."""
        key = self._key(request)
        kept = self._cache.store.find(key)
        if kept is not None:
            return kept
        flight = self._cache.flights.get(key)
        if flight is None:
            return await self._lead(key, request, hooks)
        try:
            reply = await flight.join(hooks.on_start)
        except Exception:
            # Its failure need not be ours: a deadline or a busy moment.
            return await self._ask(key, request, hooks)
        if flight.orphaned:
            flight.orphaned = False
            return reply
        return free(reply)

    def forget(self, request: Request) -> None:
        """Ask again the next time: the reply was of no use."""
        self._cache.store.forget(self._key(request))

    async def _lead(self, key: bytes, request: Request, hooks: CallHooks) -> Reply:
        flights = self._cache.flights

        def begin() -> None:
            flight.begin()

        def forget() -> None:
            if flights.get(key) is flight:
                del flights[key]

        def landed(task: asyncio.Task[Reply]) -> None:
            forget()
            if not task.cancelled():
                task.exception()  # looked at, also when nobody waits any more

        flight = Flight(asyncio.create_task(self._ask(key, request, replace(hooks, on_start=begin))), forget)
        flights[key] = flight
        flight.task.add_done_callback(landed)
        try:
            return await flight.join(hooks.on_start)
        except asyncio.CancelledError:
            flight.orphaned = True
            raise

    async def _ask(self, key: bytes, request: Request, hooks: CallHooks) -> Reply:
        reply = await self.provider.call(request, hooks)
        self._cache.store.keep(key, reply)
        return reply

    def _key(self, request: Request) -> bytes:
        asked: list[Any] = [
            self._fingerprint,
            [message.to_dict() for message in request.messages],
            request.options.to_dict(),
            request.attempt,
            request.guidelines,
        ]
        if not self.answers_by_prompt:
            asked += [request.eval_id, request.directory, request.files]
        return _digest(asked).digest()


def cached(
    gate: TargetGate,
    spec: TargetSpec,
    environment: Environment,
    cache: JudgeCache | None,
    redactor: Redactor = NO_SECRETS,
) -> Provider:
    """The judge behind a gate, its replies kept when there is a cache."""
    if cache is None or not gate.cacheable:
        return gate
    return CachedJudge(gate, fingerprint_of(spec, environment, redactor), cache)


def fingerprint_of(spec: TargetSpec, environment: Environment, redactor: Redactor = NO_SECRETS) -> str:
    """Everything about a target that can change its answers, as a hash. Keys and the values of headers are left
    out, other secret values are masked; so are limits, deadlines and retries, which change no answer."""
    settings = spec.reading.settings
    own = settings.model_dump(mode="json") if settings is not None else {}
    limits = set(TargetSettings.model_fields)
    shown = {name: value for name, value in own.items() if name not in limits and name != "api_key"}
    if isinstance(shown.get("headers"), dict):
        shown["headers"] = sorted(name.lower() for name in shown["headers"])
    reads = settings.READS if isinstance(settings, TargetSettings) else ()
    read = {name: environment.get(name) for name in reads if not looks_secret(name)}
    # A provider like `cli` finds its command and files from the directory of the configuration.
    kind = provider_class(spec.provider)
    by_prompt = kind is not None and kind.answers_by_prompt
    place = None if by_prompt else str(spec.path.resolve().parent)
    return _digest(redactor.value([spec.name, spec.provider, shown, read, place])).hexdigest()


def _digest(value: Any) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode())
