"""Who gets something from the viewer's server, and with which addresses. `raw.py` checks the headers of every reply."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentv.http.messages import Refused, Request
from agentv.view import access
from agentv.view.access import Access
from tests.view.bookshop import RUNS
from tests.view.opening import Server
from tests.view.raw import RawClient, read_reply

RUN = RUNS["new-prompt"]
PATHS = ("/", "/static/all.js", "/api/runs", f"/api/run/{RUN}")


@pytest.fixture(scope="module")
def client(served: Server) -> RawClient:
    return RawClient(served.link)


def open_path(client: RawClient) -> str:
    return f"/open?t={client.token}"


def test_link_is_exchanged_for_a_strict_cookie_any_number_of_times(client: RawClient) -> None:
    again = client.get(open_path(client), cookie=None)
    assert again.status == 303
    assert again.headers["location"] == "/"
    assert again.headers["set-cookie"] == client.set_cookie
    value, *attributes = client.set_cookie.split("; ")
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert re.fullmatch(rf"agentv-{client.port}=[\w-]{{43}}", value)
    assert client.token not in client.set_cookie
    assert client.get("/").status == 200


@pytest.mark.parametrize("path", [*PATHS, None])
def test_only_the_exact_host_is_served(client: RawClient, path: str | None) -> None:
    path = path or open_path(client)
    wrong = (
        None,
        "",
        "localhost",
        f"localhost:{client.port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1:{client.port}.",
        f"127.0.0.1:{client.port}@evil.example",
        f"127.0.0.1.:{client.port}",
        f"127.1:{client.port}",
        f"[::1]:{client.port}",
        f"0.0.0.0:{client.port}",
        f"evil.example:{client.port}",
        f"evil.example, 127.0.0.1:{client.port}",
    )
    for host in wrong:
        assert client.get(path, host=host).status == 421, host
    for lines in ([f"Host: {client.host}"], ["Host: evil.example"], ["host: evil.example"]):
        assert client.get(path, *lines).status == 421, lines
    assert client.get(path, f"X-Forwarded-Host: {client.host}", host="evil.example").status == 421
    assert client.get(path).status in {200, 303}


@pytest.mark.parametrize("path", [*PATHS, None])
def test_requests_of_other_sites_are_refused(client: RawClient, path: str | None) -> None:
    path = path or open_path(client)
    for site in ("same-origin", "none"):
        assert client.get(path, f"Sec-Fetch-Site: {site}").status in {200, 303}, site
    for site in ("cross-site", "same-site", "", "None", "same-origin, none", "x"):
        assert client.get(path, f"Sec-Fetch-Site: {site}").status == 403, site
    assert client.get(path, "Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site").status == 403
    assert client.get(path, f"Origin: http://{client.host}").status in {200, 303}
    for origin in (
        "null",
        "",
        "http://evil.example",
        f"http://localhost:{client.port}",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        f"https://{client.host}",
        f"http://{client.host}/",
        "file://",
    ):
        assert client.get(path, f"Origin: {origin}").status == 403, origin


def test_refused_navigation_says_what_to_do(client: RawClient) -> None:
    for reply in (client.get(open_path(client), "Sec-Fetch-Site: cross-site"), client.get("/", cookie=None)):
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert b"Open the link that `agentv view` printed in the terminal." in reply.body
        assert "set-cookie" not in reply.headers


def test_only_the_token_opens_the_link(client: RawClient) -> None:
    token = client.token
    wrong = (
        "/open",
        "/open?",
        "/open?t=",
        f"/open?t={token[:-1]}",
        f"/open?t={token}x",
        f"/open?t={token.swapcase()}",
        f"/open?t={token}&t={token}",
        f"/open?x=1&t={token}",
        f"/open?T={token}",
        f"/open?t=%{ord(token[0]):02x}{token[1:]}",
        f"/open?{token}",
        "/open?t=" + "A" * 7000,
        f"/open?t={client.cookie.partition('=')[2]}",
    )
    for path in wrong:
        reply = client.get(path)  # with the cookie, too
        assert reply.status == 401, path
        assert "set-cookie" not in reply.headers
    assert client.get(f"/open/?t={token}", cookie=None).status == 401
    assert client.get("/open", f"Authorization: Bearer {token}", cookie=f"t={token}").status == 401


@pytest.mark.parametrize("path", [*PATHS, "/nope", "/static/nope.js", f"/api/run/{RUN}/events", "/api/run/nope"])
def test_nothing_is_served_without_the_cookie(client: RawClient, path: str) -> None:
    name, _, value = client.cookie.partition("=")
    wrong = (
        None,
        "",
        name,
        f"{name}=",
        f"{name}={client.token}",
        f"{name}={value[:-1]}",
        f"{name}={value}x",
        f'{name}="{value}"',
        f"{name.upper()}={value}",
        f"agentv-1={value}",
        f"x={value}",
        f"{name}={value}, x=1",
    )
    for cookie in wrong:
        assert client.get(path, cookie=cookie).status == 401, cookie
    assert client.get(f"{path}?t={client.token}", cookie=None).status == 401
    assert client.get(path, f"Cookie: {client.cookie}").status == 401  # twice
    assert client.get("/", cookie=f"theme=dark; {client.cookie};other=x=y; {name}=old").status == 200


@pytest.mark.parametrize(
    "method", ["OPTIONS", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "CONNECT", "PROPFIND", "POST"]
)
def test_other_methods_are_refused(client: RawClient, method: str) -> None:
    for path in ("/", "/api/runs", "/static/all.js", f"/api/run/{RUN}", f"/open?t={client.token}"):
        preflight = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-agentv")
        assert client.send(method, path, *preflight).status in {400, 405}, path
        assert client.send(method, path, *preflight, cookie="").status in {400, 401, 405}, path
    assert client.send("OPTIONS", "*").status in {400, 404}


_SECRET = "a-secret-outside"
_UP = ("..", "%2e%2e", "%2E.", ".%2e", "..%2f..", "..%5c..", "..\\..", "....//", "%252e%252e", "%c0%ae%c0%ae", "..;")
_TAILS = ("agentv.config.yaml", "run.json", "results.jsonl", "secret.txt", "%00", "main.js%00.css", "")


def test_paths_lead_nowhere_else(client: RawClient, served: Server) -> None:
    outside = served.root / ".agentv" / "secret.txt"
    outside.write_text(_SECRET)
    try:
        bases = ("/static", "/api/run", f"/api/run/{RUN}", f"/api/compare/{RUN}", "")
        for base in bases:
            for up in _UP:
                for tail in _TAILS:
                    for path in (f"{base}/{up}/{tail}", f"{base}/{up}%2f{tail}", f"{base}/{up}/{up}/{up}/{tail}"):
                        reply = client.get(path)
                        assert reply.status in {400, 404}, (path, reply)
                        assert _SECRET.encode() not in reply.body
    finally:
        outside.unlink()


def test_addresses_that_are_not_listed_are_unknown(client: RawClient, served: Server, tmp_path: Path) -> None:
    real = served.root / ".agentv" / "runs" / RUN
    assert real.is_dir()
    names = (
        "nope",
        RUN[:-1],
        RUN.lower() + "x",
        f"{RUN}%20",
        f"%20{RUN}",
        f"{RUN}%00",
        f"{RUN}%2f",
        f"{RUN}%2F.",
        f".%2f{RUN}",
        f"..%2fruns%2f{RUN}",
        str(real).replace("/", "%2f"),
        str(tmp_path).replace("/", "%2F"),
        "latest",
        "new-prompt",
        ".",
        "~",
        "%ff%fe",
        "%",
        "%zz",
        "__proto__",
        "x" * 8000,
        "%F0%9F%92%A9",
        "*",
        "{}",
    )
    ends = ("", "/columns", "/rows/0", "/history/0", "/search?q=x", "/judges", "/labels", "/events")
    for name in names:
        for end in ends:
            assert client.get(f"/api/run/{name}{end}").status == 404, (name[:100], end)
        assert client.get(f"/api/compare/{name}/{RUN}").status == 404, name[:100]
        assert client.get(f"/api/compare/{RUN}/{name}").status == 404, name[:100]
        label = {"suite": "support", "eval_id": "x", "target": "assistant", "attempt": 1, "label": "pass", "note": ""}
        assert client.post(f"/api/run/{name}/labels", label).status == 404
    assert client.get(f"/api/run/{RUN.replace('-', '%2D')}").json["head"]["address"] == RUN


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/all.js/",
        "/static//all.js",
        "/static/main.js",
        "/static/DESIGN.md",
        "/static/server.py",
        "//",
        "/api",
    ],
)
def test_only_known_files_are_served(client: RawClient, path: str) -> None:
    assert client.get(path).status == 404


def test_malformed_requests_are_refused(client: RawClient) -> None:
    for raw in (
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n",
        client.head("GET", "/", " folded: x"),
        client.head("GET", "/", "Bad Name: x"),
        client.head("GET", "/", *[f"X-{n}: x" for n in range(200)]),
        client.head("GET", "/", "X: " + "x" * 20_000),
        client.head("GET", "/" + "x" * 9000),
        client.head("POST", "/api/runs", "Content-Length: 5", "Transfer-Encoding: chunked"),
        client.head("GET", "/", "Upgrade: websocket", "Connection: Upgrade"),
        client.head("GET", f"http://{client.host}/"),
        client.head("GET", "http://evil.example/"),
    ):
        with client.connected() as connection:
            connection.sendall(raw)
            assert read_reply(connection).status in {400, 404, 405}, raw[:60]


LABEL = {
    "suite": "support",
    "eval_id": "shipping-cost",
    "target": "assistant",
    "attempt": 1,
    "label": "fail",
    "note": "no",
}
LABELS = f"/api/run/{RUN}/labels"
WRONG: list[dict[str, object]] = [
    {"suite": 1},
    {"suite": None},
    {"eval_id": ["x"]},
    {"eval_id": "nope"},
    {"target": {}},
    {"attempt": "1"},
    {"attempt": 0},
    {"attempt": 1.5},
    {"attempt": True},
    {"attempt": 10**30},
    {"label": "good"},
    {"label": 1},
    {"label": ["pass"]},
    {"note": 5},
    {"note": "x" * 20_000},
]


def test_changing_something_needs_more_than_the_cookie(client: RawClient, served: Server) -> None:
    file = served.root / ".agentv" / "runs" / RUN / "labels.jsonl"
    before = file.read_bytes()
    assert client.post(LABELS, LABEL, cookie=None).status == 401
    assert client.post(LABELS, LABEL, x_agentv=None).status == 403
    assert client.post(LABELS, LABEL, x_agentv="true").status == 403
    assert client.post(LABELS, LABEL, host="localhost").status == 421
    assert client.post(LABELS, LABEL, "Origin: http://evil.example").status == 403
    assert client.post(LABELS, LABEL, "Sec-Fetch-Site: same-site").status == 403
    for kind in (
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonp",
    ):
        assert client.post(LABELS, LABEL, content_type=kind).status == 415, kind
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "null",
        "[]",
        '"x"',
        "1",
        "NaN",
        "{}",
        '{"suite": "support", "suite": "x"}',
        *({**LABEL, **change} for change in WRONG),
        {name: value for name, value in LABEL.items() if name != "label"},
        {name: value for name, value in LABEL.items() if name != "eval_id"},
        "[" * 30_000,
    ],
    ids=lambda body: str(body)[:80],
)
def test_labels_with_wrong_values_are_refused(client: RawClient, served: Server, body: object) -> None:
    file = served.root / ".agentv" / "runs" / RUN / "labels.jsonl"
    before = file.read_bytes()
    reply = client.post(LABELS, body)
    assert 400 <= reply.status < 500, reply
    assert reply.json["error"]
    assert file.read_bytes() == before


def test_large_bodies_are_refused(client: RawClient) -> None:
    assert client.post(LABELS, {**LABEL, "note": "x" * 100_000}).status == 413
    with client.connected() as connection:
        lines = ("X-Agentv: 1", "Content-Type: application/json", "Content-Length: 2000000")
        connection.sendall(client.head("POST", LABELS, *lines))
        assert read_reply(connection).status == 413


@pytest.mark.parametrize(
    "path", ["columns?start=-1", "columns?start=x", "columns?start=1e3", "rows/-1", "rows/x", "rows/1.0", "rows/%31%20"]
)
def test_rows_are_whole_numbers(client: RawClient, path: str) -> None:
    reply = client.get(f"/api/run/{RUN}/{path}")
    assert 400 <= reply.status < 500, reply


def test_rows_that_do_not_exist_are_reported(client: RawClient) -> None:
    for row in ("10000", "999999999", "9" * 400):
        reply = client.get(f"/api/run/{RUN}/rows/{row}")
        assert 400 <= reply.status < 500, reply
        assert reply.json["error"]


# -- the link that a browser is started with


def _request(target: str) -> Request:
    request = Request()
    request.method, request.target = b"GET", target.encode()
    request.headers = {b"host": b"127.0.0.1:8000"}
    return request


def _target(link: str) -> str:
    return link.partition("8000")[2].partition("#")[0]


def test_invitation_can_be_used_once() -> None:
    granted = Access()
    link = granted.invitation(b"127.0.0.1:8000", "#/")
    assert granted.token.decode() not in link
    other = _request(_target(link))
    other.method = b"HEAD"  # as some programs do before they open a link
    with pytest.raises(Refused):
        granted.check(other, b"127.0.0.1:8000")
    granted.check(_request(_target(link)), b"127.0.0.1:8000")
    with pytest.raises(Refused, match="Open the link"):
        granted.check(_request(_target(link)), b"127.0.0.1:8000")
    granted.check(_request(_target(granted.link(b"127.0.0.1:8000", "#/"))), b"127.0.0.1:8000")


def test_invitation_can_not_be_used_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "INVITATION_SECONDS", -1.0)
    granted = Access()
    with pytest.raises(Refused):
        granted.check(_request(_target(granted.invitation(b"127.0.0.1:8000", "#/"))), b"127.0.0.1:8000")


def test_two_servers_have_different_credentials() -> None:
    one, other = Access(), Access()
    assert one.token != other.token
    assert one.cookie(b"127.0.0.1:8000") != other.cookie(b"127.0.0.1:8000")
    assert one.cookie(b"127.0.0.1:8000").partition("=")[0] != one.cookie(b"127.0.0.1:8001").partition("=")[0]
