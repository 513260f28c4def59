"""Access to the judge proxy: the checks of the token, the host and the origin."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from agentv.judge.proxy import JudgeProxy
from tests.judge.support import Judge, Wire, ask, info, make_session, port_of, request, send

PATHS = [("GET", "/info"), ("POST", "/invoke"), ("POST", "/invokeBatch"), ("GET", "/nope"), ("OPTIONS", "/invoke")]


async def assert_no_call_was_made(proxy: JudgeProxy, judge: Judge) -> None:
    """Check that no call was made, and that a request with the token still works."""
    assert judge.calls == 0
    assert (await info(proxy))["callCount"] == 0
    assert (await ask(proxy)).status == 200


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_request_without_token_is_401_on_every_path(
    proxy: JudgeProxy, judge: Judge, method: str, path: str
) -> None:
    reply = await send(proxy, request(proxy, method, path, {"question": "q"}, headers={"Authorization": None}))
    assert (reply.status, reply.code) == (401, "unauthorized")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "AGENTV_JUDGE_PROXY_TOKEN" in reply.json["error"]
    await assert_no_call_was_made(proxy, judge)


@pytest.mark.parametrize(
    "spell",
    [
        lambda token: f"Bearer {token[:-1]}",
        lambda token: f"Bearer {token}x",
        lambda token: f"Bearer {token.swapcase()}",
        lambda token: f"Bearer {token} {token}",
        lambda token: f"Basic {token}",
        lambda token: "Bearer",
        lambda token: "Bearer ",
        lambda token: token,
        lambda token: f"Bearer{token}",
        lambda token: f"Bearer\t{token}",
        lambda token: f'Bearer "{token}"',
        lambda token: f"Bearer {token},",
        lambda token: "Bearer \xe9\xff",
        lambda token: "",
    ],
)
async def test_anything_but_the_exact_token_is_401(proxy: JudgeProxy, judge: Judge, spell: Any) -> None:
    assert (await ask(proxy, headers={"Authorization": spell(proxy.token)})).status == 401
    await assert_no_call_was_made(proxy, judge)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
async def test_bearer_scheme_is_case_insensitive(proxy: JudgeProxy, scheme: str) -> None:
    assert (await ask(proxy, headers={"Authorization": f"{scheme} {proxy.token}"})).status == 200


async def test_token_outside_the_authorization_header_is_401(proxy: JudgeProxy, judge: Judge) -> None:
    token = proxy.token
    for headers, path, body in [
        ({}, f"/invoke?token={token}", {"question": "q"}),
        ({"Cookie": f"token={token}"}, "/invoke", {"question": "q"}),
        ({"X-Api-Key": token}, "/invoke", {"question": "q"}),
        ({"Proxy-Authorization": f"Bearer {token}"}, "/invoke", {"question": "q"}),
        ({}, "/invoke", {"question": "q", "token": token}),
    ]:
        data = request(proxy, path=path, body=body, headers={"Authorization": None, **headers})
        assert (await send(proxy, data)).status == 401
    await assert_no_call_was_made(proxy, judge)


async def test_two_authorization_headers_are_401(proxy: JudgeProxy, judge: Judge) -> None:
    for first in ("Bearer wrong", f"Bearer {proxy.token}"):
        data = request(proxy, body={"question": "q"}).replace(b"\r\n", f"\r\nAuthorization: {first}\r\n".encode(), 1)
        assert (await send(proxy, data)).status == 401
    await assert_no_call_was_made(proxy, judge)


async def test_token_of_another_proxy_is_401() -> None:
    async with JudgeProxy(make_session()) as one, JudgeProxy(make_session()) as other:
        assert (await ask(one)).status == 200
        assert (await ask(other, headers={"Authorization": f"Bearer {one.token}"})).status == 401


async def test_proxy_listens_on_loopback_only(proxy: JudgeProxy) -> None:
    port = port_of(proxy)
    listening = []
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                listening.append(local.rpartition(":")[0])
    assert listening == ["0100007F"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; only selects the local address
            outside = probe.getsockname()[0]
        except OSError:
            outside = "127.0.0.1"
    if not outside.startswith("127."):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(outside, port)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1.evil.example", ""]
)
async def test_foreign_host_is_421(proxy: JudgeProxy, judge: Judge, host: str) -> None:
    reply = await ask(proxy, headers={"Host": host})
    assert (reply.status, reply.code) == (421, "misdirected")
    await assert_no_call_was_made(proxy, judge)


async def test_missing_or_repeated_host_is_421(proxy: JudgeProxy, judge: Judge) -> None:
    assert (await ask(proxy, headers={"Host": None})).status == 421
    doubled = request(proxy, body={"question": "q"}).replace(b"\r\n", b"\r\nHost: evil.example\r\n", 1)
    assert (await send(proxy, doubled)).status == 421
    await assert_no_call_was_made(proxy, judge)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
async def test_loopback_host_names_with_the_port_are_accepted(proxy: JudgeProxy, host: str) -> None:
    assert (await ask(proxy, headers={"Host": f"{host}:{port_of(proxy)}"})).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", ""])
async def test_origin_header_is_403(proxy: JudgeProxy, judge: Judge, origin: str) -> None:
    reply = await ask(proxy, headers={"Origin": origin})
    assert (reply.status, reply.code) == (403, "forbidden")
    await assert_no_call_was_made(proxy, judge)


@pytest.mark.parametrize("path", ["/info", "/invoke", "/invokeBatch", "*"])
async def test_cors_preflight_is_refused(proxy: JudgeProxy, path: str) -> None:
    headers: dict[str, str | None] = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    for token, status in ((None, 401), (f"Bearer {proxy.token}", 403)):
        reply = await send(proxy, request(proxy, "OPTIONS", path, headers={**headers, "Authorization": token}))
        assert reply.status == status
        assert not [name for name in reply.headers if name.startswith("access-control-")]


async def test_checks_are_made_in_the_documented_order(proxy: JudgeProxy) -> None:
    """Each request fails its check and all later ones; the reply reports the first."""
    wrong: dict[str, str | None] = {"Content-Encoding": "gzip"}
    steps: list[tuple[int, str, str, dict[str, str | None]]] = [
        (401, "PUT", "/nope", {"Authorization": None, "Host": "evil", "Origin": "x", **wrong}),
        (421, "PUT", "/nope", {"Host": "evil", "Origin": "x", **wrong}),
        (403, "PUT", "/nope", {"Origin": "x", **wrong}),
        (404, "PUT", "/nope", wrong),
        (405, "PUT", "/invoke", wrong),
        (415, "POST", "/invoke", wrong),
        (400, "POST", "/invoke", {}),
    ]
    for status, method, path, headers in steps:
        data = request(proxy, method, path, {"question": "", "target": "nope"}, headers=headers)
        assert (await send(proxy, data)).status == status
    over = request(proxy, body=b"x", headers={"Content-Encoding": "gzip", "Content-Length": str(9 * 2**20)})
    assert (await send(proxy, over)).status == 415
    unknown = await ask(proxy, {"question": "q", "target": "nope"})
    assert unknown.code == "unknown_target"


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nContent-Length: 17"), 400),
        (lambda data: data.replace(b"Content-Length: 17", b"Content-Length: 17\r\nTransfer-Encoding: chunked"), 400),
        (lambda data: data.replace(b"Content-Length: 17", b"Content-Length: \t17"), 400),
        (lambda data: data.replace(b"Content-Length: 17", b"Transfer-Encoding: gzip, chunked"), 415),
        (lambda data: data.replace(b"Content-Length: 17", b"Transfer-Encoding: chunked\r\n" * 2 + b"X: y"), 415),
        (lambda data: data.replace(b"Content-Length: 17", b"Content-Length: " + b"9" * 30), 413),
        (lambda data: data.replace(b"POST", b"BREW"), 405),
        (lambda data: data.replace(b"/invoke", b"invoke"), 404),
    ],
)
async def test_invalid_framing_is_checked_after_token_host_origin_and_path(
    proxy: JudgeProxy, judge: Judge, spoil: Any, status: int
) -> None:
    good = request(proxy, body=b'{"question": "q"}')
    host = f"127.0.0.1:{port_of(proxy)}".encode()
    assert (await send(proxy, spoil(good))).status == status
    assert (await send(proxy, spoil(good.replace(b"/invoke", b"/nope")))).status == 404
    assert (await send(proxy, spoil(good.replace(b"\r\n", b"\r\nOrigin: null\r\n", 1)))).status == 403
    assert (await send(proxy, spoil(good.replace(host, b"evil.example")))).status == 421
    assert (await send(proxy, spoil(good.replace(proxy.token.encode(), b"wrong")))).status == 401
    await assert_no_call_was_made(proxy, judge)


@pytest.mark.parametrize("name", ["Authorization", "Host"])
async def test_tab_before_a_header_value_is_part_of_the_value(proxy: JudgeProxy, judge: Judge, name: str) -> None:
    good = request(proxy, body=b'{"question": "q"}')
    status = {"Authorization": 401, "Host": 421}[name]
    assert (await send(proxy, good.replace(f"{name}: ".encode(), f"{name}:\t".encode()))).status == status
    await assert_no_call_was_made(proxy, judge)


async def test_huge_body_without_token_is_401_immediately_and_uses_no_memory(proxy: JudgeProxy, judge: Judge) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = 100 * 2**20
    data = request(proxy, headers={"Authorization": None, "Content-Length": str(size)})
    started = time.perf_counter()
    async with await Wire.to(proxy) as wire:
        wire.send(data)
        assert (await wire.response()).status == 401
        assert time.perf_counter() - started < 20
    block = bytes(2**20)

    async def pour() -> None:
        for _ in range(100):
            wire.send(block)
            await wire.writer.drain()

    # A client that sends everything before it reads still gets the 401.
    async with await Wire.to(proxy) as wire:
        wire.send(data)
        await pour()
        assert (await wire.response()).status == 401
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024
    await assert_no_call_was_made(proxy, judge)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b"/info", b"/" + b"a" * 9000),
        lambda data: data.replace(b"/info", b"/\xe9"),
        lambda data: data.replace(b"Host", b"X: " + b"y" * 20_000 + b"\r\nHost"),
        lambda data: data.replace(b"Host", b"X: y\r\n" * 200 + b"Host"),
        lambda data: data.replace(b"Host", b"no colon\r\nHost"),
        lambda data: data.replace(b"\r\n", b"\n"),
    ],
)
async def test_malformed_request_without_token_is_401(proxy: JudgeProxy, judge: Judge, spoil: Any) -> None:
    bare = request(proxy, "GET", "/info", headers={"Authorization": None})
    for wrong_token in (b"", b"Authorization: Bearer " + proxy.token.encode()[:-1] + b"\r\n"):
        reply = await send(proxy, spoil(bare.replace(b"Host", wrong_token + b"Host")))
        assert (reply.status, reply.code) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
    token = b"Authorization: Bearer " + proxy.token.encode() + b"\r\n"
    reply = await send(proxy, spoil(bare.replace(b"Host", token + b"Host")))
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert judge.calls == 0
