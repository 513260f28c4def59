"""The OpenAPI document describes what the proxy does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentv.errors import ProviderError
from agentv.http import server as server_module
from agentv.judge.proxy import JudgeApp, JudgeProxy
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.targets.provider import Reply, Request
from agentv.wire.apis.registry import vendor_at
from agentv.wire.judge import InvalidRequestError, parse_batch, parse_invoke
from tests.judge.support import Judge, Response, make_session, request, send

DOCUMENT = yaml.safe_load(
    (Path(__file__).parents[2] / "docs" / "reference" / "judge-proxy.openapi.yaml").read_text(encoding="utf-8")
)
REPLY = Reply(
    (Message("assistant", "yes", tool_calls=(ToolCall("t", {"a": 1}),), metadata={"m": 1}),), TokenUsage(1, 2, 3)
)
QUESTION = {"question": "q"}
BODIES = {"/info": None, "/invoke": QUESTION, "/invokeBatch": {"requests": [QUESTION, {"question": "fail"}]}}
OPERATIONS = [(path, method) for path, operations in DOCUMENT["paths"].items() for method in operations]


def schema(name: str) -> Any:
    return {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}


def follow(node: Any) -> Any:
    while "$ref" in node:
        target = DOCUMENT
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        node = target
    return node


def conforms(documented: Any, reply: Response) -> None:
    documented = follow(documented)
    body_schema = documented["content"]["application/json"]["schema"]
    jsonschema.validate(reply.json, {**body_schema, "components": DOCUMENT["components"]})
    for name, header in documented.get("headers", {}).items():
        jsonschema.validate(reply.headers[name.lower()], header["schema"])
    assert reply.headers["content-type"] == "application/json"


def judge_by_question(request: Request) -> Reply:
    if request.question == "fail":
        raise ProviderError("HTTP 500", status=500)
    return REPLY


@asynccontextmanager
async def proxy_for(status: int) -> AsyncIterator[JudgeProxy]:
    """A proxy that will reply with this status."""
    judge = Judge(judge_by_question, held=status == 504)
    session = make_session(judge, max_calls=0 if status == 429 else 9, timeout=0.01 if status == 504 else 60)
    async with JudgeProxy(session) as proxy:
        if status == 503:
            session.close()
        yield proxy


def provoke(proxy: JudgeProxy, status: int, method: str, path: str) -> bytes:
    body: Any = BODIES[path]
    headers: dict[str, str | None] = {
        400: {"Upgrade": "h2c"},
        401: {"Authorization": None},
        403: {"Origin": "null"},
        408: {"Content-Length": "100"},
        413: {"Content-Length": str(9 * 2**20)},
        415: {"Content-Encoding": "gzip"},
        421: {"Host": "evil.example"},
    }.get(status, {})  # type: ignore[assignment]
    if status == 502:
        body = {"question": "fail"}
    return request(proxy, method.upper(), path, body, headers=headers)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
async def test_every_documented_status_is_returned_and_conforms(
    path: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "BODY_SECONDS", 0.02)
    for name, documented in DOCUMENT["paths"][path][method]["responses"].items():
        async with proxy_for(int(name)) as proxy:
            reply = await send(proxy, provoke(proxy, int(name), method, path))
            assert reply.status == int(name)
            conforms(documented, reply)


async def test_replies_to_other_paths_and_methods_conform(proxy: JudgeProxy) -> None:
    responses = DOCUMENT["components"]["responses"]
    conforms(responses["NotFound"], await send(proxy, request(proxy, "GET", "/nope")))
    conforms(responses["MethodNotAllowed"], await send(proxy, request(proxy, "GET", "/invoke")))


def test_document_has_the_routes_of_the_proxy_and_no_unused_components() -> None:
    assert {(method.upper(), path) for path, method in OPERATIONS} == {
        (route.method, route.path) for route in JudgeApp.routes if vendor_at(route.path) is None
    }
    text = json.dumps(DOCUMENT)
    unused = [
        name
        for kind in ("schemas", "responses")
        for name in DOCUMENT["components"][kind]
        if f"#/components/{kind}/{name}" not in text
    ]
    assert unused == ["NotFound", "MethodNotAllowed"]


TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
KEYS = st.sampled_from(["question", "systemPrompt", "evalCaseId", "attempt", "target", "requests", "other"])
CALLS = st.dictionaries(KEYS, VALUES, max_size=4) | st.fixed_dictionaries(
    {"question": TEXT}, optional={"attempt": st.integers(-1, 3) | st.none(), "target": TEXT | st.none()}
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(CALLS, st.lists(CALLS, max_size=3) | VALUES)
def test_schemas_accept_exactly_the_requests_that_the_proxy_accepts(call: Any, requests: Any) -> None:
    cases: list[tuple[str, Any, Any]] = [("Call", parse_invoke, call), ("Batch", parse_batch, {"requests": requests})]
    for name, parse, body in cases:
        try:
            parse(json.dumps(body).encode())
            accepted = True
        except InvalidRequestError:
            accepted = False
        assert accepted is jsonschema.Draft202012Validator(schema(name)).is_valid(body), body
