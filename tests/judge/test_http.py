"""The HTTP interface of the judge proxy: valid, malformed and hostile requests."""

from __future__ import annotations

import asyncio
import json
import resource
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.http import server as server_module
from agentv.judge.proxy import JudgeProxy
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.redact import Redactor
from agentv.targets.provider import Reply, Request
from tests.judge.support import Judge, Wire, ask, info, make_session, port_of, request, send

OVER = 8 * 2**20 + 1


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


def in_chunks(proxy: JudgeProxy, content: bytes, **headers: str | None) -> bytes:
    return request(proxy, headers={"Transfer-Encoding": "chunked", **headers}) + content


async def alive(proxy: JudgeProxy, judge: Judge, calls: int = 0) -> None:
    """Check that only the expected calls were made, and that another call works."""
    assert judge.calls == calls
    assert (await ask(proxy)).status == 200


async def test_info_has_the_judge_target_and_the_limits(proxy: JudgeProxy) -> None:
    reply = await info(proxy)
    expected = {"targetName": "strict", "maxCalls": 10, "callCount": 0, "availableTargets": ["mild", "strict"]}
    assert reply.items() >= expected.items()


async def test_reply_has_messages_text_and_usage() -> None:
    inner = {"tool_calls": 1, "camelCase": 2}
    message = Message("assistant", "yes", tool_calls=(ToolCall("t", inner),), metadata={"snake_case": 1})
    async with JudgeProxy(make_session(Judge(lambda _: Reply((message,), TokenUsage(3, 1))))) as proxy:
        reply = await ask(proxy)
    messages = [
        {
            "role": "assistant",
            "content": "yes",
            "toolCalls": [{"tool": "t", "input": inner}],
            "metadata": {"snake_case": 1},
        }
    ]
    usage = {"input": 3, "output": 1}
    assert reply.json == {
        "outputMessages": messages,
        "output": messages,
        "rawText": "yes",
        "usage": usage,
        "tokenUsage": usage,
    }
    assert reply.headers["content-type"] == "application/json"


async def test_batch_is_answered_in_order(proxy: JudgeProxy) -> None:
    body = {"requests": [{"question": "a"}, {"question": "b", "target": "mild"}]}
    reply = await send(proxy, request(proxy, path="/invokeBatch", body=body))
    assert [item["rawText"] for item in reply.json["responses"]] == ["yes", "mild"]


async def test_content_type_of_a_request_is_ignored(proxy: JudgeProxy) -> None:
    for kind in (None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"):
        assert (await ask(proxy, {"question": "é🙂"}, headers={"Content-Type": kind})).status == 200


async def test_other_paths_are_404_and_other_methods_405(proxy: JudgeProxy, judge: Judge) -> None:
    for path in ("/", "/nope", "/info/", "/INFO", "//info", "/%69nfo", f"http://127.0.0.1:{port_of(proxy)}/info", "*"):
        reply = await send(proxy, request(proxy, "GET", path))
        assert (reply.status, reply.code) == (404, "not_found")
    for method, path, allowed in [
        ("GET", "/invoke", "POST"),
        ("POST", "/info", "GET"),
        ("PUT", "/invokeBatch", "POST"),
    ]:
        reply = await send(proxy, request(proxy, method, path))
        assert (reply.status, reply.code, reply.headers["allow"]) == (405, "method_not_allowed", allowed)
    await alive(proxy, judge)


@pytest.mark.parametrize("method", ["GET", "HEAD", "TRACE", "OPTIONS", "PUT", "DELETE", "PATCH", "post", "BREW"])
async def test_methods_other_than_post_do_not_invoke(proxy: JudgeProxy, judge: Judge, method: str) -> None:
    data = request(proxy, method, body={"question": "q"}, headers={"X-HTTP-Method-Override": "POST"})
    reply = await send(proxy, data, body=method != "HEAD")
    assert reply.status == 405
    assert proxy.token.encode() not in reply.raw
    await alive(proxy, judge)


async def test_head_reply_has_no_body(proxy: JudgeProxy) -> None:
    for headers in ({}, {"Authorization": None}):
        async with await Wire.to(proxy) as wire:
            wire.send(request(proxy, "HEAD", "/info", headers=dict(headers)))
            everything = await wire.rest()
        assert everything.endswith(b"\r\n\r\n")
        assert everything.count(b"\r\n\r\n") == 1


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "HTTP/2.0, TLS/1.0"])
async def test_protocol_upgrades_are_refused(proxy: JudgeProxy, judge: Judge, upgrade: str) -> None:
    for method, path in (("GET", "/info"), ("POST", "/invoke")):
        headers: dict[str, str | None] = {"Connection": "Upgrade", "Upgrade": upgrade}
        body = {"question": "q"} if method == "POST" else None
        reply = await send(proxy, request(proxy, method, path, body, headers=headers))
        assert (reply.status, reply.code) == (400, "invalid_request")
    await alive(proxy, judge)


