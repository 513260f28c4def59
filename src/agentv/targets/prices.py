"""The cost of calls, from the `prices` of the target or the bundled table of genai-prices. Uses no network.

An unknown model or address has no price: the cost is None, not 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from agentv.amounts import bounded
from agentv.http.urls import is_loopback
from agentv.messages import TokenUsage

if TYPE_CHECKING:
    from genai_prices.types import AbstractUsage, PriceCalculation

MILLION = 1_000_000
OTHER_NAMES = {"gemini": "google", "bedrock": "aws"}
"""Our provider names -> their names in the price table."""


class Prices(BaseModel):
    """Prices of a target, in US dollars per million tokens."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0, description="Price of prompt tokens.")
    output: float = Field(ge=0, description="Price of answer tokens.")
    cached: float | None = Field(None, ge=0, description="Price of cached prompt tokens. Default: that of `input`.")


class Rates(NamedTuple):
    """US dollars per million tokens."""

    input: float
    output: float
    cached: float

    def cost(self, usage: TokenUsage) -> float:
        cached = (usage.cached or 0) * self.cached
        return (usage.input * self.input + usage.output * self.output + cached) / MILLION


def price_of(provider: str, model: str, usage: TokenUsage) -> float | None:
    """The cost of a call in US dollars, or None if the provider or the model is not in the table."""
    rates = _rates(provider, model)
    if isinstance(rates, Rates):
        return rates.cost(usage)
    return None if rates is None else _amount(_calculation(provider, model, _counts(usage)))


def price_of_counts(provider: str, model: str, counts: AbstractUsage) -> float | None:
    """Like `price_of`, for counts with more detail than `TokenUsage`: cache writes have their own price."""
    return None if _rates(provider, model) is None else _amount(_calculation(provider, model, counts))


@lru_cache(maxsize=256)
def provider_at(url: str) -> str | None:
    """The provider in the price table that serves models at this address."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - takes a quarter of a second to import

    scheme, separator, rest = url.partition("://")
    try:
        return get_snapshot().find_provider(None, None, f"https://{rest}" if separator else scheme).id
    except LookupError:
        return None


@lru_cache(maxsize=512)
def _rates(provider: str, model: str) -> Rates | str | None:
    """`Rates` if the price is linear, "table" if every call has to be looked up, None if the model is unknown."""
    calculations = [
        _calculation(provider, model, _counts(usage))
        for usage in (TokenUsage(MILLION, 0), TokenUsage(0, MILLION), TokenUsage(0, 0, MILLION))
    ]
    first = calculations[0]
    if first is None:
        return None
    priced = {name: price for name, price in vars(first.model_price).items() if price is not None and name[0] != "_"}
    if priced.keys().isdisjoint(("input_mtok", "output_mtok")):
        return None
    amounts = [_amount(each) for each in calculations]
    # Prices that depend on the hour or the prompt length, or are per request, cannot be reduced to three rates.
    by_time = isinstance(first.model.prices, list)
    by_size = any(hasattr(price, "tiers") for price in priced.values())
    if by_time or by_size or any("request" in name for name in priced) or None in amounts:
        return "table"
    return Rates(*(amount for amount in amounts if amount is not None))


def _counts(usage: TokenUsage) -> AbstractUsage:
    from genai_prices import Usage  # noqa: PLC0415 - as above

    cached = usage.cached or 0
    return Usage(input_tokens=usage.input + cached, cache_read_tokens=cached, output_tokens=usage.output)


def _calculation(provider: str, model: str, counts: AbstractUsage) -> PriceCalculation | None:
    from genai_prices import calc_price  # noqa: PLC0415 - as above

    try:
        return calc_price(counts, model, provider_id=OTHER_NAMES.get(provider, provider))
    except (LookupError, ValueError):
        return None


def _amount(calculation: PriceCalculation | None) -> float | None:
    return None if calculation is None else float(calculation.total_price)


class Pricer:
    """Prices the calls of one target: with its `prices`, else with the table entry of the provider at its address."""

    def __init__(self, prices: Prices | None, *, url: str = "", provider: str | None = None) -> None:
        self._own = None
        if prices is not None:
            self._own = Rates(prices.input, prices.output, prices.input if prices.cached is None else prices.cached)
        self._url, self._provider = url, provider
        at_home = provider is None and is_loopback(url)
        self.ready = self._own is not None or at_home
        self._loading: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Load the table in a thread while the first call is in flight: importing it would block the event loop."""
        if not self.ready and self._loading is None:
            self._loading = asyncio.get_running_loop().run_in_executor(None, self._load)

    async def loaded(self) -> None:
        """Wait until calls can be priced."""
        self.start()
        if self._loading is not None:
            await asyncio.shield(self._loading)

    def _load(self) -> None:
        with suppress(Exception):  # an answered call must not fail because it cannot be priced
            self._provider = self._provider or provider_at(self._url)
            if self._provider is not None:
                _rates(self._provider, "")
        self.ready = True

    def cost(self, usage: TokenUsage, models: Sequence[Any], counts: Any = None) -> float | None:
        """The cost in US dollars, or None if unknown. Uses the first of the `models` that is in the table."""
        if bounded(usage, None, None).token_usage is None:
            return None
        if self._own is not None:
            return self._own.cost(usage)
        if self._provider is not None:
            for model in models:
                if isinstance(model, str) and model and _rates(self._provider, model) is not None:
                    if counts is None:
                        return price_of(self._provider, model, usage)
                    return price_of_counts(self._provider, model, counts)
        return None

    async def gap(self, model: str, *, is_alias: bool = False) -> str | None:
        """Why calls of this model have no price, with the remedy; None if they have one.

        `is_alias` means that only a reply names the model.
        """
        await self.loaded()
        if self._own is not None:
            return None
        if self._provider is None:
            return "the price table has no entry for its URL; set `prices` of the target"
        if is_alias or _rates(self._provider, model) is not None:
            return None
        return f"the price table has no model '{model}'; set `prices` of the target"

    async def aclose(self) -> None:
        """Wait for the thread if it is still loading."""
        if self._loading is not None:
            await asyncio.wait([self._loading])
