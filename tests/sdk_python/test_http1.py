"""HTTP framing: valid responses are read, broken ones are reported."""

from __future__ import annotations

import json

import pytest

from agentv_eval import JudgeProxyError, create_judge_proxy_client
from tests.sdk_python.support import Answer, Server, http_answer, reply

BODY = json.dumps({"outputMessages": [{"role": "assistant", "content": "yes"}], "rawText": "yes"}).encode()
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = reply("yes").data


def in_chunks(*sizes: int) -> bytes:
    data, rest = b"", BODY
    for size in sizes:
        data += b"%x\r\n%s\r\n" % (len(rest[:size]), rest[:size])
        rest = rest[size:]
    return data + b"%X;last=1\r\n%s\r\n" % (len(rest), rest)


def asked(answer: Answer, *, calls: int = 1) -> tuple[str, Server]:
    answers = [answer, *[reply("second")] * (calls - 1)]
    with Server(lambda _: answers.pop(0)) as server:
        client = create_judge_proxy_client(environ=server.environ, timeout=20)
        assert client is not None
        with client:
            texts = [client.invoke(question="q").raw_text for _ in range(calls)]
    return texts[0], server


@pytest.mark.parametrize(
    ("data", "then"),
    [
        (CHUNKED + in_chunks() + b"0\r\n\r\n", "keep"),
        (CHUNKED + in_chunks(1, 2, 3) + b"0\r\nTrailer: t\r\n\r\n", "keep"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + WHOLE, "keep"),
        (b"HTTP/1.1 200\r\ncontent-LENGTH:%d\r\n\r\n%s" % (len(BODY), BODY), "keep"),
        (b"HTTP/1.1 200 OK\nContent-Length: %d\n\n%s" % (len(BODY), BODY), "keep"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, "close"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + BODY, "close"),
    ],
)
def test_every_valid_framing_is_read(data: bytes, then: str) -> None:
    assert asked(Answer(data, then))[0] == "yes"


@pytest.mark.parametrize(
    "data",
    [
        http_answer(200, BODY.decode(), {"Connection": "close"}),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n") + in_chunks() + b"0\r\n\r\n",
        WHOLE + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_a_connection_in_an_unclear_state_is_not_reused(data: bytes) -> None:
    text, server = asked(Answer(data), calls=2)
    assert text == "yes"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n", "invalid_reply"),
        (b"HTTP/1.1 2xx OK\r\n\r\n", "invalid_reply"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "invalid_reply"),
        (b"HTTP/2 200 OK\r\n\r\n", "invalid_reply"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "invalid_reply"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "invalid_reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}}", "invalid_reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}", "invalid_reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{}", "invalid_reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}", "invalid_reply"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "invalid_reply"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000, "invalid_reply"),
        (CHUNKED + b"0x5\r\n", "invalid_reply"),
        (CHUNKED + b"+5\r\n", "invalid_reply"),
        (CHUNKED + b"ffffffff\r\n", "invalid_reply"),
        (CHUNKED + b"2\r\n{}}\r\n", "invalid_reply"),
        (CHUNKED + b"5\r\n{", "connection_lost"),
        (b"HTTP/1.1 200 O", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", "connection_lost"),
    ],
)
def test_an_invalid_response_is_an_error_and_is_not_retried(data: bytes, code: str) -> None:
    with Server(lambda _: Answer(data, "close")) as server:
        client = create_judge_proxy_client(environ=server.environ, timeout=20)
        assert client is not None
        with client, pytest.raises(JudgeProxyError) as caught:
            client.invoke(question="q")
    assert caught.value.code == code
    assert len(server.seen) == 1
