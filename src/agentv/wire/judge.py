"""The JSON of the judge proxy, both ways: request bodies are parsed to `JudgeCall`s, replies are written as JSON.

Requests are parsed strictly. Every problem is an `InvalidRequestError` whose message names the field, in a batch as
`requests[1].question`. Replies have camelCase keys and are always valid JSON, whatever a provider put into them.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentv.codec import decode
from agentv.jsonio import JsonError, dump_line, read
from agentv.messages import NO_OPTIONS, Conversation, GenerationOptions, Message, TokenUsage, as_messages, final_text
from agentv.text import did_you_mean, kind_of, short_or_described

LARGEST_ATTEMPT = 2**31 - 1
LONGEST_WORD = 60

_FIELDS = ("question", "systemPrompt", "evalCaseId", "attempt", "target")
_SENT = (*_FIELDS, "provider")
"""The fields of a request. `provider` is `target` in the SDK of AgentV 5."""


class InvalidRequestError(ValueError):
    """The body is not a valid request. The message names the problem and what to send instead."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client library asked for, where the call differs from it."""

    model: str
    dropped_options: Mapping[str, str] = field(default_factory=dict)
    """Options that the target does not get -> the reason."""
    embeddings: bool = False
    """Whether the reply is the embeddings of the messages."""
    choice: int = 0
    """Which of several replies to one request it is."""


@dataclass(frozen=True, slots=True, init=False)
class JudgeCall(Conversation):
    """One call to the judge. If `eval_case_id`, `attempt` or `target` is None, the value of the execution is used.

    `JudgeCall("question", "system prompt")` is short for a system message followed by a user message. Scripts can send
    only these two; evaluators inside agentv can pass any `messages` and `options`.
    """

    messages: tuple[Message, ...]
    options: GenerationOptions
    eval_case_id: str | None
    attempt: int | None
    target: str | None
    asked: Asked | None
    """Set for calls through the API of a vendor."""

    def __init__(
        self,
        question: str | None = None,
        system_prompt: str | None = None,
        eval_case_id: str | None = None,
        attempt: int | None = None,
        target: str | None = None,
        *,
        messages: Sequence[Message] = (),
        options: GenerationOptions = NO_OPTIONS,
        asked: Asked | None = None,
    ) -> None:
        fill = object.__setattr__
        fill(self, "messages", as_messages(question, system_prompt, messages))
        fill(self, "options", options)
        fill(self, "eval_case_id", eval_case_id)
        fill(self, "attempt", attempt)
        fill(self, "target", target)
        fill(self, "asked", asked)


def parse_invoke(body: bytes) -> JudgeCall:
    """Parse the body of `POST /invoke`."""
    return _call(_decode(body), "")


def parse_batch(body: bytes) -> tuple[JudgeCall, ...]:
    """Parse the body of `POST /invokeBatch`."""
    data = _object(_decode(body), "the body", ("requests",))
    requests = data.get("requests")
    if requests is None:
        raise InvalidRequestError('`requests` is missing; send {"requests": [{"question": "..."}, ...]}')
    if not isinstance(requests, list):
        raise InvalidRequestError(f"`requests` must be a list of objects, got {kind_of(requests)}")
    if not requests:
        raise InvalidRequestError("`requests` is empty; send at least one request")
    return tuple(_call(item, f"requests[{index}]") for index, item in enumerate(requests))


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """What a worker found in a body: small, whatever the body contains."""

    seconds: float
    """CPU time that it took."""
    problem: str | None = None
    """Why the body is not a valid request."""
    count: int = 0
    """Number of calls."""
    calls: tuple[JudgeCall, ...] = ()
    """The calls. If there are more than the limit: the first one whose target is not available, if there is one."""
    first: int = 0
    """Position of the first of `calls` in the body."""


def parse_in_worker(body: bytes, batch: bool, most_calls: int, available: Container[str]) -> ParsedBody:
    """Parse a large body in another process. Calls that will be refused, because there are too many, stay there."""
    started = time.process_time()
    try:
        calls = parse_batch(body) if batch else (parse_invoke(body),)
    except InvalidRequestError as error:
        return ParsedBody(time.process_time() - started, problem=str(error))
    count, first = len(calls), 0
    if count > most_calls:
        unavailable = (at for at, call in enumerate(calls) if call.target is not None and call.target not in available)
        first = next(unavailable, count)
        calls = calls[first : first + 1]
    return ParsedBody(time.process_time() - started, count=count, calls=calls, first=first)


def _decode(body: bytes) -> Any:
    try:
        return read(body, infinite=True, surrogates=True)  # checked per field, so that the error names the field
    except JsonError as error:
        raise InvalidRequestError(json_problem(error)) from None


