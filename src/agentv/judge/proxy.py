"""The judge proxy: an HTTP server on loopback in front of one judge session, with its routes, checks and errors."""

from __future__ import annotations

import hmac
import re
from typing import Any

from agentv.http.app import App, Response, Route
from agentv.http.messages import Refused, Request
from agentv.http.server import Server
from agentv.judge.session import JudgeCallError, JudgeSession
from agentv.targets.provider import Reply
from agentv.wire.judge import (
    InvalidRequestError,
    error_object,
    failed_object,
    parse_batch,
    parse_invoke,
    reply_object,
    to_json,
)


class JudgeProxy(Server):
    """Serves one session while it is entered; `url` is the value of AGENTV_JUDGE_PROXY_URL.

    Leaving closes the port, the session and every connection, without waiting for clients.
    """

    def __init__(self, session: JudgeSession) -> None:
        super().__init__(JudgeApp(session))
        self.session = session

    @property
    def token(self) -> str:
        """The value of AGENTV_JUDGE_PROXY_TOKEN."""
        return self.session.token

    async def __aexit__(self, *exc_info: object) -> None:
        self.session.close()
        await super().__aexit__(*exc_info)


_TOKENS = re.compile(rb"^authorization:[ \t]*bearer +([\x21-\x7e]+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


class JudgeApp(App):
    """The routes of one session. Replies and errors are JSON, with secret values masked."""

    def __init__(self, session: JudgeSession) -> None:
        self._session = session
        self._token = session.token.encode("ascii")
        super().__init__()

    # -- routes

    async def _info(self, _: Request) -> Response:
        return Response(200, to_json(self._session.info()))

    async def _invoke(self, request: Request) -> Response:
        return Response(200, to_json(self._render(await self._session.invoke(parse_invoke(request.body)))))

    async def _invoke_batch(self, request: Request) -> Response:
        replies = await self._session.invoke_batch(parse_batch(request.body))
        return Response(200, to_json({"responses": [self._render(reply) for reply in replies]}))

    def _render(self, reply: Reply | JudgeCallError) -> dict[str, Any]:
        if isinstance(reply, JudgeCallError):
            return failed_object(reply.message, reply.code)
        rendered: dict[str, Any] = self._session.masked(reply_object(reply.output_messages, reply.token_usage))
        return rendered

    routes = (
        Route("GET", "/info", _info),
        Route("POST", "/invoke", _invoke),
        Route("POST", "/invokeBatch", _invoke_batch),
    )

    # -- checks before every route: token, host, origin

    def admit(self, request: Request) -> None:
        headers = request.headers
        authorization = headers.get(b"authorization", b"")
        bearer = authorization[:7].lower() == b"bearer " and b"authorization" not in request.repeated
        if not (bearer and hmac.compare_digest(authorization[7:].strip(b" "), self._token)):
            raise _unauthorized()
        if headers.get(b"host", b"").lower() not in self.hosts or b"host" in request.repeated:
            raise Refused(421, "misdirected", "the Host header must be the host and port of AGENTV_JUDGE_PROXY_URL")
        if b"origin" in headers:
            raise Refused(403, "forbidden", "requests with an Origin header (from web pages) are refused")

    def unreadable(self, head: bytes, refused: Refused) -> Refused:
        """The reason is sent only to clients with the token; others get 401."""
        matches = [hmac.compare_digest(token, self._token) for token in _TOKENS.findall(head)]
        return refused if any(matches) else _unauthorized()

    # -- errors

    def failure(self, error: Exception) -> Refused | None:
        if isinstance(error, InvalidRequestError):
            return Refused(400, "invalid_request", str(error))
        if isinstance(error, JudgeCallError):
            return Refused(error.status, error.code, error.message)
        return super().failure(error)

    def crashed(self) -> Refused:
        return Refused(502, "judge_failed", super().crashed().message)

    def error(self, refused: Refused) -> Response:
        body = to_json(error_object(self._session.clean(refused.message), refused.code))
        return Response(refused.status, body, headers=refused.headers)


def _unauthorized() -> Refused:
    message = "send `Authorization: Bearer <token>` with the token from AGENTV_JUDGE_PROXY_TOKEN"
    return Refused(401, "unauthorized", message, (("WWW-Authenticate", "Bearer"),))