async def test_connect_and_other_versions_are_refused(proxy: JudgeProxy, judge: Judge) -> None:
    assert (await send(proxy, request(proxy, "CONNECT", f"127.0.0.1:{port_of(proxy)}"))).status == 404
    for data, wanted in (
        (b"GET /info\r\n", (401, "unauthorized")),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (401, "unauthorized")),
        (request(proxy, version="HTTP/2.0"), (400, "invalid_request")),
        (request(proxy, version="HTTP/1.2"), (400, "invalid_request")),
        (request(proxy, version="http/1.1"), (400, "invalid_request")),
        (b"\x16\x03\x01\x02\x00\x01\x00\n\r\n\r\n", (401, "unauthorized")),
    ):
        async with await Wire.to(proxy) as wire:
            wire.send(data)
            reply = await wire.response()
            assert (reply.status, reply.code) == wanted
            assert await wire.rest() == b""
    await alive(proxy, judge)


async def test_http_1_0_is_answered_and_the_connection_closed(proxy: JudgeProxy) -> None:
    async with await Wire.to(proxy) as wire:
        wire.send(request(proxy, "GET", "/info", version="HTTP/1.0"))
        assert (await wire.response()).status == 200
        assert await wire.rest() == b""


async def test_connection_is_kept_alive_until_the_client_closes_it(proxy: JudgeProxy) -> None:
    async with await Wire.to(proxy) as wire:
        for _ in range(3):
            wire.send(request(proxy, body={"question": "q"}))
            assert (await wire.response()).status == 200
        for bad in (b"{", b"null"):
            wire.send(request(proxy, body=bad))
            assert (await wire.response()).status == 400
        wire.send(request(proxy, "GET", "/nope"))
        assert (await wire.response()).status == 404
        wire.send(request(proxy, "GET", "/info", headers={"Connection": "close"}))
        assert (await wire.response()).headers["connection"] == "close"
        assert await wire.rest() == b""


async def test_pipelined_requests_are_answered_in_order(proxy: JudgeProxy) -> None:
    async with await Wire.to(proxy) as wire:
        wire.send(
            b"".join(request(proxy, body={"question": "q", "target": t}) for t in ("strict", "mild", "no", "mild"))
        )
        wire.send(request(proxy, "GET", "/info"))
        replies = [await wire.response() for _ in range(5)]
    assert [reply.status for reply in replies] == [200, 200, 400, 200, 200]
    assert [reply.json["rawText"] for reply in (replies[0], replies[1], replies[3])] == ["yes", "mild", "mild"]
    assert replies[4].json["callCount"] == 3


async def test_request_may_arrive_byte_by_byte(proxy: JudgeProxy) -> None:
    async with await Wire.to(proxy) as wire:
        for data in (request(proxy, body={"question": "q"}), in_chunks(proxy, chunked(b'{"question"', b': "q"}'))):
            for position in range(len(data)):
                wire.send(data[position : position + 1])
                await asyncio.sleep(0)
            assert (await wire.response()).status == 200


