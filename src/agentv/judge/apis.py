"""Answers requests to the APIs of vendors with the judge calls of a session. No HTTP, except for status codes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from agentv import workers
from agentv.json_sizes import is_quick
from agentv.judge.call_error import PARSE_SECONDS, JudgeCallError, TimedCalls
from agentv.messages import Message
from agentv.targets.best_effort import NOT_PASSED_ON, fitted
from agentv.targets.provider import Reply
from agentv.wire.apis.api import Api, ApiReply, ApiRequest, ApiRequestError, ModelReply, json_reply
from agentv.wire.apis.openai import model_body, models_body
from agentv.wire.apis.openai_embeddings import Embeddings, EmbeddingsRequest
from agentv.wire.apis.registry import MODELS, api_at
from agentv.wire.judge import Asked, InvalidRequestError, JudgeCall

if TYPE_CHECKING:
    from agentv.judge.session import JudgeSession

NO_EMBEDDINGS = (
    "this evaluator has no embeddings: configure a target with `provider: embeddings`, and name it in "
    "`judge: {embeddings: NAME}` of the evaluator"
)
RENDERED_IN_LINE, MOST_BRACES, MOST_QUOTES, MOST_LOGPROBS = 64 * 1024, 200, 2_000, 1_000
"""Longer replies, those with more of these, and those to longer requests are rendered in a thread."""
OVER_THE_LIMIT, LIMIT_STATUS = 429, 403
"""The status of a call over the limit. Client libraries retry 429, some of them without end."""


async def answer(session: JudgeSession, method: str, path: str, body: bytes, timed: TimedCalls) -> ApiReply:
    """The reply to a request. Raises `JudgeCallError`, whose status makes client libraries stop."""
    if method == "GET":
        return _models(session, path)
    api = api_at(path)
    if api is None:
        raise JudgeCallError(404, "not_supported", "unknown API")
    if isinstance(api, Embeddings):
        if session.targets.embeddings is None:
            raise JudgeCallError(404, "not_supported", NO_EMBEDDINGS)
        wanted: EmbeddingsRequest = await _parsed(api, path, body, timed)
        return await _embeddings(session, api, wanted, session.targets.embeddings)
    request: ApiRequest = await _parsed(api, path, body, timed)
    calls = _calls(session, request)
    replies = await _invoked(session, calls)
    model = await session.masked(replies[0].model or calls[0].target or "")
    read = [await _model_reply(session, reply) for reply in replies]

    large = len(body) > RENDERED_IN_LINE or _takes_long(read)

    def rendered() -> ApiReply:
        echo = session.masked_object(request.echo)
        is_same = echo is request.echo and not large
        return api.render(request if is_same else replace(request, echo=echo, large=large), read, model)

    return await asyncio.to_thread(rendered) if large else rendered()


def _takes_long(replies: Sequence[ModelReply]) -> bool:
    text = "".join(reply.text for reply in replies)
    tokens = (1 + len(token.alternatives) for reply in replies for token in reply.logprobs or ())
    return (
        len(text) > RENDERED_IN_LINE
        or text.count("{") > MOST_BRACES
        or text.count('"') > MOST_QUOTES
        or sum(tokens) > MOST_LOGPROBS
    )


async def _invoked(session: JudgeSession, calls: Sequence[JudgeCall]) -> list[Reply]:
    try:
        return await session.invoke_all(calls)
    except JudgeCallError as error:
        status = LIMIT_STATUS if error.status == OVER_THE_LIMIT else error.status
        parameter = "model" if error.code == "unknown_target" else error.parameter
        raise JudgeCallError(status, error.code, error.message, parameter) from None


async def _embeddings(session: JudgeSession, api: Embeddings, request: EmbeddingsRequest, target: str) -> ApiReply:
    messages = tuple(Message("user", text) for text in request.strings)
    call = JudgeCall(target=target, messages=messages, asked=Asked(request.model, embeddings=True))
    (reply,) = await _invoked(session, [call])
    if reply.embeddings is None:
        message = (
            f"target '{target}' returned no embeddings; `judge.embeddings` needs a target of provider `embeddings`"
        )
        raise JudgeCallError(502, "judge_failed", message)
    model = await session.masked(reply.model or target)
    return await asyncio.to_thread(api.render, request, reply.embeddings, reply.token_usage, model)


def _models(session: JudgeSession, path: str) -> ApiReply:
    """What a script may choose: its targets, and the names that `judge.models` maps to them."""
    targets = session.targets.available
    names = sorted({*targets, *(name for name, target in session.targets.models.items() if target in targets)})
    if path in MODELS:
        return json_reply(models_body(names))
    name = unquote(path.rpartition("/")[2])
    if name not in names:
        raise JudgeCallError(404, "model_not_found", f"unknown model; available: {', '.join(names)}", "model")
    return json_reply(model_body(name))


def _calls(session: JudgeSession, request: ApiRequest) -> list[JudgeCall]:
    """The judge calls for a request, with the options that their target gets."""
    target = session.targets.of_model(request.model)
    messages, options, dropped = request.messages, request.options, dict.fromkeys(request.unused, NOT_PASSED_ON)
    provider = session.targets.live.get(target)
    if provider is not None:
        fit = fitted(messages, options, provider)
        messages, options = fit.messages, fit.options
        dropped |= fit.dropped
    return [
        JudgeCall(target=target, messages=messages, options=options, asked=Asked(request.model, dropped, choice=choice))
        for choice in range(request.count)
    ]


async def _model_reply(session: JudgeSession, reply: Reply) -> ModelReply:
    text = await session.masked(reply.text)
    logprobs = reply.logprobs if text == reply.text else None  # tokens would spell what the text no longer contains
    return ModelReply(text, reply.finish_reason, reply.token_usage, logprobs)


# -- parsing


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a worker found in a body."""

    seconds: float
    """CPU time that it took."""
    request: ApiRequest | EmbeddingsRequest | None = None
    problem: tuple[str, str | None, str] | None = None
    """Why the body is not a valid request: the message, the parameter and the code."""


async def _parsed(api: Api | Embeddings, path: str, body: bytes, timed: TimedCalls) -> Any:
    """The request in a body, which is parsed in another process if that may take long."""
    if is_quick(body):
        started = time.perf_counter()
        try:
            return api.parse(path, body)
        except InvalidRequestError as error:
            raise _invalid(*_problem(error)) from None
        finally:
            timed.seconds = time.perf_counter() - started
    timed.seconds = PARSE_SECONDS
    parsed: Parsed = await workers.call(parse_in_worker, path, body, seconds=PARSE_SECONDS)
    timed.seconds = parsed.seconds
    if parsed.problem is not None or parsed.request is None:
        raise _invalid(*(parsed.problem or ("the body could not be parsed", None, "invalid_request")))
    return parsed.request


def parse_in_worker(path: str, body: bytes) -> Parsed:
    """Parse a large body in another process."""
    started = time.process_time()
    api = api_at(path)
    try:
        request = None if api is None else api.parse(path, body)
    except InvalidRequestError as error:
        return Parsed(time.process_time() - started, problem=_problem(error))
    return Parsed(time.process_time() - started, request)


def _problem(error: InvalidRequestError) -> tuple[str, str | None, str]:
    if isinstance(error, ApiRequestError):
        return str(error), error.parameter, error.code
    return str(error), None, "invalid_request"


def _invalid(message: str, parameter: str | None, code: str) -> JudgeCallError:
    return JudgeCallError(404 if code == "not_supported" else 400, code, message, parameter)
