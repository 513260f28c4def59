"""Cached judge calls: a judge target that reuses the replies to identical earlier calls."""

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
from agentv.targets.provider import CallHooks, Provider, ProviderLayer, Reply, Request, TargetSettings
from agentv.targets.registry import provider_class


class JudgeCache:
    """The cached replies of a run, and the calls that are in flight. Use it with `async with`."""

    def __init__(self, store: ReplyStore) -> None:
        self.store = store
        self.flights: dict[bytes, Flight] = {}

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        in_flight = [flight.task for flight in self.flights.values()]
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)
        await self.store.__aexit__(kind, error, trace)


@dataclass(slots=True, eq=False)
class Flight:
    """One call that several callers may wait for. It is cancelled when its last caller stops waiting."""

    task: asyncio.Task[Reply]
    forget: Callable[[], None]
    """Removes the flight, so that no other caller joins it."""
    waiting: int = 0
    started: bool = False
    orphaned: bool = False
    """The caller that started it was cancelled: the next caller that gets the reply is charged for it."""
    held_up: bool = False
    """The call waits for the limits of its target, and so do all its callers."""
    callers: list[CallHooks] = field(default_factory=list)

    def begin(self) -> None:
        self.started = True
        for caller in self.callers:
            caller.on_start()

    def hold_up(self, waiting: bool) -> None:
        self.held_up = waiting
        for caller in self.callers:
            caller.on_wait(waiting)

    async def join(self, hooks: CallHooks) -> Reply:
        """Wait for the reply. Cancelling this ends the call only if no other caller waits for it."""
        if self.started:
            hooks.on_start()
        if self.held_up:
            hooks.on_wait(True)
        self.callers.append(hooks)
        self.waiting += 1
        try:
            await asyncio.wait((self.task,))
        finally:
            self.callers.remove(hooks)
            if self.held_up:
                hooks.on_wait(False)
            self.waiting -= 1
            if not self.waiting:
                self.forget()
                self.task.cancel()
        return self.task.result()


class CachedJudge(ProviderLayer):
    """A gate whose replies are cached."""

    def __init__(self, gate: TargetGate, fingerprint: str, cache: JudgeCache) -> None:
        super().__init__(gate)
        self._fingerprint, self._cache = fingerprint, cache

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        """The cached reply, else the reply of an identical call in flight, else a new reply of the judge."""
        if request.embeddings:
            return await self.provider.call(request, hooks)
        key = self._key(request)
        cached_reply = self._cache.store.find(key)
        if cached_reply is not None:
            return cached_reply
        flight = self._cache.flights.get(key)
        if flight is None:
            return await self._lead(key, request, hooks)
        try:
            reply = await flight.join(hooks)
        except Exception:
            # The failure may not concern this caller, e.g. a deadline or a temporary overload.
            return await self._ask(key, request, hooks)
        if flight.orphaned:
            flight.orphaned = False
            return reply
        return free(reply)

    def forget(self, request: Request) -> None:
        """Drop the cached reply, because it could not be used."""
        self._cache.store.forget(self._key(request))

    async def _lead(self, key: bytes, request: Request, hooks: CallHooks) -> Reply:
        flights = self._cache.flights

        def begin() -> None:
            flight.begin()

        def hold_up(waiting: bool) -> None:
            flight.hold_up(waiting)

        def forget() -> None:
            if flights.get(key) is flight:
                del flights[key]

        def landed(task: asyncio.Task[Reply]) -> None:
            forget()
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not warn if no caller waits any more

        shared = replace(hooks, on_start=begin, on_wait=hold_up)
        flight = Flight(asyncio.create_task(self._ask(key, request, shared)), forget)
        flights[key] = flight
        flight.task.add_done_callback(landed)
        try:
            return await flight.join(hooks)
        except asyncio.CancelledError:
            flight.orphaned = True
            raise

    async def _ask(self, key: bytes, request: Request, hooks: CallHooks) -> Reply:
        reply = await self.provider.call(request, hooks)
        self._cache.store.keep(key, reply)
        return reply

    def _key(self, request: Request) -> bytes:
        parts: list[Any] = [
            self._fingerprint,
            [message.to_dict() for message in request.messages],
            request.options.to_dict(),
            request.attempt,
            request.guidelines,
        ]
        if request.choice:
            parts.append({"choice": request.choice})
        if not self.answers_by_prompt:
            parts += [request.eval_id, request.directory, request.files, dict(request.vars)]
        return _digest(parts).digest()


def cached(
    gate: TargetGate,
    spec: TargetSpec,
    environment: Environment,
    cache: JudgeCache | None,
    redactor: Redactor = NO_SECRETS,
) -> Provider:
    """The judge behind a gate, with cached replies if there is a cache and the target allows it."""
    if cache is None or not gate.cacheable:
        return gate
    return CachedJudge(gate, fingerprint_of(spec, environment, redactor), cache)


def fingerprint_of(spec: TargetSpec, environment: Environment, redactor: Redactor = NO_SECRETS) -> str:
    """A hash of everything about a target that can change its answers.

    API keys, header values, limits, deadlines and retries are left out. Other secret values are masked.
    """
    settings = spec.reading.settings
    own = settings.model_dump(mode="json") if settings is not None else {}
    limits = set(TargetSettings.model_fields)
    relevant = {name: value for name, value in own.items() if name not in limits and name != "api_key"}
    if isinstance(relevant.get("headers"), dict):
        relevant["headers"] = sorted(name.lower() for name in relevant["headers"])
    reads = settings.READS if isinstance(settings, TargetSettings) else ()
    variables = {name: environment.get(name) for name in reads if not looks_secret(name)}
    # A provider like `cli` resolves its command and files relative to the configuration.
    kind = provider_class(spec.provider)
    by_prompt = kind is not None and kind.answers_by_prompt
    directory = None if by_prompt else str(spec.path.resolve().parent)
    parts: list[Any] = [spec.name, spec.provider, relevant, variables, directory]
    if isinstance(settings, TargetSettings) and (files := settings.identity_of_files(spec.directory)):
        parts.append(files)
    return _digest(redactor.value(parts)).hexdigest()


def _digest(value: Any) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode())
