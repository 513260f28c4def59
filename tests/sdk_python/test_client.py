"""How the clients use connections, timeouts and retries."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from agentv_eval import (
    JudgeNotAvailableError,
    JudgeProxyError,
    create_async_judge_proxy_client,
    create_judge_proxy_client,
)
from tests.sdk_python.support import TOKEN, Answer, Seen, Server, ask, http_answer, reply, run_judge, vectors

KINDS = ("sync", "async")


def in_turn(*answers: Answer):
    """The first request gets the first answer, and so on."""
    left = list(answers)
    return lambda seen: left.pop(0)


def client_for(server: Server, timeout: float = 20):
    client = create_judge_proxy_client(timeout=timeout, environ=server.environ)
    assert client is not None
    return client


def async_client_for(server: Server, timeout: float = 20):
    client = create_async_judge_proxy_client(timeout=timeout, environ=server.environ)
    assert client is not None
    return client


def test_sequential_calls_share_one_connection():
    with Server(lambda seen: reply()) as server, client_for(server) as judge:
        for _ in range(5):
            judge.invoke(question="q")
    assert [seen.connection for seen in server.seen] == [1] * 5


async def test_sequential_awaited_calls_share_one_connection():
    with Server(lambda seen: reply()) as server:
        async with async_client_for(server) as judge:
            for _ in range(5):
                await judge.invoke(question="q")
        assert [seen.connection for seen in server.seen] == [1] * 5


def test_a_connection_closed_while_idle_is_replaced_and_each_call_is_sent_once():
    answers = in_turn(Answer(reply("a").data, "close"), reply("b"))
    with Server(answers) as server, client_for(server) as judge:
        assert judge.invoke(question="1").raw_text == "a"
        assert server.closed.acquire(timeout=30)
        assert judge.invoke(question="2").raw_text == "b"
    assert [(seen.connection, seen.body) for seen in server.seen] == [
        (1, b'{"question":"1"}'),
        (2, b'{"question":"2"}'),
    ]


def test_a_reused_connection_closed_without_a_byte_is_reopened_once():
    answers = in_turn(reply("a"), Answer(b"", "close"), reply("b"))
    with Server(answers) as server, client_for(server) as judge:
        judge.invoke(question="1")
        assert judge.invoke(question="2").raw_text == "b"
    assert [seen.connection for seen in server.seen] == [1, 1, 2]


def test_a_connection_is_not_reopened_twice():
    answers = in_turn(reply("a"), Answer(b"", "close"), Answer(b"", "close"))
    with Server(answers) as server, client_for(server) as judge:
        judge.invoke(question="1")
        with pytest.raises(JudgeProxyError, match="not retried") as caught:
            judge.invoke(question="2")
        assert caught.value.code == "connection_lost"
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Answer(b"HTTP/1.1 2", "close"), id="part of the status line"),
        pytest.param(Answer(b"HTTP/1.1 200 OK\r\nContent-", "close"), id="part of the headers"),
        pytest.param(Answer(http_answer(200, "{", {"Content-Length": "50"}), "close"), id="part of the body"),
        pytest.param(Answer(b"", "reset"), id="a reset"),
    ],
)
def test_a_call_that_may_have_been_processed_is_not_resent(broken):
    with Server(in_turn(reply("a"), broken)) as server, client_for(server) as judge:
        judge.invoke(question="1")
        with pytest.raises(JudgeProxyError):
            judge.invoke(question="2")
    assert len(server.seen) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_call_on_a_new_connection_is_not_resent(kind, then):
    with Server(lambda seen: Answer(b"", then)) as server:
        with pytest.raises(JudgeProxyError) as caught:
            ask(kind, server.environ, "invoke", {"question": "q"})
        assert caught.value.code == "connection_lost"
    assert len(server.seen) == 1


def test_a_connection_is_reused_after_an_error_response():
    refused = Answer(http_answer(429, {"error": "enough", "code": "max_calls_exceeded"}))
    with Server(in_turn(refused, reply("b"))) as server, client_for(server) as judge:
        with pytest.raises(JudgeProxyError):
            judge.invoke(question="1")
        assert judge.invoke(question="2").raw_text == "b"
    assert [seen.connection for seen in server.seen] == [1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_connection_raises_judge_not_available_error(kind):
    with socket.socket() as taken:  # the port is reserved, but nothing listens on it
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        environ = {"AGENTV_JUDGE_PROXY_URL": url, "AGENTV_JUDGE_PROXY_TOKEN": TOKEN}
        with pytest.raises(JudgeNotAvailableError, match="refused") as caught:
            ask(kind, environ, "invoke", {"question": "q"})
    assert (caught.value.status, caught.value.code) == (None, "unreachable")


@contextmanager
def raw_server(serve) -> Iterator[dict[str, str]]:
    """A server that runs `serve(connection, stop)` with its one connection."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                serve(connection, stop)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield {"AGENTV_JUDGE_PROXY_URL": url, "AGENTV_JUDGE_PROXY_TOKEN": TOKEN}
        stop.set()
        thread.join(10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_server_cannot_extend_the_timeout(kind):
    def drip(connection: socket.socket, stop: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not stop.wait(0.01):
            try:
                connection.sendall(b"X-Slow: 1\r\n")
            except OSError:
                return

    started = time.monotonic()
    with raw_server(drip) as environ, pytest.raises(JudgeProxyError) as caught:
        ask(kind, environ, "invoke", {"question": "q"}, timeout=0.3)
    assert caught.value.code in ("client_timeout", "invalid_reply")
    assert time.monotonic() - started < 30


def test_a_slow_body_is_cut_off_at_the_timeout():
    def drip(connection: socket.socket, stop: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not stop.wait(0.01):
            try:
                connection.sendall(b" ")
            except OSError:
                return

    with raw_server(drip) as environ, pytest.raises(JudgeProxyError, match="timeout=") as caught:
        ask("sync", environ, "invoke", {"question": "q"}, timeout=0.3)
    assert caught.value.code == "client_timeout"


class WaitingServer(Server):
    """Responds to a call after the `/info` requests of a vector; further calls are answered immediately."""

    def __init__(self, vector: dict[str, Any]) -> None:
        super().__init__(self._respond)
        self._vector = vector
        self.infos = 0
        self._replying = threading.Event()

    def _respond(self, seen: Seen) -> Answer:
        if seen.path != "/info":
            return reply() if self._replying.wait(20) else Answer(then="close")
        info = self._vector["infos"][self.infos]
        self.infos += 1
        if self.infos == self._vector.get("replyAfter"):
            self._replying.set()
        body = {"targetName": "strict", "maxCalls": 5, "callCount": 1, "availableTargets": [], **info}
        return Answer(http_answer(body.pop("status", 200), body))

    def __exit__(self, *error: object) -> None:
        self._replying.set()
        super().__exit__(*error)


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["name"]) for vector in vectors("waiting.json")])
@pytest.mark.parametrize("kind", KINDS)
def test_waiting_for_a_slot_of_the_judge_does_not_count(kind, vector):
    with WaitingServer(vector) as server:
        if "replyAfter" in vector:
            assert ask(kind, server.environ, "invoke", {"question": "q"}, timeout=0.15).raw_text == "yes"
        else:
            with pytest.raises(JudgeProxyError, match=r"within 0.15 s") as caught:
                ask(kind, server.environ, "invoke", {"question": "q"}, timeout=0.15)
            assert caught.value.code == "client_timeout"
        assert server.infos == len(vector["infos"])


