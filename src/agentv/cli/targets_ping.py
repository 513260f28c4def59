"""Call each target once with a short prompt and report its latency or its error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.errors import AgentVError, ProviderError, ProviderTimeoutError, TargetUnavailableError
from agentv.messages import GenerationOptions, TokenUsage
from agentv.redact import Redactor
from agentv.targets.config import TargetsConfig, TargetSpec
from agentv.targets.gate import TargetGate
from agentv.targets.pool import TargetPool
from agentv.targets.provider import CallHooks, Reply, Request
from agentv.targets.secrets import Secrets

PROMPT = "Reply with the word: pong"
DEFAULT_TIMEOUT = 30.0
LONGEST_ERROR = 500
LONGEST_REPLY = 64
"""Tokens: a small model may write until it is stopped."""
LIMIT_REFUSED = (400, 422)
NOT_ASKED = "replay"
"""This provider answers by case id, so a ping only checks that its file can be opened."""

_HINTS: Mapping[int, str] = {
    400: "Check `model` and the other settings of the target.",
    401: "Check `api_key` of the target.",
    403: "Check `api_key` of the target and the permissions of the key.",
    404: "Check `model` and `base_url` of the target.",
    429: "The API key works, but its rate limit or quota is used up. Wait, or check the account.",
}


@dataclass(frozen=True, slots=True)
class Ping:
    """The result of pinging one target."""

    ok: bool
    tried: bool = True
    """Whether the target was ready to be called."""
    latency_ms: float | None = None
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    retries: int = 0
    error: str | None = None
    next_step: str | None = None

    @property
    def state(self) -> str:
        """A short description for the table."""
        if not self.tried:
            return "not ready"
        if not self.ok:
            return "failed"
        parts = [f"ok, {_duration(self.latency_ms)}" if self.latency_ms is not None else "ok, file is readable"]
        if self.token_usage is not None:
            parts.append(f"{self.token_usage.total} tokens")
        if self.retries:
            parts.append("1 retry" if self.retries == 1 else f"{self.retries} retries")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "latency_ms": self.latency_ms,
            "token_usage": self.token_usage.to_dict() if self.token_usage else None,
            "cost_usd": self.cost_usd,
            "retries": self.retries,
            "error": self.error,
            "next_step": self.next_step,
        }


async def ping_all(
    specs: Sequence[TargetSpec], config: TargetsConfig, directory: Path, *, timeout: float = DEFAULT_TIMEOUT
) -> list[Ping]:
    """Ping all targets concurrently. Commands run in `directory` unless their target sets another one."""
    secrets = Secrets.of([config], [config.environment])
    async with TargetPool(secrets, timeout=timeout) as pool:
        pinger = _Pinger(pool, config, directory, timeout, Redactor(secrets.values))
        return await asyncio.gather(*(pinger.ping(spec) for spec in specs))


@dataclass(frozen=True, slots=True)
class _Pinger:
    pool: TargetPool
    config: TargetsConfig
    directory: Path
    timeout: float
    redactor: Redactor

    async def ping(self, spec: TargetSpec) -> Ping:
        retries: list[object] = []
        try:
            gate = self.pool.gate(spec, self.config.environment)
            if spec.provider == NOT_ASKED:
                return Ping(ok=True)
            await gate.prepare()
            started = time.perf_counter()
            async with asyncio.timeout(self.timeout):
                reply = await self._call(gate, CallHooks(on_retry=retries.append))
        except TargetUnavailableError as error:
            return Ping(ok=False, tried=False, error=self.redactor.head(error.reason, LONGEST_ERROR))
        except (TimeoutError, ProviderTimeoutError):
            return self._timed_out(spec, len(retries))
        except AgentVError as error:
            return _failed(spec, error, len(retries), self.redactor)
        return _answered(reply, (time.perf_counter() - started) * 1000, len(retries))

    async def _call(self, gate: TargetGate, hooks: CallHooks) -> Reply:
        """Call the target, with a limit on its reply if it supports one.

        Call it again without the limit if the model rejects it, or needs more tokens to think than it allows.
        """
        if "max_output_tokens" in gate.honours:
            limit = GenerationOptions(max_output_tokens=LONGEST_REPLY)
            try:
                return await gate.call(Request(PROMPT, options=limit, directory=self.directory), hooks)
            except ProviderError as error:
                if error.status not in LIMIT_REFUSED and error.token_usage is None:
                    raise
        return await gate.call(Request(PROMPT, directory=self.directory), hooks)

    def _timed_out(self, spec: TargetSpec, retries: int) -> Ping:
        attempts = f", in {retries + 1} attempts" if retries else ""
        total = getattr(spec.reading.settings, "total_timeout_seconds", None) or self.timeout
        option = "--timeout" if self.timeout <= total else "`total_timeout_seconds`"
        return Ping(
            ok=False,
            error=f"no reply within {min(self.timeout, total):g} s{attempts}",
            next_step=f"Check the settings of the target, or increase {option}.",
            retries=retries,
        )


def _answered(reply: Reply, latency_ms: float, retries: int) -> Ping:
    return Ping(
        ok=True,
        latency_ms=round(latency_ms, 1),
        token_usage=reply.token_usage,
        cost_usd=reply.cost_usd,
        retries=retries,
    )


def _failed(spec: TargetSpec, error: AgentVError, retries: int, redactor: Redactor) -> Ping:
    status = error.status if isinstance(error, ProviderError) else None
    # Providers advise fewer concurrent calls on 429. That does not help here: a ping is a single call.
    hint = _HINTS[429] if status == 429 else error.next_step or _HINTS.get(status or 0)
    if hint is None and status is not None and status >= 500:
        hint = "The server reported an internal error. Try again later."
    return Ping(
        ok=False,
        error=redactor.head(_without_name(error.message, spec.name), LONGEST_ERROR),
        next_step=redactor.head(hint, LONGEST_ERROR) if hint else None,
        retries=retries,
    )


def _without_name(message: str, name: str) -> str:
    """Remove the target's name from an error message: the printed line already starts with it."""
    for prefix in (f"target '{name}': ", f"target '{name}' "):
        if message.startswith(prefix):
            return message.removeprefix(prefix)
    return message


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
