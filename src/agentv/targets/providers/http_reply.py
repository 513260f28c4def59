"""Finds the answer in the reply of an HTTP API: JSON, text, or server-sent events.

Large replies are read in a worker, so this module imports little.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agentv.json_sizes import check_values
from agentv.targets.providers.large_json import parse_here

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult

COMMON_KEYS = ("answer", "response", "output", "text", "content", "message", "result", "reply")
"""Where the answer is looked for without `response`, in this order, if the value is text."""
_COMMON_PATHS = (("choices", 0, "message", "content"), ("message", "content"))
_COMMON_DELTAS = (("choices", 0, "delta", "content"), ("delta", "text"), ("delta",))
_OTHER_CHARSET = re.compile(
    r"charset\s*=\s*[\"']?(iso-8859-1?\d|latin-?1|windows-125\d|utf-16(?:[bl]e)?|shift_jis|euc-(?:jp|kr)|gb(?:k|2312|18030)|big5)\b",
    re.IGNORECASE,
)
"""Encodings of the web. Others that Python has, like punycode, can take long."""
DONE = "[DONE]"
MOST_KEYS = 12
LONGEST_KEY = 40


class AnswerNotFoundError(ValueError):
    """The reply has no answer where it was expected. The message does not quote the reply, except for its keys."""


class ErrorReplyError(AnswerNotFoundError):
    """The reply reports an error of the server instead of an answer."""


@dataclass(frozen=True, slots=True)
class Expressions:
    """JMESPath expressions for the parts of a reply."""

    answer: str | None = None
    messages: str | None = None
    usage: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Findings:
    """What a reply contains."""

    answer: str | None = None
    messages: Any = None
    usage: dict[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=256)
def compiled_expression(expression: str) -> ParsedResult:
    """Compile a JMESPath expression. Raises ValueError with the position of the error."""
    import jmespath  # noqa: PLC0415 - few targets need it
    from jmespath.exceptions import IncompleteExpressionError, JMESPathError  # noqa: PLC0415

    try:
        return jmespath.compile(expression)
    except IncompleteExpressionError:
        raise ValueError("not a valid JMESPath expression: it is incomplete") from None
    except JMESPathError as error:
        at = getattr(error, "lex_position", None)
        reason = str(getattr(error, "msg", None) or error).split("\n")[0].split(": Parse error")[0].rstrip(".")
        place = f" at character {at + 1}" if isinstance(at, int) and 0 <= at < len(expression) else ""
        raise ValueError(f"not a valid JMESPath expression: {reason}{place}") from None
    except RecursionError:
        raise ValueError("not a valid JMESPath expression: nested too deeply") from None


def read_reply(body: bytes, expressions: Expressions, *, stream: bool, most_values: int | None = None) -> Findings:
    """The answer and the usage in a reply. Raises `AnswerNotFoundError`; ValueError if the reply is not JSON."""
    if stream:
        return _read_stream(body, expressions, most_values)
    return _read_whole(body, expressions, most_values)


def as_utf8(body: bytes, content_type: str) -> bytes:
    """The text of a reply in UTF-8, which is what it is unless the `charset` of its content type is another one."""
    charset = _OTHER_CHARSET.search(content_type)
    return body if charset is None else body.decode(charset[1], "replace").encode()


def read_in_worker(body: bytes, expressions: Expressions, stream: bool, most_values: int) -> Findings:
    """`read_reply` with positional arguments, as workers need them."""
    return read_reply(body, expressions, stream=stream, most_values=most_values)


def _read_whole(body: bytes, expressions: Expressions, most_values: int | None) -> Findings:
    wanted = expressions.messages or expressions.answer
    try:
        value = parse_here(body, most_values)
    except ValueError as error:
        if wanted is not None or not str(error).startswith("not JSON"):
            raise
        return Findings(body.decode("utf-8-sig", "replace"))
    if wanted is None:
        _refuse_error(value)
    found = _found(value, expressions)
    if wanted is None and found.answer is None:
        found.answer = body.decode("utf-8-sig", "replace")
    if found.answer is None and found.messages is None:
        name = "output_messages" if expressions.messages else "response"
        raise AnswerNotFoundError(f"the reply has no value at `{name}` (`{wanted}`); {described(value)}")
    return found


def _refuse_error(value: Any) -> None:
    """Raise `AnswerNotFoundError` for `{"error": ...}`, which APIs also send with status 200 and within streams."""
    if not isinstance(value, dict) or not value.get("error"):
        return
    error = value["error"]
    text = error.get("message") if isinstance(error, dict) else error
    reason = f": {text}" if isinstance(text, str) else ""
    raise ErrorReplyError(f"the reply is an error{reason}")


def _found(value: Any, expressions: Expressions, *, deltas: bool = False) -> Findings:
    found = Findings(usage={name: _search(path, value) for name, path in expressions.usage.items()})
    if expressions.messages is not None:
        found.messages = _search(expressions.messages, value)
    elif expressions.answer is not None:
        found.answer = _as_answer(_search(expressions.answer, value))
    else:
        found.answer = _common(value, deltas=deltas)
    return found


def _search(expression: str, value: Any) -> Any:
    from jmespath.exceptions import JMESPathError  # noqa: PLC0415 - few targets need it

    try:
        return compiled_expression(expression).search(value)
    except JMESPathError as error:
        reason = str(error).split("\n")[0].split(", value:")[0].split(", received:")[0]
        raise AnswerNotFoundError(f"`{expression}` failed: {reason[:200]}; {described(value)}") from None


def _as_answer(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _common(value: Any, *, deltas: bool) -> str | None:
    if isinstance(value, str):
        return value
    for path in (*(_COMMON_DELTAS if deltas else ()), *_COMMON_PATHS, *((key,) for key in COMMON_KEYS)):
        step = value
        for part in path:
            if isinstance(part, int):
                step = step[part] if isinstance(step, list) and len(step) > part else None
            else:
                step = step.get(part) if isinstance(step, dict) else None
        if isinstance(step, str):
            return step
    return None


def described(value: Any) -> str:
    """What a JSON value is, with the keys of an object."""
    if isinstance(value, dict):
        # A longer key is omitted rather than truncated: a truncated secret could not be masked.
        keys = [f"`{key}`" for key in value if len(key) <= LONGEST_KEY][:MOST_KEYS]
        more = f" and {len(value) - len(keys)} more" if len(value) > len(keys) else ""
        return f"its keys are {', '.join(keys)}{more}" if keys else "it is an object without keys"
    if isinstance(value, list):
        inside = f"; the first item: {described(value[0])}" if value else ""
        return f"it is a list of {len(value):,}{inside}"
    return "it is null" if value is None else f"it is {'text' if isinstance(value, str) else 'a number or boolean'}"


# -- server-sent events


def _read_stream(body: bytes, expressions: Expressions, most_values: int | None) -> Findings:
    found = Findings()
    answers: list[str] = []
    last: Any = None
    events = 0
    wanted = expressions.messages or expressions.answer
    for name, data in events_of(body.decode("utf-8-sig", "replace")):
        if data.strip() == DONE:
            break
        events += 1
        if name == "error":
            raise ErrorReplyError("the stream contains an `error` event")
        try:
            last = parse_here(data.encode("utf-8", "replace"), most_values)
        except ValueError:
            if expressions.answer is None and expressions.messages is None:
                answers.append(data)  # plain text
            continue
        if wanted is None and not isinstance(last, dict | list):
            answers.append(data)  # text that looks like a number, for example
            continue
        part = _found(last, expressions, deltas=True)
        if part.answer is None and part.messages is None:
            _refuse_error(last)
        if part.answer is not None:
            answers.append(part.answer)
        if part.messages is not None:
            found.messages = part.messages
        found.usage |= {key: value for key, value in part.usage.items() if value is not None}
    if most_values is not None:
        check_values(answers, most_values)
    if not answers and found.messages is None:
        where = f"has a value at `{wanted}`" if wanted else "has an answer at a known place; set `response`"
        seen = f"none of its {events:,} events {where}" if events else "it contains no events"
        raise AnswerNotFoundError(f"no answer was found in the stream: {seen}; of the last event, {described(last)}")
    found.answer = "".join(answers) if answers else None
    return found


def events_of(text: str) -> Iterator[tuple[str, str]]:
    """The events of a stream: name and data. Comments and other fields are skipped, as is an event without data."""
    name, data = "", list[str]()
    for line in [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]:
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "", []
            continue
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            data.append(value)
        elif key == "event":
            name = value
