"""Pure functions for the HTTP protocol: read the environment, encode requests, parse responses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from .errors import JudgeNotAvailableError, JudgeProxyError, did_you_mean, error_for
from .values import JudgeInfo, JudgeReply, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

URL_VARIABLE = "AGENTV_JUDGE_PROXY_URL"
TOKEN_VARIABLE = "AGENTV_JUDGE_PROXY_TOKEN"  # noqa: S105 - the name of a variable

_NAMES = {
    "question": "question",
    "system_prompt": "systemPrompt",
    "target": "target",
    "eval_case_id": "evalCaseId",
    "attempt": "attempt",
}
_HOSTS = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "[::1]": "::1"}


class Access(Value):
    """The address of the judge proxy and its token."""

    __slots__ = ("host", "port", "token")

    def __init__(self, host: str, port: int, token: str) -> None:
        self.host = host
        self.port = port
        self.token = token

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Access({self.url})"


class Request(Value):
    """One request. `body` is UTF-8 JSON."""

    __slots__ = ("body", "method", "path")

    def __init__(self, method: str, path: str, body: bytes | None = None) -> None:
        self.method = method
        self.path = path
        self.body = body


class Response(Value):
    """One complete response, not yet parsed."""

    __slots__ = ("body", "encoding", "status")

    def __init__(self, status: int, body: bytes, encoding: str | None = None) -> None:
        self.status = status
        self.body = body
        self.encoding = encoding


def read_access(environ: Mapping[str, str]) -> Access | None:
    """The judge access set in the environment, or `None` if judge access is off."""
    url = environ.get(URL_VARIABLE)
    if not url:
        return None
    host, port = parse_url(url)
    token = environ.get(TOKEN_VARIABLE)
    if not token:
        raise JudgeNotAvailableError(
            f"{URL_VARIABLE} is set but {TOKEN_VARIABLE} is not, so the judge proxy would reject every call; "
            "pass both variables to the process that calls the judge",
            code="missing_token",
        )
    if not all("!" <= character <= "~" for character in token):
        raise JudgeNotAvailableError(
            f"{TOKEN_VARIABLE} contains characters that are not allowed in a token; pass it exactly as agentv set it",
            code="invalid_token",
        )
    return Access(host, port, token)


def parse_url(url: str) -> tuple[str, int]:
    """Host and port of `http://127.0.0.1:PORT`. URLs that could send the token elsewhere are rejected."""
    scheme, _, rest = url.partition("://")
    name, _, port = rest[: -1 if rest.endswith("/") else None].rpartition(":")
    host = _HOSTS.get(name.lower())
    if scheme.lower() != "http" or host is None or not _is_port(port):
        raise JudgeNotAvailableError(
            f"{URL_VARIABLE} must be http://127.0.0.1:PORT (or localhost or [::1]), "
            f"got {url.rpartition('@')[2]!r}; unset it to turn judge access off, "
            "or pass it exactly as agentv set it",
            code="invalid_url",
        )
    return host, int(port)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def info_request() -> Request:
    return Request("GET", "/info")


def invoke_request(fields: Mapping[str, Any]) -> Request:
    return Request("POST", "/invoke", _encode(_question(fields, "")))


def batch_request(items: Iterable[Mapping[str, Any]]) -> tuple[Request, int]:
    """The request and the number of replies to expect."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        refuse(f"invoke_batch takes a list of mappings, got {_a(items)}; for a single question, call invoke")
    questions = [_question(item, f"requests[{index}]: ") for index, item in enumerate(items)]
    return Request("POST", "/invokeBatch", _encode({"requests": questions})), len(questions)