def test_a_connection_is_used_again_after_a_call_that_waited():
    with WaitingServer(vectors("waiting.json")[0]) as server:
        with client_for(server, timeout=0.15) as judge:
            judge.invoke(question="1")
            judge.invoke(question="2")
        assert [(seen.path, seen.connection) for seen in server.seen if seen.path == "/invoke"] == [("/invoke", 1)] * 2


def test_an_unsolicited_response_is_not_taken_for_the_next_one():
    asked, sent = threading.Event(), threading.Event()

    def serve(listener: socket.socket) -> None:
        first, _ = listener.accept()
        with first:
            first.recv(65536)
            first.sendall(reply("a").data)
            asked.wait(30)
            first.sendall(reply("forged").data)
            sent.set()
            second, _ = listener.accept()
            with second:
                second.recv(65536)
                second.sendall(reply("b").data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        environ = {"AGENTV_JUDGE_PROXY_URL": url, "AGENTV_JUDGE_PROXY_TOKEN": TOKEN}
        judge = create_judge_proxy_client(timeout=30, environ=environ)
        assert judge is not None
        with judge:
            assert judge.invoke(question="1").raw_text == "a"
            asked.set()
            assert sent.wait(30)
            assert judge.invoke(question="2").raw_text == "b"
        thread.join(10)


def test_an_early_refusal_is_reported_to_the_caller():
    def refuse_early(connection: socket.socket, stop: threading.Event) -> None:
        connection.recv(100)
        connection.sendall(http_answer(413, {"error": "at most 8 MiB", "code": "payload_too_large"}))
        stop.wait(0.2)

    with raw_server(refuse_early) as environ, pytest.raises(JudgeProxyError, match="8 MiB") as caught:
        ask("sync", environ, "invoke", {"question": "x" * 20_000_000})
    assert (caught.value.status, caught.value.code) == (413, "payload_too_large")


def test_threads_sharing_a_client_get_their_own_replies():
    together = threading.Barrier(8, timeout=20)

    def answer(seen: Seen) -> Answer:
        together.wait()
        return reply(seen.body.decode())

    with Server(answer) as server, client_for(server) as judge, ThreadPoolExecutor(8) as threads:
        for _ in range(5):
            texts = list(threads.map(lambda n: judge.invoke(question=f"{n}").raw_text, range(8)))
            assert texts == [f'{{"question":"{n}"}}' for n in range(8)]
    assert server.connections == 8


async def test_coroutines_sharing_a_client_run_concurrently():
    together = threading.Barrier(30, timeout=20)

    def answer(seen: Seen) -> Answer:
        together.wait()
        return reply(seen.body.decode())

    with Server(answer) as server:
        async with async_client_for(server) as judge:
            for _ in range(2):
                replies = await asyncio.gather(*(judge.invoke(question=f"{n}") for n in range(30)))
                assert [item.raw_text for item in replies] == [f'{{"question":"{n}"}}' for n in range(30)]
        assert server.connections == 30


async def test_cancelling_a_call_closes_its_connection_immediately():
    asked = threading.Event()

    def answer(seen: Seen) -> Answer:
        asked.set()
        return Answer(then="silence")

    with Server(answer) as server:
        async with async_client_for(server) as judge:
            call = asyncio.create_task(judge.invoke(question="q"))
            assert await asyncio.to_thread(asked.wait, 30)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await asyncio.to_thread(server.closed.acquire, timeout=30)
    assert len(server.seen) == 1


def test_a_closed_client_rejects_calls_and_closes_its_connections():
    with Server(lambda seen: reply()) as server:
        judge = client_for(server)
        with judge:
            judge.invoke(question="q")
        assert server.closed.acquire(timeout=30)
        with pytest.raises(JudgeNotAvailableError, match="closed") as caught:
            judge.get_info()
        assert caught.value.code == "closed"
        judge.close()
    assert len(server.seen) == 1


def test_repr_does_not_contain_the_token():
    with Server(lambda seen: reply()) as server, client_for(server) as judge:
        judge.invoke(question="q")
        assert str(server.port) in repr(judge)
        assert TOKEN not in repr(judge) + repr(vars(judge)) + repr(async_client_for(server))


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5", None])
def test_a_timeout_must_be_a_number_of_seconds(timeout):
    environ = {"AGENTV_JUDGE_PROXY_URL": "http://127.0.0.1:1", "AGENTV_JUDGE_PROXY_TOKEN": "t"}
    with pytest.raises(ValueError, match="seconds"):
        create_judge_proxy_client(timeout=timeout, environ=environ)


@pytest.mark.parametrize(
    "question",
    [
        pytest.param({"question": "half a pair: \ud83d"}, id="unpaired surrogate"),
        pytest.param({"question": b"bytes"}, id="bytes"),
        pytest.param({"question": "q", "attempt": float("nan")}, id="NaN"),
    ],
)
def test_arguments_that_are_not_json_are_rejected_before_sending(question):
    with Server(lambda seen: reply()) as server, client_for(server) as judge:
        with pytest.raises(JudgeProxyError, match="Nothing was sent") as caught:
            judge.invoke(**question)
        assert caught.value.code == "invalid_request"
    assert server.seen == []


def test_the_python_name_is_suggested_for_the_http_name():
    with Server(lambda seen: reply()) as server, client_for(server) as judge:
        misspelled = [{"question": "q", "systemPrompt": "s"}]
        with pytest.raises(JudgeProxyError, match="did you mean 'system_prompt'"):
            judge.invoke_batch(misspelled)
        assert server.seen == []


def test_proxy_environment_variables_are_ignored():
    script = """
from agentv_eval import create_judge_proxy_client
print(create_judge_proxy_client().invoke(question="q").raw_text)
"""
    with Server(lambda seen: reply("direct")) as server, Server(lambda seen: reply("proxied")) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
        environ = {**dict.fromkeys(names, url), "no_proxy": "", "NO_PROXY": "", **server.environ}
        done = run_judge(script, environ=environ)
    assert done.stdout == "direct\n", done.stderr
    assert proxy.seen == []


def test_a_forked_child_opens_its_own_connection():
    script = """
import os
from agentv_eval import create_judge_proxy_client
judge = create_judge_proxy_client()
judge.invoke(question="parent")
child = os.fork()
if child == 0:
    judge.invoke(question="child")
    os._exit(0)
os.waitpid(child, 0)
judge.invoke(question="parent")
"""
    with Server(lambda seen: reply()) as server:
        done = run_judge(script, environ=server.environ)
    assert done.code == 0, done.stderr
    assert [(seen.connection, seen.body) for seen in server.seen] == [
        (1, b'{"question":"parent"}'),
        (2, b'{"question":"child"}'),
        (1, b'{"question":"parent"}'),
    ]