def json_problem(error: JsonError) -> str:
    """Why a body is not a JSON object."""
    if error.kind == "encoding":
        return f"the body is not UTF-8 (byte {error.offset}); send UTF-8 JSON"
    if error.kind == "empty":
        return "the body is empty; send a JSON object"
    if error.kind == "duplicate":
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path).lstrip(".")
        what = f"`{_cut(where)}`" if where else "the body"
        return f"{what}: duplicate key {_quoted(error.key)}; send it once"
    if error.kind == "depth":
        return f"the body is {error.problem}; send a JSON object of plain values"
    return f"the body is not JSON: {error.problem} (character {error.offset}); send a JSON object"


def _call(item: Any, where: str) -> JudgeCall:
    data = _object(item, where or "the body", _SENT)
    question = _text(data, "question", where)
    if question is None:
        raise InvalidRequestError(f"{_name('question', where)} is missing; send the question for the judge")
    if not question:
        raise InvalidRequestError(f"{_name('question', where)} is empty; send the question for the judge")
    return JudgeCall(
        question,
        _text(data, "systemPrompt", where),
        _text(data, "evalCaseId", where),
        _attempt(data.get("attempt"), where),
        _target(data, where),
    )


def _target(data: dict[str, Any], where: str) -> str | None:
    target, provider = _text(data, "target", where), _text(data, "provider", where)
    if None not in (target, provider) and target != provider:
        names = f"{_name('target', where)} and {_name('provider', where)}"
        raise InvalidRequestError(f"{names} name different judges; send only one of them")
    return provider if target is None else target


def _object(value: Any, what: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{what} must be a JSON object, got {kind_of(value)}")
    for key in value:
        if key not in known:
            raise InvalidRequestError(f"{what}: unknown key {_quoted(key)}{_hint(key, known)}")
    return value


def _text(data: dict[str, Any], field: str, where: str) -> str | None:
    value = data.get(field)
    if value is None:
        return None
    if type(value) is not str:
        raise InvalidRequestError(f"{_name(field, where)} must be a string, got {kind_of(value)}")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidRequestError(
                f"{_name(field, where)} contains a lone surrogate (character {error.start}); send valid Unicode"
            ) from None
    return value


def _attempt(value: Any, where: str) -> int | None:
    if value is None:
        return None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        got = value if isinstance(value, float) else kind_of(value)
        raise InvalidRequestError(f"{_name('attempt', where)} must be a whole number from 1, got {got}")
    if not 1 <= value <= LARGEST_ATTEMPT:
        raise InvalidRequestError(f"{_name('attempt', where)} must be a whole number from 1 to {LARGEST_ATTEMPT}")
    return int(value)


def _name(field: str, where: str) -> str:
    return f"`{where}.{field}`" if where else f"`{field}`"


def _quoted(word: str) -> str:
    """Text from the script in backquotes, shortened and safe to print."""
    return f"`{_cut(word)}`"


def _cut(word: str) -> str:
    return short_or_described(word, LONGEST_WORD).encode("utf-8", "backslashreplace").decode("utf-8")


def _hint(word: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(word, names, any_case=True) or f"; known: {', '.join(f'`{name}`' for name in names)}"


def call_object(call: JudgeCall) -> dict[str, Any]:
    """The call of a script as the object of a request, from which the same call can be parsed."""
    fields = (call.question, call.system_prompt, call.eval_case_id, call.attempt, call.target)
    return {name: value for name, value in zip(_FIELDS, fields, strict=True) if value is not None}


def reply_object(messages: Sequence[Message], usage: TokenUsage | None) -> dict[str, Any]:
    """The reply to a successful call. `rawText` is the text of the last assistant message."""
    reply: dict[str, Any] = {
        "outputMessages": [message_object(message) for message in messages],
        "rawText": final_text(messages),
    }
    if usage is not None:
        reply["usage"] = usage.to_dict()
    return reply


def sent_object(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A reply as scripts get it: with the names that AgentV 4 and 5 give to its messages and to its usage."""
    sent = {**reply, "output": reply["outputMessages"]}
    if "usage" in reply:
        sent["tokenUsage"] = reply["usage"]
    return sent


def failed_object(message: str, code: str) -> dict[str, Any]:
    """The reply to a batch item whose judge call failed."""
    return {"outputMessages": [], "error": message, "code": code}


def error_object(message: str, code: str) -> dict[str, str]:
    return {"error": message, "code": code}


def message_object(message: Message) -> dict[str, Any]:
    """The message with `tool_calls` renamed to `toolCalls`. Nested keys are not renamed."""
    data = message.to_dict()
    if "tool_calls" in data:
        data["toolCalls"] = data.pop("tool_calls")
    return data


def message_of(data: Mapping[str, Any]) -> Message:
    """The message that `message_object` wrote. ValueError if it is not one."""
    data = dict(data)
    if "toolCalls" in data:
        data["tool_calls"] = data.pop("toolCalls")
    return decode(Message, data)


def to_json(value: Any) -> bytes:
    """Strict UTF-8 JSON. Values that JSON cannot represent are replaced, so this never fails."""
    return dump_line(value).encode("utf-8")