async def test_chunked_body_is_read(proxy: JudgeProxy) -> None:
    for ending in (b"0\r\n\r\n", b"000\r\n\r\n", b"0;ext=1\r\n\r\n"):
        async with await Wire.to(proxy) as wire:
            wire.send(in_chunks(proxy, chunked(b'{"question"', b': "q"}', end=ending)))
            assert (await wire.response()).status == 200
            wire.send(request(proxy, "GET", "/info"))
            assert (await wire.response()).status == 200


async def test_expect_100_continue_is_answered_before_the_body(proxy: JudgeProxy, judge: Judge) -> None:
    body = json.dumps({"question": "q"}).encode()
    head = request(proxy, headers={"Expect": "100-continue", "Content-Length": str(len(body))})
    async with await Wire.to(proxy) as wire:
        wire.send(head)
        assert (await wire.response()).status == 100
        wire.send(body)
        assert (await wire.response()).status == 200
    refused = head.replace(proxy.token.encode(), b"wrong")
    assert (await send(proxy, refused)).status == 401
    await alive(proxy, judge, 1)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b"Content-Length:", b"Content-Length :"),
        lambda data: data.replace(b"Content-Length: ", b"Content-Length: +"),
        lambda data: data.replace(b"Content-Length: ", b"Content-Length: -"),
        lambda data: data.replace(b"Content-Length: ", b"Content-Length: 0x"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17, 17"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nContent-Length: 17"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nContent-Length: 3"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: "),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nTransfer-Encoding: chunked"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\n folded: 1"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nX: a\x00b"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nX: a\rb"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\nX: a"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\n: empty"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nno colon"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\n" + b"X: y\r\n" * 200 + b"Z: 1"),
        lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nX: " + b"y" * 20_000),
        lambda data: data.replace(b"POST /invoke", b"POST  /invoke"),
        lambda data: data.replace(b"POST /invoke", b" POST /invoke"),
        lambda data: data.replace(b"POST /invoke", b"POST /in voke"),
        lambda data: data.replace(b"\r\n", b"\n"),
    ],
)
async def test_ambiguous_request_is_400_and_closes_the_connection(proxy: JudgeProxy, judge: Judge, spoil: Any) -> None:
    good = request(proxy, body=b'{"question": "q"}')
    assert (await send(proxy, good)).status == 200
    async with await Wire.to(proxy) as wire:
        wire.send(spoil(good) + request(proxy, body=b'{"question": "smuggled"}'))
        reply = await wire.response()
        assert (reply.status, reply.code) == (400, "invalid_request")
        assert await wire.rest() == b""
    assert [asked.question for asked in judge.requests] == ["q"]


@pytest.mark.parametrize(
    "coding",
    ["gzip, chunked", "identity", "xchunked", "chunked, chunked", "chunked;q=1", "chunked\t", "", "\x0bchunked"],
)
async def test_transfer_encodings_other_than_chunked_are_refused(proxy: JudgeProxy, judge: Judge, coding: str) -> None:
    async with await Wire.to(proxy) as wire:
        wire.send(in_chunks(proxy, chunked(b'{"question": "q"}'), **{"Transfer-Encoding": coding}))
        assert (await wire.response()).status in (400, 415)
        assert await wire.rest() == b""
    await alive(proxy, judge)


@pytest.mark.parametrize(
    "content",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"0x5\r\n",
        b"5\nabcde",
        b"5\r\nabcdeXX",
        b"5\r\nabcde\n\n",
        b"fffffffff\r\n",
        b"1" * 300,
        b"5 5\r\nabcde\r\n",
        b"5 \r\nabcde\r\n",
        b"0\t\r\n",
    ],
)
async def test_malformed_chunk_is_400_and_closes_the_connection(
    proxy: JudgeProxy, judge: Judge, content: bytes
) -> None:
    async with await Wire.to(proxy) as wire:
        wire.send(in_chunks(proxy, content + b"\r\n" + request(proxy, body={"question": "smuggled"})))
        reply = await wire.response()
        assert reply.status in (400, 413)
        assert await wire.rest() == b""
    await alive(proxy, judge)


