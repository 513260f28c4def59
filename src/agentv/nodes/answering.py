"""Answers the judge calls of a script on a node, with the session of the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentv import workers
from agentv.json_sizes import is_quick
from agentv.judge.call_error import JudgeCallError, TimedCalls
from agentv.judge.proxied import read_calls
from agentv.judge.session import JudgeSession
from agentv.nodes.frames import Message
from agentv.nodes.jobs import take
from agentv.wire.judge import InvalidRequestError, parse_batch, to_json


async def answered(judge: JudgeSession, message: Message) -> tuple[Mapping[str, Any], bytes]:
    """The reply to a message of a script: fields and a body. The node is not trusted, so the body is checked again."""
    timed = TimedCalls()
    fields, body = await _answered(judge, message, timed)
    return ({**fields, "seconds": timed.seconds} if message.kind == "api" else fields), body


async def _answered(judge: JudgeSession, message: Message, timed: TimedCalls) -> tuple[Mapping[str, Any], bytes]:
    try:
        if message.kind == "api":
            method, path = take(message.data, "method", str), take(message.data, "path", str)
            reply = await judge.answer_api(method, path, message.blob, timed)
            return {"type": reply.content_type}, reply.body
        return {}, to_json(await _answer(judge, message))
    except JudgeCallError as error:
        about = {} if error.parameter is None else {"parameter": error.parameter}
        return {"status": error.status, "code": error.code, **about}, judge.clean(error.message).encode(
            "utf-8", "replace"
        )
    except (InvalidRequestError, workers.WorkerError) as error:
        return {"status": 400, "code": "invalid_request"}, judge.clean(str(error)).encode("utf-8", "replace")
    except Exception as error:
        text = judge.clean(f"the judge call failed: {type(error).__name__}")
        return {"status": 502, "code": "judge_failed"}, text.encode("utf-8", "replace")


async def _answer(judge: JudgeSession, message: Message) -> Any:
    if message.kind == "info":
        return await judge.describe()
    if message.kind == "refuse":
        count = take(message.data, "count", int)
        calls = parse_batch(message.blob) if message.blob and is_quick(message.blob) else ()
        raise judge.refuse_batch(max(1, count), calls, take(message.data, "first", int))
    batch = take(message.data, "batch", bool)
    calls = await read_calls(judge, message.blob, batch=batch, timed=TimedCalls())
    return {"responses": await judge.answer_batch(calls)} if batch else await judge.answer(calls[0])
