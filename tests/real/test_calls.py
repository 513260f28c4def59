"""Calls to a real model: what a grammar, a seed, a limit and an abandoned call do."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jsonschema
import pytest

from agentv.errors import ProviderError, ProviderTimeoutError
from agentv.messages import GenerationOptions, Message, Tool
from agentv.targets.config import load_config
from agentv.targets.environment import Environment
from agentv.targets.pool import TargetPool
from agentv.targets.secrets import Secrets
from tests.conftest import Project
from tests.real.conftest import Servers
from tests.targets.support import ask

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object"},
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "old": {"type": "boolean"}},
        "required": ["name", "old"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 3}},
        "required": ["items"],
        "additionalProperties": False,
    },
    {
        "$defs": {"check": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}},
        "type": "object",
        "properties": {"first": {"$ref": "#/$defs/check"}, "score": {"type": "integer", "minimum": 0, "maximum": 10}},
        "required": ["first", "score"],
        "additionalProperties": False,
    },
]


@asynccontextmanager
async def gates(real: Project) -> AsyncIterator[Any]:
    """A function that returns the gate of a target."""
    environment = Environment(dict(os.environ))
    config = load_config(real.root / "agentv.config.yaml", environment)
    async with TargetPool(Secrets()) as pool:
        yield lambda name: pool.gate(config.targets[name], environment)


async def test_grammar_makes_every_complete_reply_match_its_schema(real: Project, servers: Servers) -> None:
    async with gates(real) as gate:
        for schema in SCHEMAS:
            for seed in (1, 2):
                options = GenerationOptions(response_schema=schema, seed=seed)
                reply = await gate("judge").invoke(ask("Describe a cat as JSON.", options=options))
                if reply.finish_reason == "length":
                    assert reply.token_usage.output == 64
                else:
                    jsonschema.validate(json.loads(reply.text), schema)
        small = GenerationOptions(response_schema=SCHEMAS[1])
        complete = await gate("judge").invoke(ask("Describe a cat as JSON.", options=small))
        assert complete.finish_reason == "stop"  # short enough to be never cut off


async def test_options_and_reports_are_truthful(real: Project, servers: Servers) -> None:
    async with gates(real) as gate:
        options = GenerationOptions(logprobs=2)
        first = await gate("small").invoke(ask("Tell a story.", options=options))
        assert (first.finish_reason, first.token_usage.output, len(first.logprobs)) == ("length", 16, 16)
        assert "".join(token.token for token in first.logprobs) == first.text
        assert all(token.logprob <= 0 and len(token.alternatives) == 2 for token in first.logprobs)
        again = await gate("small").invoke(ask("Tell a story."))
        assert again.text == first.text
        assert again.logprobs is None
        usage = again.token_usage
        assert usage.input + (usage.cached or 0) == first.token_usage.input + (first.token_usage.cached or 0)
        stopped = await gate("small").invoke(ask("Tell a story.", options=GenerationOptions(stop=(first.text[3:6],))))
        assert first.text[3:6] not in stopped.text
        assert stopped.finish_reason == "stop"


async def test_what_the_model_cannot_do_is_an_error_that_says_so(real: Project, servers: Servers) -> None:
    async with gates(real) as gate:
        with pytest.raises(ProviderError) as caught:
            await gate("small").invoke(ask("word " * 1600))
        assert "tokens, but the context of the model has 1,536" in caught.value.message
        assert str(caught.value.next_step).startswith("Raise `context`")
        with pytest.raises(ProviderError, match="has no tools, so the model would not see them"):
            await gate("small").invoke(ask("q", options=GenerationOptions(tools=(Tool("look"),))))
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
        with pytest.raises(ProviderError, match="reads text only") as caught:
            await gate("small").invoke(ask(messages=[Message("user", [{"type": "text", "text": "q"}, picture])]))
        assert not caught.value.retryable


async def test_abandoned_call_frees_its_slot(real: Project, servers: Servers) -> None:
    async with gates(real) as gate:
        await gate("small").invoke(ask("q"))
        started = time.monotonic()
        with pytest.raises(ProviderTimeoutError, match="did not answer within"):
            await gate("slow").invoke(ask("Tell a story."))
        assert (await gate("small").invoke(ask("q"))).text
        # 1,400 tokens would take at least 7 s. The server notices a closed connection within a second.
        assert time.monotonic() - started < 6
    assert len(servers.seen) == 1