@pytest.mark.parametrize("trailer", [b"no colon", b"Content-Length: 5", b"X-Trailer: 1"])
async def test_trailers_are_400(proxy: JudgeProxy, judge: Judge, trailer: bytes) -> None:
    ending = b"0\r\n" + trailer + b"\r\n\r\n"
    async with await Wire.to(proxy) as wire:
        wire.send(in_chunks(proxy, chunked(b'{"question": "q"}', end=ending)))
        assert (await wire.response()).status == 400
        assert await wire.rest() == b""
    await alive(proxy, judge)


async def test_content_length_with_valid_chunks_is_400(proxy: JudgeProxy, judge: Judge) -> None:
    content = chunked(b'{"question": "q"}')
    async with await Wire.to(proxy) as wire:
        wire.send(in_chunks(proxy, content, **{"Content-Length": str(len(content))}))
        assert (await wire.response()).status == 400
        assert await wire.rest() == b""
    await alive(proxy, judge)


async def test_connection_closes_when_one_of_two_connection_headers_says_close(proxy: JudgeProxy) -> None:
    data = request(proxy, "GET", "/info").replace(b"\r\n", b"\r\nConnection: close\r\nConnection: x\r\n", 1)
    async with await Wire.to(proxy) as wire:
        wire.send(data + data)
        assert (await wire.response()).headers["connection"] == "close"
        assert await wire.rest() == b""


async def test_body_in_too_many_small_chunks_is_400(proxy: JudgeProxy, judge: Judge) -> None:
    async with await Wire.to(proxy) as wire:
        wire.send(in_chunks(proxy, b"1\r\nx\r\n" * 100_000))
        assert (await wire.response()).status == 400
    await alive(proxy, judge)


async def test_encoded_body_is_415(proxy: JudgeProxy, judge: Judge) -> None:
    for encoding in ("gzip", "br", "deflate", "identity, gzip"):
        reply = await ask(proxy, headers={"Content-Encoding": encoding})
        assert (reply.status, reply.code) == (415, "unsupported_encoding")
    await alive(proxy, judge)
    assert (await ask(proxy, headers={"Content-Encoding": "identity"})).status == 200


async def test_body_over_8_mib_is_413_and_uses_no_memory(proxy: JudgeProxy, judge: Judge) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in (
        request(proxy, headers={"Content-Length": str(OVER)}) + bytes(OVER),
        in_chunks(proxy, b"%x\r\n" % OVER + bytes(OVER)),
        in_chunks(proxy, chunked(*[bytes(2**18)] * 33)),
    ):
        async with await Wire.to(proxy) as wire:
            wire.send(data)
            reply = await wire.response()
            assert (reply.status, reply.code) == (413, "payload_too_large")
            assert "8 MiB" in reply.json["error"]
    # This includes the memory of the client in the same process.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 70 * 1024
    assert (await info(proxy))["callCount"] == 0
    await alive(proxy, judge)


@pytest.mark.parametrize("length", ["99999999999999999999", "0" * 20 + str(OVER), "9" * 5000])
async def test_content_length_with_many_digits_is_413(proxy: JudgeProxy, judge: Judge, length: str) -> None:
    reply = await send(proxy, request(proxy, headers={"Content-Length": length}))
    assert (reply.status, reply.code) == (413, "payload_too_large")
    await alive(proxy, judge)


async def test_body_of_exactly_8_mib_is_accepted(proxy: JudgeProxy, judge: Judge) -> None:
    frame = b'{"question": ""}'
    question = b"x" * (OVER - 1 - len(frame))
    assert (await ask(proxy, frame.replace(b'""', b'"' + question + b'"'))).status == 200
    assert len(judge.requests[0].question) == len(question)


