"""The `http` provider: sends each request to any HTTP API, as the templates of the target say."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from agentv import workers
from agentv.errors import ProviderError
from agentv.json_sizes import MOST_VALUES, TooManyValuesError, is_quick
from agentv.targets.provider import Provider, Reply, Request, TargetScope, TargetSettings
from agentv.targets.providers.exchange import SHOWN, Exchange, beginning, merged_headers
from agentv.targets.providers.http_reply import (
    AnswerNotFoundError,
    ErrorReplyError,
    Expressions,
    Findings,
    as_utf8,
    read_in_worker,
    read_reply,
)
from agentv.targets.providers.http_settings import HttpSettings, url_template
from agentv.targets.providers.large_json import PARSE_SECONDS, LoneSurrogateError
from agentv.targets.providers.request_variables import request_variables
from agentv.targets.structured import ShapeError, parse_amount, parse_messages, parse_usage
from agentv.templates import TemplateError, compile_template

Values = Mapping[str, Any]
Render = Callable[[Values], Awaitable[Any]]
_LINE_BREAK = re.compile(r"[\r\n\0]")
_FORM = "application/x-www-form-urlencoded"
_LOOKS_LIKE_JSON = re.compile(r"\s*(?:\[|\{(?![{%#]))")


class HttpProvider(Provider):
    """An HTTP API as a target."""

    Settings: ClassVar[type[TargetSettings]] = HttpSettings
    answers_by_prompt = True

    def __init__(self, settings: HttpSettings, scope: TargetScope) -> None:
        self._settings, self._scope = settings, scope
        self._names = settings.names()
        # An answer that depends on the case must not be shared with another case.
        self.answers_by_prompt = self._names <= {"prompt", "system_prompt", "messages"}
        self._url = url_template(settings.url)
        self._headers = {name: compile_template(text) for name, text in settings.headers.items()}
        body = settings.body
        self._body: Render = compile_template(body).rendered if isinstance(body, str) else _renderer(body)
        self._own_headers = self._defaults()
        usage = {} if settings.usage is None else settings.usage.model_dump(exclude_none=True)
        self._expressions = Expressions(settings.response, settings.output_messages, usage)
        self._exchange = Exchange(
            scope,
            settings.url,
            secrets=[text for text in settings.headers.values() if "{" not in text],
            key_from="`headers`",
            model=None,
            url_from="`url`",
        )

    async def price_gap(self) -> str | None:
        usage = self._settings.usage
        return None if usage is not None and usage.cost_usd else "their cost is unknown; set `usage.cost_usd`"

    async def aclose(self) -> None:
        await self._exchange.aclose()

    async def invoke(self, request: Request) -> Reply:
        values = self._values(request)
        url = await self._rendered("url", self._url.rendered, values)
        headers = merged_headers(self._own_headers, await self._rendered_headers(values))
        body = await self._rendered_body(values)
        status, received, data = await self._exchange.post(url, headers, body, method=self._settings.method)
        if not 200 <= status < 300:
            raise self._exchange.refused(url, status, received, data)
        kind = received.get("Content-Type", "")
        data = as_utf8(data, kind)
        stream = self._settings.stream
        found = await self._read(data, kind, stream="text/event-stream" in kind.lower() if stream is None else stream)
        return self._reply(found)

    # -- the request

    def _values(self, request: Request) -> Values:
        return {**request.vars, **request_variables(request, self._names)}

    async def _rendered(self, setting: str, render: Render, values: Values) -> Any:
        try:
            return await render(values)
        except TemplateError as error:
            line = f" in line {error.line}" if error.line > 1 else ""
            raise self._failed(
                f"`{setting}` cannot be filled in{line}: {error.message}",
                next_step="Define the variable in `vars` of the case." if error.name else None,
            ) from None

    async def _rendered_headers(self, values: Values) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, template in self._headers.items():
            text = await self._rendered(f"headers.{name}", template.rendered, values)
            if _LINE_BREAK.search(text):
                raise self._failed(
                    f"the value of the header `{name}` must be one line, got a line break in a variable",
                    next_step="Send text with several lines in `body`.",
                )
            headers[name] = text
        return headers

    async def _rendered_body(self, values: Values) -> bytes:
        try:
            return self._encoded_body(await self._rendered("body", self._body, values))
        except (TypeError, ValueError) as error:
            raise self._failed(
                f"`body` is not a JSON value: {error}", next_step="Add a filter such as `| list` or `| string`."
            ) from None

    def _encoded_body(self, body: Any) -> bytes:
        if isinstance(self._settings.body, str):
            text = str(body)
        elif body is None:
            return b""
        elif isinstance(body, dict) and self._content_type().startswith(_FORM):
            text = urlencode({key: item if isinstance(item, str) else json.dumps(item) for key, item in body.items()})
        else:
            text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            raise self._failed("the request contains a lone surrogate (half a character) and cannot be sent") from None

    def _content_type(self) -> str:
        named = {name.lower(): value for name, value in self._settings.headers.items()}
        return named.get("content-type", "").lower()

    def _defaults(self) -> dict[str, str]:
        body, headers = self._settings.body, dict[str, str]()
        if body is not None:
            is_json = not isinstance(body, str) or _LOOKS_LIKE_JSON.match(body)
            headers["Content-Type"] = "application/json" if is_json else "text/plain; charset=utf-8"
        if self._settings.stream:
            headers["Accept"] = "text/event-stream"
        return headers

    # -- the reply

    async def _read(self, data: bytes, kind: str, *, stream: bool) -> Findings:
        try:
            if is_quick(data):
                return read_reply(data, self._expressions, stream=stream)
            return await workers.call(
                read_in_worker, data, self._expressions, stream, MOST_VALUES, seconds=PARSE_SECONDS
            )
        except AnswerNotFoundError as error:
            is_theirs = isinstance(error, ErrorReplyError)
            advice = "Look for the cause at the server." if is_theirs else "Check `response` of the target."
            raise self._failed(f"{error}. The reply begins: {self._start_of(data)}", next_step=advice) from None
        except LoneSurrogateError:
            raise self._failed("the reply contains a lone surrogate (half a character)") from None
        except TooManyValuesError as error:
            raise self._failed(f"the reply was not read: {error}") from None
        except workers.WorkerError as error:
            raise self._failed(f"the reply of {len(data):,} bytes could not be read: {error.message}") from None
        except ValueError:
            if not data.strip():
                raise self._failed("the reply is empty", next_step="Check `url` and `method` of the target.") from None
            raise self._failed(
                f"the reply is not JSON ({kind or 'no content type'}), which `response` needs. It begins: "
                f"{self._start_of(data)}",
                next_step="Remove `response` to use the text of the reply, or check `url`.",
            ) from None

    def _start_of(self, data: bytes) -> str:
        return repr(self._exchange.clean(beginning(data).strip(), SHOWN))

    def _reply(self, found: Findings) -> Reply:
        if found.messages is not None:
            try:
                messages = parse_messages(found.messages)
            except ShapeError as error:
                raise self._failed(str(error), next_step="Check `output_messages` of the target.") from None
            reply = Reply(messages)
        else:
            reply = Reply.of_text(found.answer or "")
        usage = {name: _whole(value) for name, value in found.usage.items()}
        warnings: list[str] = []
        cost = tokens = None
        try:
            cost = parse_amount(usage.pop("cost_usd", None), "usage.cost_usd")
        except ShapeError as error:
            warnings.append(str(error))
        try:
            tokens = parse_usage(usage, "usage") if any(value is not None for value in usage.values()) else None
        except ShapeError as error:
            warnings.append(str(error))
        return Reply(reply.output_messages, token_usage=tokens, cost_usd=cost, warnings=tuple(warnings))

    def _failed(self, what: str, *, next_step: str | None = None) -> ProviderError:
        return self._exchange.error(what, next_step=next_step)


def _whole(value: Any) -> Any:
    """Token counts that JMESPath computed are floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _renderer(value: Any) -> Render:
    """A function that fills in all strings of a value. A string that is one `{{ expression }}` keeps its type."""
    template = compile_template(value) if isinstance(value, str) and "{" in value else None
    entries = {key: _renderer(item) for key, item in value.items()} if isinstance(value, Mapping) else {}
    items = [_renderer(item) for item in value] if isinstance(value, list) else []

    async def render(values: Values) -> Any:
        if template is not None:
            return await template.rendered(values, typed=True)
        if isinstance(value, Mapping):
            return {key: await entry(values) for key, entry in entries.items()}
        return [await item(values) for item in items] if isinstance(value, list) else value

    return render
