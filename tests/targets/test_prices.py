from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from pydantic import ValidationError

from agentv.messages import TokenUsage
from agentv.targets.prices import Pricer, Prices, price_of, provider_at
from agentv.targets.providers.exchange import Exchange
from agentv.testing.model_server import FakeModelServer, completion
from tests.targets.support import ask, make
from tests.targets.vendor_server import VendorServer, anthropic_reply

HERE = Path()
USAGE = TokenUsage(1000, 100, 500)


@pytest.mark.parametrize(
    ("provider", "model", "table"),
    [
        ("openai", "gpt-4o", "openai"),
        ("openai", "gpt-4o-mini-2024-07-18", "openai"),
        ("azure", "gpt-4o", "azure"),
        ("anthropic", "claude-sonnet-4-5", "anthropic"),
        ("gemini", "gemini-2.5-flash", "google"),
        ("gemini", "gemini-2.5-pro", "google"),  # dearer for long prompts
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws"),
        ("groq", "llama-3.3-70b-versatile", "groq"),
        ("mistral", "mistral-large-latest", "mistral"),
        ("perplexity", "sonar", "perplexity"),  # has a price per request as well
    ],
)
@pytest.mark.parametrize("usage", [USAGE, TokenUsage(300_000, 5000), TokenUsage(0, 0)])
def test_prices_are_those_of_the_table(provider, model, table, usage):
    counts = Usage(
        input_tokens=usage.input + (usage.cached or 0),
        cache_read_tokens=usage.cached or 0,
        output_tokens=usage.output,
    )
    expected = float(calc_price(counts, model, provider_id=table).total_price)
    assert price_of(provider, model, usage) == pytest.approx(expected, rel=1e-9)


def test_a_price_by_hand():
    # gpt-4o: 2.50 in, 10 out, 1.25 cached, per million
    assert price_of("openai", "gpt-4o", TokenUsage(1_000_000, 100_000, 2_000_000)) == pytest.approx(2.5 + 1.0 + 2.5)


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "an-unknown-model"), ("ollama", "llama3"), ("unknown", "gpt-4o"), ("openai", "")],
)
def test_what_the_table_does_not_know_has_no_price(provider, model):
    assert price_of(provider, model, USAGE) is None


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1/chat/completions", "openai"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://mine.openai.azure.com/openai/deployments/x", "azure"),
        ("https://api.deepseek.com", "deepseek"),
        ("http://127.0.0.1:11434/v1", None),
        ("https://llm.my-company.example/v1", None),
        ("", None),
    ],
)
def test_the_url_identifies_the_provider_in_the_price_table(url, provider):
    assert provider_at(url) == provider


# -- prices of a target


PRICES = {"input": 3.0, "output": 15.0, "cached": 0.3}
BY_HAND = (100 * 3.0 + 7 * 15.0 + 60 * 0.3) / 1_000_000