async def test_slow_head_closes_the_connection_and_slow_body_is_408(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allow(**seconds: float) -> None:
        """Shorten only the deadline under test: on a busy machine, other requests must not time out."""
        for name in ("HEAD_SECONDS", "BODY_SECONDS"):
            monkeypatch.setattr(server_module, name, seconds.get(name, 60.0))

    async with JudgeProxy(make_session(judge)) as proxy:
        allow(HEAD_SECONDS=0.05)
        for sent in (b"", b"GET /info HT", request(proxy)[:-2]):
            async with await Wire.to(proxy) as wire:
                wire.send(sent)
                assert await wire.rest() == b""
        allow(BODY_SECONDS=0.05)
        for data in (request(proxy, headers={"Content-Length": "10"}) + b"{", in_chunks(proxy, b"5\r\nab")):
            async with await Wire.to(proxy) as wire:
                wire.send(data)
                reply = await wire.response()
                assert (reply.status, reply.code) == (408, "request_timeout")
        async with await Wire.to(proxy) as wire:
            wire.send(request(proxy, body={"question": "q"}))
            assert (await wire.response()).status == 200
            allow(HEAD_SECONDS=0.05)
            wire.send(b"GET /in")
            assert await wire.rest() == b""
        allow()
        await alive(proxy, judge, 1)


async def test_default_deadlines() -> None:
    assert (server_module.HEAD_SECONDS, server_module.BODY_SECONDS) == (10.0, 30.0)


async def test_judge_failures_are_502_or_504_without_secrets() -> None:
    secret = "sk-very-secret-0123456789"

    def fail(request: Request) -> Reply:
        raise ProviderError(f"target 'strict' answered HTTP 401: bad key {secret}", status=401)

    async with JudgeProxy(make_session(Judge(fail), redactor=Redactor([secret]))) as proxy:
        reply = await ask(proxy)
        assert (reply.status, reply.code) == (502, "judge_failed")
        assert secret.encode() not in reply.raw
        assert "HTTP 401" in reply.json["error"]
        leaking = await ask(proxy, {"question": "q", secret: 1})
        assert leaking.status == 400
        assert secret.encode() not in leaking.raw
    async with JudgeProxy(make_session(Judge(held=True), timeout=0.01)) as proxy:
        reply = await ask(proxy)
        assert (reply.status, reply.code) == (504, "judge_timeout")


async def test_unknown_target_is_400_and_lists_available_names(proxy: JudgeProxy, judge: Judge) -> None:
    reply = await ask(proxy, {"question": "q", "target": "nonexistent"})
    assert (reply.status, reply.code) == (400, "unknown_target")
    assert reply.json["error"] == "unknown target 'nonexistent'; available: mild, strict"
    await alive(proxy, judge)


async def test_internal_error_is_reported_to_agentv_but_not_to_the_script(judge: Judge) -> None:
    def break_down(record: object) -> None:
        raise RuntimeError("/home/secret/path")

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    session = make_session(judge, on_call=break_down)
    async with JudgeProxy(session) as proxy:
        reply = await ask(proxy)
    assert (reply.status, reply.code) == (502, "judge_failed")
    assert b"secret" not in reply.raw
    assert "secret" in str(reported[0]["exception"])


async def test_error_replies_are_json_without_request_content(proxy: JudgeProxy) -> None:
    for data in (
        request(proxy, "GET", "/<script>alert(1)</script>"),
        request(proxy, body={"question": "q", "<b>": 1}),
        request(proxy, "GET", "/info", headers={"Authorization": None}),
        b"<html>\r\n\r\n",
    ):
        reply = await send(proxy, data)
        assert reply.status >= 400
        assert reply.headers["content-type"] == "application/json"
        assert set(reply.json) == {"error", "code"}
        assert b"Traceback" not in reply.raw
        assert b"<script>" not in reply.raw
