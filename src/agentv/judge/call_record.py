"""A judge call as fields of its record."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from agentv.messages import NO_OPTIONS, as_messages
from agentv.targets.best_effort import dropped_reasons
from agentv.targets.provider import Reply
from agentv.wire.judge import Asked, JudgeCall, reply_object


def utc(seconds: float) -> str:
    """A time as it is recorded."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def request_fields(call: JudgeCall) -> dict[str, Any]:
    """The request as fields of its record."""
    request: dict[str, Any] = {"question": call.question, "system_prompt": call.system_prompt}
    if call.messages != as_messages(call.question, call.system_prompt, ()):
        request["messages"] = call.messages
    if call.options is not NO_OPTIONS:
        request["options"] = call.options.to_dict()
    return request


def asked_fields(asked: Asked, reply: Reply | None) -> dict[str, Any]:
    """What a client library asked for, as fields of the record of its call."""
    not_sent = {} if reply is None else dropped_reasons(reply)
    return {"asked_model": asked.model, "dropped_options": {**asked.dropped_options, **not_sent} or None}


def reply_fields(reply: Reply) -> dict[str, Any]:
    """The reply as it is recorded."""
    answer = reply_object(reply.output_messages, reply.token_usage)
    if reply.embeddings is not None:
        answer["embeddings"] = [b64encode(vector).decode("ascii") for vector in reply.embeddings]
    if reply.logprobs is not None:
        answer["logprobs"] = [token.to_dict() for token in reply.logprobs]
    return answer
