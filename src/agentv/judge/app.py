"""What HTTP means at the judge proxy: which check comes first, which status says what. No sockets, no lifetime.

`screen` makes every check that needs no body, in this order: token, host, origin, path, method, length and
encoding. `answer` reads the body and asks the session, which checks the target and then the limit.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Any

from agentv.judge.http1 import MAX_BODY, BadRequestError, Body, BodyTooLargeError, Head, body_of
from agentv.judge.session import JudgeCallError, JudgeSession
from agentv.wire.judge_replies import error_object, to_json
from agentv.wire.judge_requests import InvalidRequestError, parse_batch, parse_invoke

ROUTES = {b"/info": b"GET", b"/invoke": b"POST", b"/invokeBatch": b"POST"}

_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    421: b"Misdirected Request",
    429: b"Too Many Requests",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}
_NOT_ANSWERED_ON = (401, 403, 408, 421, 503)
"""After these the connection is closed, body or not."""
_TOKENS = re.compile(rb"^authorization:[ \t]*bearer +([\x21-\x7e]+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_COMMON = b"Content-Type: application/json\r\nCache-Control: no-store\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a JSON body, and headers of its own."""

    status: int
    body: bytes
    headers: bytes = b""

    @property
    def ends_connection(self) -> bool:
        return self.status in _NOT_ANSWERED_ON

    def to_bytes(self, *, close: bool, head_only: bool = False) -> bytes:
        """The response as sent. A reply to HEAD has no body, and so names no length."""
        ending = b"Connection: close\r\n\r\n" if close else b"\r\n"
        start = b"HTTP/1.1 %d %b\r\n%b%b" % (self.status, _REASONS[self.status], _COMMON, self.headers)
        if head_only:
            return start + ending
        return b"%bContent-Length: %d\r\n%b%b" % (start, len(self.body), ending, self.body)


class JudgeApp:
    """The HTTP face of one session, served on one port."""

    def __init__(self, session: JudgeSession) -> None:
        self._session = session
        self._token = session.token.encode("ascii")
        self._hosts: frozenset[bytes] = frozenset()

    def serve_on(self, port: int) -> None:
        """Which port `Host` must name."""
        self._hosts = frozenset(b"%b:%d" % (host, port) for host in (b"127.0.0.1", b"localhost", b"[::1]"))

    def screen(self, head: Head) -> Body | Answer | None:
        """How to read the body (None: there is none), or the answer when the request is refused as it stands."""
        headers = head.headers
        if not self._authorized(head):
            return self._unauthorized()
        if headers.get(b"host", b"").lower() not in self._hosts or b"host" in head.repeated:
            return self._error(
                421, "misdirected", "the Host header must name this proxy; use AGENTV_JUDGE_PROXY_URL as it is"
            )
        if b"origin" in headers:
            return self._error(403, "forbidden", "requests from web pages (with an Origin header) are refused")
        method = ROUTES.get(head.path)
        if method is None:
            return self._error(404, "not_found", "there is GET /info, POST /invoke and POST /invokeBatch")
        if head.method != method:
            name = method.decode()
            return self._error(405, "method_not_allowed", f"use {name} for this path", b"Allow: %b\r\n" % method)
        return self._framing(head)

    async def answer(self, head: Head, body: bytes) -> Answer:
        """The answer to a request that was screened and whose body is there."""
        try:
            return Answer(200, to_json(await self._result(head.path, body)))
        except InvalidRequestError as error:
            return self._error(400, "invalid_request", str(error))
        except JudgeCallError as error:
            return self._error(error.status, error.code, error.message)

    def unreadable(self, block: bytes | bytearray, error: BadRequestError) -> Answer:
        """The answer to bytes that are no request. Only who shows the token there is told what is wrong with them."""
        shown = [hmac.compare_digest(given, self._token) for given in _TOKENS.findall(block)]
        return self.refused(error) if any(shown) else self._unauthorized()

    def refused(self, error: Exception) -> Answer:
        """The answer to a request whose framing is wrong, or whose body turned out to be none."""
        if isinstance(error, BodyTooLargeError):
            limit = MAX_BODY // 2**20
            return self._error(413, "payload_too_large", f"the body is over {limit} MiB; ask with less text")
        return self._error(400, "invalid_request", str(error))

    def body_too_late(self, seconds: float) -> Answer:
        message = f"the body did not arrive within {seconds:g} s; send it at once"
        return self._error(408, "request_timeout", message)

    def crashed(self) -> Answer:
        """The answer when our own code failed; what went wrong is for the runtime's eyes."""
        return self._error(502, "judge_failed", "agentv failed to handle this request; please report it")

    async def _result(self, path: bytes, body: bytes) -> dict[str, Any]:
        if path == b"/invoke":
            return await self._session.invoke(parse_invoke(body))
        if path == b"/invokeBatch":
            return {"responses": await self._session.invoke_batch(parse_batch(body))}
        return self._session.info()

    def _unauthorized(self) -> Answer:
        message = "send `Authorization: Bearer <token>` with the token from AGENTV_JUDGE_PROXY_TOKEN"
        return self._error(401, "unauthorized", message, b"WWW-Authenticate: Bearer\r\n")

    def _authorized(self, head: Head) -> bool:
        given = head.headers.get(b"authorization", b"")
        if given[:7].lower() != b"bearer " or b"authorization" in head.repeated:
            return False
        return hmac.compare_digest(given[7:].strip(b" "), self._token)

    def _framing(self, head: Head) -> Body | Answer | None:
        headers = head.headers
        if b"upgrade" in headers or b"x-http-method-override" in headers:
            message = "the proxy speaks plain HTTP/1.1; send neither Upgrade nor X-HTTP-Method-Override"
            return self._error(400, "invalid_request", message)
        coding = headers.get(b"transfer-encoding", b"chunked").lower()
        encoding = headers.get(b"content-encoding", b"").lower()
        doubled = head.repeated & {b"transfer-encoding", b"content-encoding"}
        if coding != b"chunked" or encoding not in (b"", b"identity") or doubled:
            message = "send the body as plain JSON, without Content-Encoding, whole or in chunks"
            return self._error(415, "unsupported_encoding", message)
        try:
            return body_of(head)
        except (BadRequestError, BodyTooLargeError) as error:
            return self.refused(error)

    def _error(self, status: int, code: str, message: str, headers: bytes = b"") -> Answer:
        return Answer(status, to_json(error_object(self._session.clean(message), code)), headers)
