"""The `http` provider against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from agentv.errors import ConfigError, ProviderError
from agentv.http.app import App, Response, Route
from agentv.http.messages import Headers, Request
from agentv.http.server import Server
from agentv.messages import Message, TokenUsage
from agentv.redact import Redactor
from agentv.targets.config import load_config
from agentv.targets.environment import Environment
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Reply
from agentv.testing.model_server import ReceivedRequest
from tests.conftest import Project
from tests.targets.support import ask, make

KEY = "sk-test-0123456789abcdef"
Scripted = Response | Callable[[ReceivedRequest], Response]


class AnyServer(App):
    """Answers every request with `reply`, and keeps what it got."""

    def __init__(self, reply: Scripted) -> None:
        super().__init__()
        self.reply = reply
        self.requests: list[tuple[str, ReceivedRequest]] = []
        self._server = Server(self, port=0)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    @property
    def url(self) -> str:
        return self._server.url

    async def _any(self, request: Request) -> Response:
        sent = ReceivedRequest(request.target.decode(), Headers(request.headers), bytes(request.body))
        self.requests.append((request.method.decode(), sent))
        return self.reply(sent) if callable(self.reply) else self.reply

    routes = (Route("GET", "*", _any), Route("POST", "*", _any), Route("PUT", "*", _any))


def as_json(value: Any, status: int = 200) -> Response:
    return Response(status, json.dumps(value).encode())


def text(body: str, kind: str = "text/plain") -> Response:
    return Response(200, body.encode(), kind)


@asynccontextmanager
async def target(server: AnyServer, **settings: Any) -> AsyncIterator[Any]:
    settings = {"url": f"{server.url}/chat", "body": {"q": "{{ prompt }}"}, **settings}
    provider = make(Path(), "http", scope={"redactor": Redactor([KEY])}, **settings)
    try:
        yield provider
    finally:
        await provider.aclose()


async def answered(reply: Scripted, request: Any = None, **settings: Any) -> tuple[Reply, ReceivedRequest]:
    async with AnyServer(reply) as server, target(server, **settings) as provider:
        got: Reply = await provider.invoke(request or ask("capital?"))
        return got, server.requests[-1][1]


async def failed(reply: Scripted, request: Any = None, **settings: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answered(reply, request, **settings)
    return caught.value


# -- the request


async def test_structure_is_sent_as_json_and_single_variables_keep_their_type() -> None:
    body = {
        "messages": "{{ messages }}",
        "id": "{{ eval_id }}/{{ attempt }}",
        "attempt": "{{ attempt }}",
        "tags": ["{{ topic }}", 1, None, True],
        "note": "tags: {{ vars.tags }}",
    }
    request = ask("capital?", system_prompt="Be brief.", eval_id="a", attempt=2, vars={"topic": "geo", "tags": ["x"]})
    reply, sent = await answered(as_json({"answer": "Paris"}), request, body=body)
    assert reply.text == "Paris"
    assert json.loads(sent.body) == {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "capital?"}],
        "id": "a/2",
        "attempt": 2,
        "tags": ["geo", 1, None, True],
        "note": 'tags: ["x"]',
    }
    assert sent.headers["Content-Type"] == "application/json"


async def test_text_is_sent_as_it_is_rendered() -> None:
    _, sent = await answered(text("ok"), ask('say "hi"'), body='{"q": {{ prompt | tojson }}}')
    assert json.loads(sent.body) == {"q": 'say "hi"'}
    assert sent.headers["Content-Type"] == "application/json"
    _, sent = await answered(text("ok"), ask('say "hi"'), body="Q: {{ prompt }}\n")
    assert (sent.body, sent.headers["Content-Type"]) == (b'Q: say "hi"\n', "text/plain; charset=utf-8")


async def test_variables_in_the_url_are_percent_encoded() -> None:
    async with AnyServer(text("ok")) as server:
        url = f"{server.url}/docs/{{{{ vars.id }}}}?q={{{{ prompt }}}}&n=1"
        async with target(server, url=url, method="GET", body=None) as provider:
            await provider.invoke(ask("a&b=c/ü #?", vars={"id": "x/../y"}))
            for dots in (".", ".."):
                with pytest.raises(ProviderError, match="must not be"):
                    await provider.invoke(ask("q", vars={"id": dots}))
    assert [(method, sent.path) for method, sent in server.requests] == [
        ("GET", "/docs/x%2F..%2Fy?q=a%26b%3Dc%2F%C3%BC%20%23%3F&n=1")
    ]


async def test_variable_with_a_line_break_is_refused_in_a_header() -> None:
    headers = {"X-Q": "{{ prompt }}"}
    _, sent = await answered(text("ok"), ask("one line"), headers=headers)
    assert sent.headers["X-Q"] == "one line"
    error = await failed(text("ok"), ask("a\r\nX-Other: b"), headers=headers)
    assert "the value of the header `X-Q` must be one line" in error.message


async def test_form_is_encoded() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    _, sent = await answered(text("ok"), ask("a&b"), headers=headers, body={"q": "{{ prompt }}", "n": 1})
    assert sent.body == b"q=a%26b&n=1"


async def test_values_are_not_interpreted_as_templates() -> None:
    _, sent = await answered(text("ok"), ask("{{ system_prompt }}{% if %}"))
    assert json.loads(sent.body) == {"q": "{{ system_prompt }}{% if %}"}


async def test_prompt_contains_what_has_no_variable_of_its_own() -> None:
    turns = [Message("system", "Brief."), Message("user", "a?"), Message("assistant", "A."), Message("user", "b?")]
    conversation = ask(messages=turns)
    _, sent = await answered(text("ok"), conversation)
    assert json.loads(sent.body)["q"] == "Brief.\n\n@[User]:\na?\n\n@[Assistant]:\nA.\n\n@[User]:\nb?"
    body = {"q": "{{ prompt }}", "history": "{{ messages[:-1] }}"}
    _, sent = await answered(text("ok"), conversation, body=body)
    assert json.loads(sent.body)["q"] == "b?"
    assert [message["content"] for message in json.loads(sent.body)["history"]] == ["Brief.", "a?", "A."]


async def test_undefined_variable_is_an_error_with_a_suggestion() -> None:
    error = await failed(text("ok"), ask("q", vars={"topic": "x"}), body="a\n{{ topik }} {{ prompt }}")
    assert error.message == (
        "target 't': `body` cannot be filled in in line 2: unknown variable `topik` (did you mean `topic`?)"
    )
    assert error.next_step == "Define the variable in `vars` of the case."


@pytest.mark.parametrize(
    ("body", "shared"), [("{{ prompt }}", True), ("{{ prompt }}{{ eval_id }}", False), ("{{ topic }}", False)]
)
def test_reply_is_shared_between_cases_only_if_the_prompt_alone_decides(body: str, shared: bool) -> None:
    assert make(Path(), "http", url="http://127.0.0.1:1/", body=body).answers_by_prompt is shared


# -- the reply


@pytest.mark.parametrize(
    ("reply", "settings", "expected"),
    [
        (as_json({"data": [{"text": "Paris"}]}), {"response": "data[0].text"}, "Paris"),
        (as_json({"data": ["a", 1]}), {"response": "data"}, '["a", 1]'),
        (as_json({"n": 0}), {"response": "n"}, "0"),
        (as_json("Paris"), {}, "Paris"),
        (as_json({"id": 1, "answer": "Paris"}), {}, "Paris"),
        (as_json({"choices": [{"message": {"content": "Paris"}}]}), {}, "Paris"),
        (as_json({"other": 1}), {}, '{"other": 1}'),
        (text("<p>Paris</p>", "text/html"), {}, "<p>Paris</p>"),
        (Response(204), {}, ""),
    ],
)
async def test_answer_is_found(reply: Response, settings: dict[str, Any], expected: str) -> None:
    got, _ = await answered(reply, **settings)
    assert got.text == expected


async def test_usage_and_messages_are_read() -> None:
    message = {"role": "assistant", "content": "Paris", "tool_calls": [{"tool": "search", "input": {"q": 1}}]}
    reply = as_json({"out": [message], "usage": {"in": 7, "parts": [1, 2]}, "cost": 0.5})
    usage = {"input": "usage.in", "output": "sum(usage.parts)", "cost_usd": "cost"}
    got, _ = await answered(reply, output_messages="out", usage=usage)
    assert (got.text, got.output_messages[0].tool_calls[0].tool) == ("Paris", "search")
    assert (got.token_usage, got.cost_usd, got.warnings) == (TokenUsage(7, 3), 0.5, ())
    got, _ = await answered(as_json({"answer": "x", "n": "many"}), usage={"input": "n"})
    assert got.token_usage is None
    assert got.warnings == ("`usage.input` must be a whole number, got a string",)


async def test_missing_answer_shows_the_reply_and_its_keys_without_secrets() -> None:
    error = await failed(as_json({"result": {"x": 1}, "debug": f"key {KEY}"}), response="data.text")
    assert error.message == (
        "target 't': the reply has no value at `response` (`data.text`); its keys are `result`, `debug`. "
        """The reply begins: '{"result": {"x": 1}, "debug": "key [redacted]"}'"""
    )
    assert error.next_step == "Check `response` of the target."


async def test_empty_reply_is_named_as_such() -> None:
    error = await failed(text(" ", "application/json"), response="a")
    assert error.message == "target 't': the reply is empty"
    assert error.next_step == "Check `url` and `method` of the target."


async def test_reply_that_is_not_json_is_reported_if_an_expression_needs_json() -> None:
    error = await failed(text("<html>", "text/html"), response="a")
    assert "the reply is not JSON (text/html), which `response` needs. It begins: '<html>'" in error.message


async def test_large_reply_is_read_in_a_worker() -> None:
    many = {"items": [{"n": n, "text": "x" * 20} for n in range(20_000)]}
    got, _ = await answered(as_json(many), response="items[-1].n")
    assert got.text == "19999"
    error = await failed(as_json({"items": [[1]] * 150_000}), response="items")
    assert "it contains more than 200,000 values" in error.message
    error = await failed(as_json(many), response="other")
    assert "its keys are `items`" in error.message


@pytest.mark.parametrize(("status", "retryable"), [(500, True), (429, True), (400, False)])
async def test_status_is_reported_and_retried_as_for_other_targets(status: int, retryable: bool) -> None:
    error = await failed(as_json({"error": "no"}, status))
    assert (error.status, error.retryable) == (status, retryable)
    assert f"returned HTTP {status}: no" in error.message


async def test_gate_retries_a_failed_call() -> None:
    replies = [as_json({}, 503), as_json({"answer": "Paris"})]
    async with AnyServer(lambda _: replies.pop(0)) as server, target(server, retry_initial_delay_ms=0) as provider:
        gate = TargetGate(provider, provider._settings, name="t")
        assert (await gate.invoke(ask())).text == "Paris"


async def test_unreachable_server_is_reported_with_the_setting() -> None:
    provider = make(Path(), "http", url="http://127.0.0.1:1/x?key=abc", body="{{ prompt }}")
    with pytest.raises(ProviderError, match=r"could not connect to http://127.0.0.1:1/x: Connection refused") as caught:
        await provider.invoke(ask())
    assert caught.value.next_step == "Check that the server is running and that `url` is correct."


# -- server-sent events


def events(*data: Any) -> Response:
    lines = [f"data: {item if isinstance(item, str) else json.dumps(item)}\n\n" for item in data]
    return text("".join([": hello\n\nevent: ping\n\n", *lines]), "text/event-stream; charset=utf-8")


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        (events({"t": "Pa"}, {"other": 1}, {"t": "ris"}, "[DONE]", {"t": "!"}), {"response": "t"}),
        (events({"t": "Paris"}), {"response": "t", "stream": False}),
        (events(*({"choices": [{"delta": {"content": part}}]} for part in ("Pa", "ris")), "[DONE]"), {}),
        (events({"delta": {"text": "Pa"}}, {"delta": {"text": "ris"}}), {}),
        (events("Pa", "ris"), {}),
        (text('data: {"t": "Pa"}\r\n\r\ndata: {"t":\r\ndata: "ris"}'), {"response": "t", "stream": True}),
    ],
)
async def test_events_are_joined(reply: Response, settings: dict[str, Any]) -> None:
    if settings.get("stream") is False:
        assert "not JSON" in (await failed(reply, **settings)).message
        return
    got, sent = await answered(reply, **settings)
    assert got.text == "Paris"
    assert (sent.headers["Accept"] == "text/event-stream") is bool(settings.get("stream"))


async def test_usage_is_read_from_the_last_event_that_has_it() -> None:
    reply = events({"t": "a", "u": 1}, {"u": 2}, {"t": "b"})
    got, _ = await answered(reply, response="t", usage={"output": "u"})
    assert (got.text, got.token_usage) == ("ab", TokenUsage(0, 2))


async def test_stream_without_an_answer_is_an_error() -> None:
    error = await failed(events({"a": 1}, {"b": 1}), response="t")
    assert "none of its 2 events has a value at `t`; of the last event, its keys are `b`" in error.message
    error = await failed(text('event: error\ndata: {"message": "overloaded"}\n\n', "text/event-stream"))
    assert "the stream contains an `error` event" in error.message
    assert "overloaded" in error.message
    assert "`response`" not in error.message  # the server failed, not the expression


@pytest.mark.parametrize("charset", ["ISO-8859-1", '"utf-16"'])
async def test_reply_is_decoded_with_the_charset_of_its_content_type(charset: str) -> None:
    body = '{"t": "café"}'.encode(charset.strip('"'))
    got, _ = await answered(Response(200, body, f"application/json; charset={charset}"), response="t")
    assert got.text == "café"


# -- the configuration


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("url: localhost/x\n    body: '{{ prompt }}'", "3:10: `url` must be a URL like https://host/path"),
        ("url: 'http://{{ host }}/'\n    body: '{{ prompt }}'", "3:10: `url` must be a URL like https://host/path"),
        ("url: http://h/\n    body: '{{ prompt'", "4:11: `body`: unexpected end of template"),
        (
            "url: http://h/\n    body: {a: [x, '{{ promt }}']}",
            "`body`: unknown variable `promt` (did you mean `prompt`?)",
        ),
        ("url: http://h/\n    body: {a: [x, '{{ p | nofilter }}']}", "`body`: `a[1]`: no filter named 'nofilter'"),
        (
            "url: http://h/\n    body: '{{ prompt }}'\n    response: 'a[?'",
            "5:15: `response`: not a valid JMESPath expression",
        ),
        ("url: http://h/\n    body: '{{ prompt }}'\n    usage: {input: 'a..'}", "not a valid JMESPath expression"),
        ("url: http://h/\n    body: {q: x}", "the request does not contain the question"),
        ("url: 'http://h/{{ eval_id }}'", "the request does not contain the question"),
        ("url: 'http://h/{{ prompt }}'\n    method: GET\n    body: x", "a GET request has no `body`"),
        ("url: 'http://h/{{ prompt }}'\n    headers: {'a b': c}", "is not a valid header name"),
        ("url: 'http://h/{{ prompt }}'\n    respons: c", "(did you mean `response`?)"),
    ],
)
def test_invalid_setting_is_reported_with_its_place(tmp_path: Path, settings: str, expected: str) -> None:
    path = tmp_path / "agentv.config.yaml"
    path.write_text(f"targets:\n  api:\n    {settings}\n    provider: http\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, Environment({}))
    assert expected in str(caught.value)


async def test_environment_variable_is_not_interpreted_as_a_template(tmp_path: Path) -> None:
    path = tmp_path / "agentv.config.yaml"
    path.write_text(
        "targets:\n  api:\n    provider: http\n    url: http://127.0.0.1:1/\n"
        "    headers: {Authorization: 'Bearer ${{ MY_KEY }}'}\n    body: {a: '${{ ODD }}', q: '{{ prompt }}'}\n"
    )
    values = {"MY_KEY": "{{ 1 }}secret{% x %}", "ODD": "{{ prompt }}"}
    spec = load_config(path, Environment(values)).targets["api"]
    assert spec.reading.secret_values == {values["MY_KEY"]}
    assert spec.reading.settings is not None
    provider = make(Path(), "http", **spec.reading.settings.model_dump(exclude={"provider"}))
    filled = provider._values(ask("Q"))
    assert await provider._rendered_headers(filled) == {"Authorization": "Bearer {{ 1 }}secret{% x %}"}
    assert json.loads(await provider._rendered_body(filled)) == {"a": "{{ prompt }}", "q": "Q"}


async def test_run_with_an_http_target(project: Project) -> None:
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: Paris}]}]\n")
    async with AnyServer(as_json({"answer": f"Paris {KEY}"})) as server:
        project.write(
            "agentv.config.yaml",
            f"""
            targets:
              api:
                provider: http
                url: {server.url}/chat?key=${{{{ MY_KEY }}}}
                body: {{q: "{{{{ prompt }}}}"}}
            """,
        )
        done = await asyncio.to_thread(project.run, "eval", "suite.yaml", env={"MY_KEY": KEY})
    assert done.returncode == 0, done.stderr
    assert project.rows()[0]["candidate_answer"] == "Paris [redacted]"
    assert KEY not in (project.run_dirs()[-1] / "run.json").read_text()
    assert server.requests[0][1].path == f"/chat?key={KEY}"


async def test_chunks_of_a_stream_that_look_like_json_are_text() -> None:
    stream = "data: The answer is \n\ndata: 42\n\ndata: [DONE]\n\n"
    reply, _ = await answered(text(stream, "text/event-stream"))
    assert reply.text == "The answer is 42"


@pytest.mark.parametrize(
    "reply",
    [
        as_json({"error": {"message": "overloaded"}, "message": "Sorry"}),
        text(
            'data: {"choices": [{"delta": {"content": "Par"}}]}\n\ndata: {"error": {"message": "overloaded"}}\n\n',
            "text/event-stream",
        ),
    ],
)
async def test_error_in_a_successful_reply_is_not_an_answer(reply: Response) -> None:
    assert "overloaded" in str(await failed(reply))


async def test_body_that_is_not_json_is_an_error_with_advice() -> None:
    error = await failed(text("ok"), body={"q": "{{ messages and range }}"})
    assert "`body` is not a JSON value" in str(error)
    assert "| list" in str(error)


def test_literal_keys_are_masked_in_rows_and_run_json(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          api:
            provider: http
            url: http://127.0.0.1:9/
            headers: {Authorization: Bearer sk-lit-1234567890abcdef}
            body: {q: "{{ prompt }}", api_key: sk-body-1234567890abcdef}
            max_retries: 0
          echo: {provider: cli, command: [echo, sk-lit-1234567890abcdef]}
        """,
    )
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]\n")
    project.run("eval", "suite.yaml", "--target", "echo", "--run-dir", "run")
    written = "".join(path.read_text() for path in (project.root / "run").iterdir() if path.is_file())
    assert "[redacted]" in written
    assert "sk-body-1234567890abcdef" not in written
    assert "sk-lit-1234567890abcdef" not in (project.root / "run" / "results.jsonl").read_text()
