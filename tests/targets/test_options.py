"""Generation options and conversations: what each provider sends, and what it rejects without sending anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.judge.replay import ReplayedJudge
from agentv.messages import OPTIONS, GenerationOptions, Message, TokenLogprob, Tool, ToolCall
from agentv.targets.config import load_config
from agentv.targets.environment import Environment
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Provider, Reply, Request, TargetSettings
from agentv.targets.providers.function import FunctionProvider
from agentv.targets.registry import BUILT_IN, provider_class
from agentv.testing.model_server import FakeModelServer
from tests.targets.support import ask, make
from tests.targets.test_library import ANTHROPIC, BEDROCK, GEMINI, KEY, RESPONSES, Vendor
from tests.targets.vendor_server import VendorServer

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number"}},
    "required": ["score"],
    "additionalProperties": False,
}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK, WAIT = Tool("look", "Look it up.", PARAMETERS), Tool("wait")
VALUES: dict[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.5,
    "max_output_tokens": 99,
    "seed": 7,
    "stop": ("END", "STOP"),
    "response_schema": SCHEMA,
    "tools": (LOOK, WAIT),
    "logprobs": 3,
}
CHAT = ("openai", "azure", "openai_compatible", "groq", "mistral", "openrouter", "ollama")
UNSUPPORTED = {
    "openai": set(),
    "azure": set(),
    "openai_compatible": set(),
    "openrouter": set(),
    "groq": {"logprobs"},
    "mistral": {"logprobs"},
    "ollama": {"tool_choice", "logprobs"},
    "anthropic": {"seed", "logprobs"},
    "bedrock": {"seed", "logprobs"},
    "gemini": set[str](),
    "local": set[str](),
    "mock": set(OPTIONS) - {"temperature", "top_p", "seed"},
    "cli": set(OPTIONS),
    "embeddings": set(OPTIONS),
    "http": set(OPTIONS),
    "python": set(OPTIONS),
    "replay": set(OPTIONS),
}


def options_with(name: str) -> GenerationOptions:
    """Options with only this one set, plus those it requires."""
    if name == "tool_choice":
        return GenerationOptions(tools=(LOOK, WAIT), tool_choice="required")
    return GenerationOptions(**{name: VALUES[name]})


def chat(server: FakeModelServer, provider: str = "openai", **settings: Any) -> Any:
    return make(Path(), provider, model="m", base_url=server.url, api_key=KEY, **settings)


async def chat_body(provider: str, options: GenerationOptions, **settings: Any) -> dict[str, Any]:
    """The sent body without the model and the conversation."""
    async with FakeModelServer() as server:
        target = chat(server, provider, **settings)
        gate = TargetGate(target, TargetSettings(provider=provider, max_retries=0), name="t")
        await gate.invoke(ask("q", options=options))
        await gate.aclose()
        body: dict[str, Any] = server.requests[0].body
    assert body.pop("messages") == [{"role": "user", "content": "q"}]
    body.pop("model", None)
    return body


async def vendor_body(vendor: Vendor, request: Request, **settings: Any) -> dict[str, Any]:
    async with VendorServer(vendor.reply("ok")) as server, vendor.against(server, **settings) as provider:
        await TargetGate(provider, TargetSettings(provider=vendor.provider), name="t").invoke(request)
        body: dict[str, Any] = server.calls[0].body
    return body


# -- supported options


def test_every_built_in_provider_is_listed_here():
    assert set(UNSUPPORTED) == set(BUILT_IN)


@pytest.mark.parametrize("provider", BUILT_IN)
def test_providers_declare_the_options_they_honour(provider: str):
    kind: Any = provider_class(provider)
    assert set(OPTIONS) - kind.honours == UNSUPPORTED[provider]
    assert kind.honours <= set(OPTIONS)


@pytest.mark.parametrize(
    ("provider", "option"), [(name, option) for name, missing in UNSUPPORTED.items() for option in sorted(missing)]
)
async def test_unsupported_option_fails_before_anything_is_sent(provider: str, option: str, tmp_path: Path):
    kind: Any = provider_class(provider)

    class Untouched(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        async def invoke(self, request: Request) -> Reply:
            raise AssertionError("the request was sent")

        async def call(self, *_: Any) -> Reply:
            raise AssertionError("the request was sent")

    retries: list[object] = []
    gate = TargetGate(Untouched(), TargetSettings(provider=provider), name="strict", on_retry=retries.append)
    with pytest.raises(ProviderError) as caught:
        await gate.invoke(ask("q", options=options_with(option)))
    assert all(word in caught.value.message for word in ("'strict'", f"'{provider}'", f"`{option}`"))
    assert "Options this provider supports" in str(caught.value.next_step)
    assert (retries, caught.value.retryable) == ([], False)


async def test_unsupported_option_fails_a_batch_before_anything_is_sent(tmp_path: Path):
    command = make(tmp_path, "cli", command=["touch", str(tmp_path / "ran")])
    gate = TargetGate(command, TargetSettings(provider="cli"), name="t")
    with pytest.raises(ProviderError, match="`seed`"):
        await gate.invoke_batch([ask("a", eval_id="a"), ask("b", eval_id="b", options=options_with("seed"))])
    assert not (tmp_path / "ran").exists()


async def test_responses_api_supports_neither_seed_nor_stop():
    async with VendorServer(RESPONSES.reply("ok")) as server, RESPONSES.against(server) as provider:
        gate = TargetGate(provider, TargetSettings(provider="openai"), name="t")
        for option in ("seed", "stop"):
            with pytest.raises(ProviderError, match=f"'openai' does not support the option `{option}`"):
                await gate.invoke(ask("q", options=options_with(option)))
        assert server.calls == []


async def test_function_and_undeclared_providers_support_no_option():
    class Undeclared(Provider):
        async def invoke(self, request: Request) -> Reply:
            raise AssertionError("the request was sent")

    for provider in (FunctionProvider(str), Undeclared()):
        with pytest.raises(ProviderError, match="`seed`"):
            await TargetGate(provider, TargetSettings(provider="x"), name="t").invoke(
                ask("q", options=options_with("seed"))
            )


async def test_mock_gives_the_same_answer_for_every_sampling_option():
    gate = TargetGate(make(Path(), "mock", response="a"), TargetSettings(provider="mock"), name="t")
    options = GenerationOptions(temperature=1.5, top_p=0.1, seed=3)
    assert [(await gate.invoke(ask(options=one))).text for one in (options, GenerationOptions())] == ["a", "a"]


def test_contradictory_options_are_rejected():
    with pytest.raises(ValueError, match="`tool_choice` requires `tools`"):
        GenerationOptions(tool_choice="auto")
    with pytest.raises(ValueError, match="must be one of `tools`, got 'wait'"):
        GenerationOptions(tools=(LOOK,), tool_choice=WAIT)


# -- chat completions

FUNCTIONS = [
    {"type": "function", "function": {"name": "look", "description": "Look it up.", "parameters": PARAMETERS}},
    {
        "type": "function",
        "function": {"name": "wait", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
]
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
SENT: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.25},
    "top_p": {"top_p": 0.5},
    "max_output_tokens": {"max_tokens": 99},
    "seed": {"seed": 7},
    "stop": {"stop": ["END", "STOP"]},
    "response_schema": {"response_format": FORMAT},
    "tools": {"tools": FUNCTIONS},
    "tool_choice": {"tools": FUNCTIONS, "tool_choice": "required"},
    "logprobs": {"logprobs": True, "top_logprobs": 3},
}
LONG_NAME = {"max_output_tokens": {"max_completion_tokens": 99}}
OWN_WORDS: dict[str, dict[str, Any]] = {
    "openai": LONG_NAME,
    "azure": LONG_NAME,
    "mistral": {"seed": {"random_seed": 7}},
}


@pytest.mark.parametrize(
    ("provider", "option"),
    [(provider, option) for provider in CHAT for option in OPTIONS if option not in UNSUPPORTED[provider]],
)
async def test_chat_sends_each_option_as_the_vendor_names_it(provider: str, option: str):
    expected = OWN_WORDS.get(provider, {}).get(option, SENT[option])
    assert await chat_body(provider, options_with(option)) == expected


async def test_chat_without_options_sends_none():
    assert await chat_body("openai", GenerationOptions()) == {}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (LOOK, {"type": "function", "function": {"name": "look"}}),
    ],
    ids=str,
)
async def test_chat_sends_the_tool_choice(choice: Any, sent: Any):
    body = await chat_body("openai", GenerationOptions(tools=(LOOK, WAIT), tool_choice=choice))
    assert body["tool_choice"] == sent


async def test_chat_asks_for_log_probabilities_without_alternatives():
    assert await chat_body("openai", GenerationOptions(logprobs=0)) == {"logprobs": True}


async def test_settings_of_the_target_override_options_in_chat():
    options = GenerationOptions(temperature=0.25, max_output_tokens=99, response_schema=SCHEMA, top_p=0.5)
    settings = {"temperature": 1.0, "max_output_tokens": 5, "structured_output": "off"}
    assert await chat_body("openai", options, **settings) == {
        "temperature": 1.0,
        "max_completion_tokens": 5,
        "top_p": 0.5,
    }


TALK = (
    Message("system", "Be brief."),
    Message("user", "Weather in Paris?"),
    Message("assistant", "I look.", tool_calls=(ToolCall("look", {"city": "Paris"}, id="c1"),)),
    Message("tool", "sunny", metadata={"tool_call_id": "c1"}),
    Message("assistant", "Sunny."),
    Message("user", "And tomorrow?"),
)


async def test_chat_sends_a_whole_conversation():
    async with FakeModelServer() as server:
        target = chat(server)
        await target.invoke(Request(messages=TALK, options=GenerationOptions(tools=(LOOK,))))
        await target.aclose()
        body = server.requests[0].body
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Paris"}'}}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "And tomorrow?"},
    ]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["look"]


def completion(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "length", **choice}]}


async def test_chat_reply_has_log_probabilities_and_finish_reason():
    tokens = [{"token": "yes", "logprob": -0.5, "top_logprobs": [{"token": "no", "logprob": -1}]}]
    async with FakeModelServer(completion(logprobs={"content": tokens})) as server:
        target = chat(server)
        reply = await target.invoke(ask(options=GenerationOptions(logprobs=1)))
        await target.aclose()
    assert reply.logprobs == (TokenLogprob("yes", -0.5, (("no", -1.0),)),)
    assert reply.finish_reason == "length"


@pytest.mark.parametrize(
    "logprobs", [None, {"content": None}, {"content": []}, "none", {"content": [{"token": "x"}]}, [3]]
)
async def test_chat_reply_without_usable_log_probabilities_has_none(logprobs: Any):
    async with FakeModelServer(completion(logprobs=logprobs)) as server:
        target = chat(server)
        assert (await target.invoke(ask())).logprobs is None
        await target.aclose()


# -- providers behind libraries


SENT_BY_LIBRARY: dict[str, dict[str, Any]] = {
    "anthropic": {
        "temperature": 0.25,
        "top_p": 0.5,
        "max_tokens": 99,
        "stop_sequences": ["END", "STOP"],
    },
    "bedrock": {"temperature": 0.25, "topP": 0.5, "maxTokens": 99, "stopSequences": ["END", "STOP"]},
    "gemini": {
        "temperature": 0.25,
        "topP": 0.5,
        "maxOutputTokens": 99,
        "seed": 7,
        "stopSequences": ["END", "STOP"],
        "responseLogprobs": True,
        "logprobs": 3,
    },
    "openai": {
        "temperature": 0.25,
        "top_p": 0.5,
        "max_output_tokens": 99,
        "top_logprobs": 3,
        "include": ["message.output_text.logprobs"],
    },
}
VENDORS = {vendor.provider: vendor for vendor in (ANTHROPIC, BEDROCK, GEMINI, RESPONSES)}


async def honoured(vendor: Vendor, names: Sequence[str]) -> GenerationOptions:
    async with VendorServer(vendor.reply("ok")) as server, vendor.against(server) as provider:
        return GenerationOptions(**{name: VALUES[name] for name in names if name in provider.honours})


@pytest.mark.parametrize("provider", VENDORS)
async def test_libraries_send_every_number_and_stop_string(provider: str):
    vendor = VENDORS[provider]
    numbers = [name for name in VALUES if name not in ("response_schema", "tools")]
    body = await vendor_body(vendor, ask("q", options=await honoured(vendor, numbers)))
    part = body.get("generationConfig") or body.get("inferenceConfig") or body
    assert {name: part.get(name) for name in SENT_BY_LIBRARY[provider]} == SENT_BY_LIBRARY[provider]


@pytest.mark.parametrize("provider", VENDORS)
async def test_settings_of_the_target_override_options_in_libraries(provider: str):
    options = GenerationOptions(temperature=0.25, max_output_tokens=99)
    body = await vendor_body(VENDORS[provider], ask("q", options=options), temperature=1.0, max_output_tokens=33)
    sent = json.dumps(body)
    assert '"temperature": 1.0' in sent
    assert ": 33" in sent
    assert "0.25" not in sent
    assert "99" not in sent


@pytest.mark.parametrize(
    ("provider", "choice", "sent"),
    [
        ("anthropic", None, {"tool_choice": {"type": "auto"}}),
        ("anthropic", "required", {"tool_choice": {"type": "any"}}),
        ("anthropic", "none", {"tool_choice": {"type": "none"}}),
        ("anthropic", LOOK, {"tool_choice": {"type": "tool", "name": "look"}}),
        ("bedrock", "required", {"toolConfig.toolChoice": {"any": {}}}),
        ("bedrock", LOOK, {"toolConfig.toolChoice": {"tool": {"name": "look"}}}),
        ("gemini", "required", {"toolConfig.functionCallingConfig.mode": "ANY"}),
        ("gemini", "none", {"toolConfig.functionCallingConfig.mode": "NONE"}),
        ("gemini", LOOK, {"toolConfig.functionCallingConfig.allowedFunctionNames": ["look"]}),
        ("openai", None, {"tool_choice": "auto"}),
        ("openai", "required", {"tool_choice": "required"}),
        ("openai", LOOK, {"tool_choice": {"type": "function", "name": "look"}}),
    ],
    ids=str,
)
async def test_libraries_send_tools_and_tool_choice(provider: str, choice: Any, sent: dict[str, Any]):
    options = GenerationOptions(tools=(LOOK, WAIT), tool_choice=choice)
    body = await vendor_body(VENDORS[provider], ask("q", options=options))
    for path, expected in sent.items():
        value: Any = body
        for name in path.split("."):
            value = value[name]
        assert value == expected, body
    declared = json.dumps(body.get("tools") or body["toolConfig"])
    assert all(word in declared for word in ('"look"', "Look it up.", '"city"'))
    assert '"wait"' in declared or isinstance(choice, Tool)


@pytest.mark.parametrize("provider", VENDORS)
async def test_libraries_send_a_whole_conversation_with_its_tools(provider: str):
    body = await vendor_body(VENDORS[provider], Request(messages=TALK, options=GenerationOptions(tools=(LOOK,))))
    system = json.dumps(
        body.get("system") or body.get("systemInstruction") or body.get("instructions") or body["input"]
    )
    assert "Be brief." in system
    turns = json.dumps(body.get("messages") or body.get("contents") or body["input"])
    places = [turns.index(text) for text in ("Weather in Paris?", "I look.", '"look"', "sunny", "Sunny.", "tomorrow?")]
    assert places == sorted(places)
    assert json.dumps(body).count('"none"') == 0, "offered tools may be called"


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "o3"), ("anthropic", "claude-opus-4-7"), ("bedrock", "us.anthropic.claude-opus-4-7-v1:0")],
)
async def test_option_that_the_library_would_drop_fails_before_anything_is_sent(provider: str, model: str):
    vendor = VENDORS[provider]
    async with VendorServer(vendor.reply("ok")) as server, vendor.against(server, model=model) as target:
        with pytest.raises(ProviderError, match=rf"the model '{model}' does not support the option `temperature`"):
            await target.invoke(ask(options=GenerationOptions(temperature=0.5)))
        assert server.calls == []
        await target.invoke(ask(options=GenerationOptions(max_output_tokens=9)))
        assert len(server.calls) == 1


async def test_responses_reply_has_log_probabilities():
    answer = RESPONSES.reply("yes")
    token = {
        "token": "yes",
        "bytes": [],
        "logprob": -0.5,
        "top_logprobs": [{"token": "no", "bytes": [], "logprob": -1}],
    }
    answer["output"][0]["content"][0]["logprobs"] = [token]
    async with VendorServer(answer) as server, RESPONSES.against(server) as provider:
        reply = await provider.invoke(ask(options=GenerationOptions(logprobs=1)))
    assert reply.logprobs == (TokenLogprob("yes", -0.5, (("no", -1.0),)),)


async def test_gemini_reply_has_log_probabilities():
    answer = GEMINI.reply("yes")
    answer["candidates"][0]["logprobsResult"] = {
        "chosenCandidates": [{"token": "yes", "tokenId": 1, "logProbability": -0.5}],
        "topCandidates": [{"candidates": [{"token": "no", "tokenId": 2, "logProbability": -1}]}],
    }
    async with VendorServer(answer) as server, GEMINI.against(server) as provider:
        reply = await provider.invoke(ask(options=GenerationOptions(logprobs=1)))
    assert reply.logprobs == (TokenLogprob("yes", -0.5, (("no", -1.0),)),)


# -- the short form


def test_question_is_short_for_its_messages():
    request = Request("q", "s")
    assert request.messages == (Message("system", "s"), Message("user", "q"))
    assert request == Request(messages=request.messages)
    assert (request.question, request.system_prompt) == ("q", "s")


def test_conversation_can_be_read_as_one_text():
    request = Request(messages=TALK)
    assert request.system_prompt == "Be brief."
    assert request.question.startswith("@[User]:\nWeather in Paris?\n\n@[Assistant]:\nI look.\n\n")
    assert request.question.endswith("@[User]:\nAnd tomorrow?")


@pytest.mark.parametrize(
    "arguments", [{}, {"question": "q", "messages": TALK}, {"system_prompt": "s", "messages": TALK}]
)
def test_request_accepts_a_question_or_messages(arguments: dict[str, Any]):
    with pytest.raises(ValueError, match="question"):
        Request(**arguments)


@pytest.mark.parametrize("provider", sorted(set(BUILT_IN) - {"replay", "http", "python", "cli", "local"}))
@pytest.mark.parametrize("changes", [{}, {"api": "responses"}])
def test_options_of_a_target_are_known_from_its_settings(provider: str, changes: dict[str, Any], tmp_path: Path):
    kind = provider_class(provider)
    assert kind is not None
    if changes.keys() - kind.Settings.model_fields.keys():
        return
    needed: dict[str, Any] = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key": KEY}
    own = {name: value for name, value in needed.items() if name in kind.Settings.model_fields}
    target = make(tmp_path, provider, **own, **changes)
    (tmp_path / "agentv.config.yaml").write_text(
        json.dumps({"targets": {"t": {"provider": provider, **own, **changes}}}), encoding="utf-8"
    )
    spec = load_config(tmp_path / "agentv.config.yaml", Environment({})).targets["t"]
    replayed = ReplayedJudge(spec, None)  # type: ignore[arg-type]
    for ability in ("honours", "fixes", "embeds", "follows_prompts"):
        assert getattr(replayed, ability) == getattr(target, ability), ability


@pytest.mark.parametrize(
    ("provider", "changes", "fixed"),
    [
        ("anthropic", {"thinking_budget": 2048}, {"temperature", "top_p", "max_output_tokens"}),
        ("anthropic", {"extra_body": {"stop_sequences": ["x"]}}, {"stop"}),
        ("openai", {"extra_body": {"seed": 1}, "top_p": 0.5}, {"seed", "top_p"}),
    ],
)
def test_settings_that_fix_options(provider: str, changes: dict[str, Any], fixed: set[str], tmp_path: Path):
    assert make(tmp_path, provider, model="m", api_key=KEY, **changes).fixes == fixed