def answer(**usage: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": 160, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}, **usage}
    return {**completion("hi"), "usage": counts, "model": "gpt-4o"}


async def cost(reply: dict[str, Any], provider: str = "openai_compatible", **settings: Any) -> float | None:
    async with FakeModelServer(reply) as server:
        target = make(HERE, provider, model="m", **{"base_url": server.url, **settings})
        try:
            found: float | None = (await target.invoke(ask())).cost_usd
            return found
        finally:
            await target.aclose()


async def test_a_target_sets_its_own_prices():
    assert await cost(answer(), prices=PRICES) == pytest.approx(BY_HAND)


async def test_cached_tokens_cost_as_much_as_input_by_default():
    assert await cost(answer(), prices={"input": 1, "output": 2}) == pytest.approx((160 * 1 + 7 * 2) / 1_000_000)


async def test_prices_of_zero_are_known_prices():
    assert await cost(answer(), prices={"input": 0, "output": 0}) == 0.0


async def test_the_cost_reported_by_the_server_wins():
    assert await cost(answer(cost=0.25), prices=PRICES) == 0.25


@pytest.mark.parametrize("provider", ["openai_compatible", "ollama", "openai"])
async def test_a_call_to_an_unknown_address_has_no_price(provider):
    assert await cost(answer(), provider, api_key="k") is None


async def test_a_reply_without_usage_has_no_price():
    reply = answer()
    del reply["usage"]
    assert await cost(reply, prices=PRICES) is None


@pytest.mark.parametrize("prices", [{"input": 1}, {"input": -1, "output": 1}, {"input": 1, "output": 1, "inptu": 1}, 3])
def test_prices_are_checked(prices):
    with pytest.raises(ValidationError):
        make(HERE, "openai", model="m", api_key="k", prices=prices)


async def test_prices_of_a_target_hold_for_libraries_too():
    async with VendorServer(anthropic_reply("hi")) as server:
        target = make(HERE, "anthropic", model="claude-sonnet-4-6", api_key="k", base_url=server.url, prices=PRICES)
        reply = await target.invoke(ask())
        await target.aclose()
    assert reply.cost_usd == pytest.approx(BY_HAND)


@pytest.mark.parametrize(
    ("provider", "address", "model", "table"),
    [
        ("openai", "http://api.openai.com/v1", "gpt-4o", "openai"),
        ("azure", "http://mine.openai.azure.com", "my deployment", "azure"),  # the reply names the model
    ],
)
async def test_a_call_to_a_known_address_is_priced_by_the_table(provider, address, model, table):
    async with FakeModelServer(answer()) as proxy:
        environment = {"HTTP_PROXY": proxy.url.removesuffix("/v1")}
        target = make(HERE, provider, model=model, api_key="k", base_url=address, scope={"environment": environment})
        reply = await target.invoke(ask())
        await target.aclose()
    assert reply.cost_usd == price_of(table, "gpt-4o", TokenUsage(100, 7, 60))
    assert reply.cost_usd


async def test_tokens_written_to_a_cache_have_the_price_of_that(monkeypatch: pytest.MonkeyPatch):
    body = anthropic_reply("hi")
    body["usage"] = {"input_tokens": 100, "cache_creation_input_tokens": 1000, "output_tokens": 7}

    async def record(self: Exchange, url: str, headers: dict[str, str], sent: bytes) -> tuple[dict[str, str], bytes]:
        return {}, json.dumps(body).encode()

    monkeypatch.setattr(Exchange, "post_for_library", record)  # Anthropic's own address, and nothing is sent
    target = make(HERE, "anthropic", model="claude-sonnet-4-6", api_key="k", scope={"environment": {}})
    reply = await target.invoke(ask())
    await target.aclose()
    expected = calc_price(
        Usage(input_tokens=1100, cache_write_tokens=1000, output_tokens=7), "claude-sonnet-4-5", provider_id="anthropic"
    )
    assert reply.token_usage == TokenUsage(1100, 7)
    assert reply.cost_usd == pytest.approx(float(expected.total_price))


# -- reading the table


async def test_many_first_calls_wait_for_one_reading_of_the_table():
    pricer = Pricer(None, url="https://api.openai.com/v1")
    assert pricer.cost(USAGE, ("gpt-4o",)) is None
    await asyncio.gather(*(pricer.loaded() for _ in range(50)))
    assert pricer.ready
    assert pricer.cost(USAGE, (None, 5, "unknown", "gpt-4o")) == price_of("openai", "gpt-4o", USAGE)
    await pricer.aclose()


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_reading_to_others():
    pricer = Pricer(None, url="https://api.openai.com/v1")
    waiting = asyncio.create_task(pricer.loaded())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await pricer.loaded()
    assert pricer.cost(USAGE, ("gpt-4o",)) is not None


async def test_a_table_that_cannot_be_read_leaves_calls_without_a_price(monkeypatch: pytest.MonkeyPatch):
    def broken(url: str) -> str:
        raise OSError("no such table")

    monkeypatch.setattr("agentv.targets.prices.provider_at", broken)
    pricer = Pricer(None, url="https://api.openai.com/v1")
    await pricer.loaded()
    assert pricer.cost(USAGE, ("gpt-4o",)) is None


def test_loopback_and_configured_prices_do_not_load_the_table():
    assert Pricer(None, url="http://127.0.0.1:8000/v1").ready
    assert Pricer(Prices(input=1, output=1), url="https://api.openai.com/v1").ready
    assert not Pricer(None, url="https://api.openai.com/v1").ready
