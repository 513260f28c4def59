"""The interface of an API: parses request bodies to `ApiRequest`s, and writes replies and errors in the API's form.

To add an API, subclass `Api` in a new file and add it to `registry.py`. A request becomes `count` judge calls with the
same messages and options. A function that the model must call becomes a schema: the judge replies with its arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from agentv.http.app import event
from agentv.json_sizes import TooManyValuesError, check_values
from agentv.jsonio import JsonError, braced, dump_line, read
from agentv.messages import NO_OPTIONS, GenerationOptions, Message, TokenLogprob, TokenUsage
from agentv.wire.judge import InvalidRequestError

UNSUPPORTED = "unsupported_parameter"
NO_FIELDS: Mapping[str, Any] = {}
MOST_MESSAGES, MOST_SCHEMA_VALUES = 5_000, 10_000
CUT_OFF, FILTERED = "length", "content_filter"
_FINISH = {
    "length": CUT_OFF,
    "max_tokens": CUT_OFF,
    "max_output_tokens": CUT_OFF,
    "model_length": CUT_OFF,
    "content_filter": FILTERED,
    "refusal": FILTERED,
    "safety": FILTERED,
}


class ApiRequestError(InvalidRequestError):
    """The body is not a valid request. `parameter` is the field that the message is about."""

    def __init__(self, message: str, parameter: str | None = None, code: str = "invalid_request") -> None:
        super().__init__(message, parameter, code)
        self.parameter, self.code = parameter, code

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Function:
    """The function whose arguments are the reply."""

    name: str
    named: bool = False
    """Whether the request names it as the one to call."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to an API, as far as a judge can answer it."""

    model: str
    messages: tuple[Message, ...]
    options: GenerationOptions = NO_OPTIONS
    count: int = 1
    """Number of independent replies, each of which is a judge call."""
    unused: tuple[str, ...] = ()
    """Options of the request that change what a model writes and that no target gets."""
    function: Function | None = None
    stream: bool = False
    stream_usage: bool = True
    """Whether a stream ends with the token usage."""
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the request that the reply repeats."""
    large: bool = False
    """Whether the reply is rendered in a thread, and therefore in steps that let other threads run."""

    def __post_init__(self) -> None:
        """Limit what makes every later step slow: a large text does not."""
        if len(self.messages) > MOST_MESSAGES:
            raise ApiRequestError(
                f"the conversation has {len(self.messages):,} messages; send at most {MOST_MESSAGES:,}"
            )
        try:
            check_values(self.options.response_schema, MOST_SCHEMA_VALUES)
        except TooManyValuesError:
            raise ApiRequestError(f"the schema has more than {MOST_SCHEMA_VALUES:,} values; send less") from None

    @property
    def wants_json(self) -> bool:
        return self.options.response_schema is not None


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The judge's reply to one call."""

    text: str
    finish_reason: str | None = None
    token_usage: TokenUsage | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None

    @property
    def ending(self) -> str:
        """Why the reply ended: `stop`, `length` or `content_filter`."""
        return _FINISH.get((self.finish_reason or "").lower(), "stop")


@dataclass(frozen=True, slots=True)
class ApiReply:
    """The body of a reply, and its content type."""

    body: bytes
    content_type: str = "application/json"


class Api(ABC):
    """One API. Its methods may run in a worker, so they are pure functions of their arguments."""

    variant: str = ""

    @abstractmethod
    def parse(self, path: str, body: bytes) -> ApiRequest:
        """The request in a body. Raises `InvalidRequestError`."""

    @abstractmethod
    def render(self, request: ApiRequest, replies: Sequence[ModelReply], model: str) -> ApiReply:
        """The reply of the API. `model` is the name of the model that answered."""


def as_object(text: str) -> str:
    """The JSON object in a reply from which one was requested: the only one in the text, else the whole text.

    Judges without structured output write a fence or a sentence around it.
    """
    stripped = text.strip()
    if stripped.startswith("{") and _is_object(stripped):
        return stripped
    objects = (span.text for span in braced(text) if _is_object(span.text))
    first, second = next(objects, None), next(objects, None)
    return first if first is not None and second is None else text


def _is_object(text: str) -> bool:
    try:
        return isinstance(read(text), dict)
    except JsonError:
        return False


def object_in(text: str) -> dict[str, Any] | None:
    """The object that a text is; None if it is anything else."""
    try:
        value = read(text)
    except JsonError:
        return None
    return value if isinstance(value, dict) else None


def usage_of(replies: Iterable[ModelReply]) -> TokenUsage:
    """The tokens of all replies. What a target does not report counts as 0: client libraries require numbers."""
    return sum((reply.token_usage for reply in replies if reply.token_usage is not None), TokenUsage())


def identifier(prefix: str) -> str:
    return f"{prefix}{uuid4().hex}"


def json_reply(value: Mapping[str, Any], *, large: bool = False) -> ApiReply:
    return ApiReply(dump_line(value, in_pieces=large).encode("utf-8"))


def event_reply(events: Iterable[bytes]) -> ApiReply:
    """A complete stream of server-sent events."""
    return ApiReply(b"".join(events), "text/event-stream; charset=utf-8")


def json_event(value: Mapping[str, Any], *, large: bool, name: str | None = None) -> bytes:
    return event(dump_line(value, in_pieces=large), name=name)