def _question(item: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        refuse(f"{where}expected a mapping like {{'question': '...'}}, got {_a(item)}")
    for name in item:
        if name not in _NAMES:
            hint = did_you_mean(name, tuple(_NAMES))
            refuse(f"{where}unknown key {name!r}{hint} known keys: {', '.join(_NAMES)}")
    return {_NAMES[name]: value for name, value in item.items() if value is not None}


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it contains an unpaired surrogate" if isinstance(error, UnicodeEncodeError) else error
        refuse(f"the request cannot be serialized as UTF-8 JSON: {reason}; use strings, and an integer for attempt")


def refuse(message: str) -> NoReturn:
    """Raise the error for invalid arguments."""
    raise JudgeProxyError(f"{message}. Nothing was sent.", code="invalid_request")


def parse_info(response: Response) -> JudgeInfo:
    data = _payload(response)
    target, targets = data.get("targetName"), data.get("availableTargets")
    limit, count = data.get("maxCalls"), data.get("callCount")
    if not isinstance(target, str):
        raise _broken(response, f"targetName must be a string, got {_a(target)}")
    if type(limit) is not int or type(count) is not int:
        raise _broken(response, "maxCalls and callCount must be integers")
    if not isinstance(targets, list) or not all(isinstance(name, str) for name in targets):
        raise _broken(response, "availableTargets must be a list of strings")
    waiting, waited = data.get("waitingCalls", 0), data.get("waitedMs", 0)  # older versions of agentv send neither
    if type(waiting) is not int or type(waited) is not int:
        raise _broken(response, "waitingCalls and waitedMs must be integers")
    return JudgeInfo(target, limit, count, targets, waiting_calls=waiting, waited_ms=waited)


def parse_reply(response: Response) -> JudgeReply:
    return _reply(_payload(response), response, "")


def parse_batch(response: Response, expected: int) -> list[JudgeReply]:
    replies = _payload(response).get("responses")
    if not isinstance(replies, list):
        raise _broken(response, f"responses must be a list, got {_a(replies)}")
    if len(replies) != expected:
        raise _broken(response, f"expected {expected} responses, got {len(replies)}")
    return [_reply(item, response, f"responses[{index}].") for index, item in enumerate(replies)]


def _reply(data: Any, response: Response, where: str) -> JudgeReply:
    if not isinstance(data, dict):
        raise _broken(response, f"{where[:-1]} must be an object, got {_a(data)}")
    messages, text, usage = data.get("outputMessages"), data.get("rawText"), data.get("usage")
    error, code = data.get("error"), data.get("code")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise _broken(response, f"{where}outputMessages must be a list of messages")
    for name, value in (("rawText", text), ("error", error), ("code", code)):
        if value is not None and not isinstance(value, str):
            raise _broken(response, f"{where}{name} must be a string, got {_a(value)}")
    if usage is not None and not isinstance(usage, dict):
        raise _broken(response, f"{where}usage must be an object, got {_a(usage)}")
    messages = [_snake(message) for message in messages]
    return JudgeReply(_last_text(messages) if text is None else text, messages, usage, error, code)


def _snake(message: dict[str, Any]) -> dict[str, Any]:
    """The message in snake_case, as in the payload. The contents of tool calls are not changed."""
    return {"tool_calls" if key == "toolCalls" else key: value for key, value in message.items()}


def _last_text(messages: Sequence[Mapping[str, Any]]) -> str:
    for message in reversed(messages):
        if message.get("role") == "assistant":
            content = message.get("content")
            return "".join(map(_text, content)) if isinstance(content, list) else _text(content)
    return ""


def _text(part: Any) -> str:
    if isinstance(part, dict) and part.get("type", "text") == "text":
        part = part.get("value", part.get("text"))
    return part if isinstance(part, str) else ""


def _payload(response: Response) -> dict[str, Any]:
    """The JSON object of a response. Raises an error if the status is not 200."""
    if response.status != 200:
        raise _refusal(response)
    if response.encoding not in (None, "", "identity"):
        raise _broken(response, f"it has the unexpected encoding {response.encoding!r}")
    try:
        data = json.loads(response.body.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        start = response.body[:60].decode("utf-8", "replace")
        seen = f"it starts with {start!r}" if start else "it is empty"
        raise _broken(response, f"not UTF-8 JSON: {seen} ({type(error).__name__})") from error
    if not isinstance(data, dict):
        raise _broken(response, f"expected a JSON object, got {_a(data)}")
    return data


def _refusal(response: Response) -> JudgeProxyError:
    status = response.status
    if 300 <= status < 400:
        return error_for(status, "redirect", f"the judge proxy returned HTTP {status}; redirects are never followed")
    try:
        data = json.loads(response.body.decode())
    except (ValueError, RecursionError):
        data = None
    fields = data if isinstance(data, dict) else {}
    message, code = fields.get("error"), fields.get("code")
    if not isinstance(message, str) or not message:
        message = f"the judge proxy returned HTTP {status} without a message; see the log of the agentv run"
    return error_for(status, code if isinstance(code, str) else None, message)


def _broken(response: Response, reason: str) -> JudgeProxyError:
    return JudgeProxyError(
        f"the response of the judge proxy is invalid: {reason}. The call may have been counted and was not "
        "retried. See the log of the agentv run",
        status=response.status,
        code="invalid_reply",
    )


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _a(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
