"""The judge proxy: an HTTP server on loopback in front of one judge session, with its routes, checks and errors."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from itertools import repeat
from typing import Self

from agentv import workers
from agentv.errors import EvaluatorError
from agentv.http.app import App, Handler, Response, Route
from agentv.http.budget import ClientBudget, ClientLimits
from agentv.http.messages import Refused, Request
from agentv.http.server import Server
from agentv.judge.call_error import JudgeCallError, TimedCalls
from agentv.judge.proxied import ProxiedSession, read_calls
from agentv.processes import descriptors
from agentv.text import one_of
from agentv.wire.apis.registry import APIS, MODEL, MODELS, Vendor, error_body, vendor_at
from agentv.wire.judge import InvalidRequestError, JudgeCall, error_object, to_json

SPARE_CONNECTIONS = 256
"""Connections besides one per call that the script may make, and connections without the token."""
MOST_CONNECTIONS = 1024
BODY_BYTES = 32 * 1024 * 1024
MOST_REFUSED = 1_000
CPU_SECONDS = 10.0
CPU_SECONDS_PER_CALL = 0.02
NO_RETRY = (("x-should-retry", "false"),)
"""Tells client libraries not to repeat a request, which would be another judge call."""
TIMEOUTS = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""Clients of OpenAI and Anthropic announce their timeout, in Node with the second. One that gives up asks again."""
SENDING_SECONDS, LONGEST_TIMEOUT = 0.5, 86_400.0
TOO_LATE = (
    "no reply after {:g} s, and the client would not wait longer; raise its timeout, or limit the time of a call with "
    "`judge.timeout_seconds` (the call counts)"
)
OWN_ROUTES = ("GET /info", "POST /invoke", "POST /invokeBatch")
NOT_SUPPORTED = (
    "the judge proxy only supports POST /v1/chat/completions, /v1/responses, /v1/messages and /v1/embeddings, POST "
    "/v1beta/models/MODEL:generateContent and GET /v1/models; judges get no files, images or audio"
)


def limits_of(max_calls: int) -> ClientLimits:
    """What a script may use of its proxy. No script that stays within its call limit notices these limits."""
    share = max(SPARE_CONNECTIONS, descriptors.limit() // 8)
    return ClientLimits(
        connections=min(SPARE_CONNECTIONS + max_calls, MOST_CONNECTIONS, share),
        strangers=min(SPARE_CONNECTIONS, MOST_CONNECTIONS),
        body_bytes=BODY_BYTES,
        refused=MOST_REFUSED,
        cpu_seconds=CPU_SECONDS + CPU_SECONDS_PER_CALL * max_calls,
    )


class JudgeProxy(Server):
    """Serves one session while it is entered; `url` is the value of AGENTV_JUDGE_PROXY_URL.

    Leaving closes the port, the session and every connection, without waiting for clients. A script that exceeds the
    limits of its proxy ends it, and `session.overuse` is set.
    """

    def __init__(self, session: ProxiedSession) -> None:
        app = JudgeApp(session)
        super().__init__(app, limits=limits_of(session.max_calls), on_exceeded=session.end_for_overuse)
        app.budget = self.budget
        self.session = session

    async def __aenter__(self) -> Self:
        try:
            await descriptors.when_free(self.listen)
        except OSError as error:
            happened, next_step = descriptors.explain(error) if descriptors.ran_out(error) else (str(error), None)
            message = f"the judge proxy could not start: {happened}. The script was not started"
            raise EvaluatorError(message, next_step=next_step) from error
        return self

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

    def __init__(self, session: ProxiedSession) -> None:
        self._session = session
        self._token = session.token.encode("ascii")
        self.budget = ClientBudget(ClientLimits())
        super().__init__()

    # -- routes

    async def _info(self, _: Request) -> Response:
        started = time.perf_counter()
        body = to_json(await self._session.describe())
        self.budget.charge(time.perf_counter() - started)
        return Response(200, body)

    async def _invoke(self, request: Request) -> Response:
        (call,) = await self._calls(request, batch=False)
        return Response(200, to_json(await self._session.answer(call)))

    async def _invoke_batch(self, request: Request) -> Response:
        calls = await self._calls(request, batch=True)
        return Response(200, to_json({"responses": await self._session.answer_batch(calls)}))

    async def _calls(self, request: Request, *, batch: bool) -> tuple[JudgeCall, ...]:
        body, request.body = request.body, b""
        timed = TimedCalls()
        try:
            return await read_calls(self._session, body, batch=batch, timed=timed)
        finally:
            self.budget.charge(timed.seconds)

    async def _api(self, request: Request) -> Response:
        """A request to the API of a vendor, as its client libraries send it."""
        body, request.body = request.body, b""
        timed, patience = TimedCalls(), _patience_of(request)
        try:
            async with asyncio.timeout(patience) as deadline:
                method, path = request.method.decode("ascii"), request.path.decode("ascii")
                reply = await self._session.answer_api(method, path, body, timed)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise JudgeCallError(504, "judge_timeout", TOO_LATE.format(patience)) from None
        finally:
            self.budget.charge(timed.seconds)
        return Response(200, reply.body, reply.content_type)

    routes = (
        Route("GET", "/info", _info),
        Route("POST", "/invoke", _invoke),
        Route("POST", "/invokeBatch", _invoke_batch),
        *map(Route, repeat("POST"), APIS, repeat(_api)),
        *map(Route, repeat("GET"), (*MODELS, MODEL), repeat(_api)),
    )

    def handler_of(self, request: Request) -> Handler:
        try:
            return super().handler_of(request)
        except Refused as refused:
            if refused.status == 404 and _vendor_of(request) is not None:
                raise Refused(404, "not_supported", NOT_SUPPORTED) from None
            if refused.status == 404:
                raise Refused(404, "not_found", f"unknown path; use {one_of(OWN_ROUTES)}") from None
            raise

    # -- checks before every route: token, host, origin

    def admit(self, request: Request) -> None:
        headers = request.headers
        authorization = headers.get(b"authorization", b"")
        bearer = authorization[:7].lower() == b"bearer " and b"authorization" not in request.repeated
        presented = [authorization[7:].strip(b" ")] if bearer else []
        vendor = _vendor_of(request)
        own = None if vendor is None else vendor.key_header
        if own in headers and own not in request.repeated:
            presented.append(headers[own])
        matches = [hmac.compare_digest(token, self._token) for token in presented]
        if not any(matches):
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
            return _RefusedCall(error)
        if isinstance(error, workers.WorkerError):
            message = "the body could not be parsed in time and memory; send less in one request"
            return Refused(400, "invalid_request", message)
        return super().failure(error)

    def crashed(self) -> Refused:
        return Refused(502, "judge_failed", super().crashed().message)

    def error(self, refused: Refused, request: Request | None) -> Response:
        message = self._session.clean(refused.message)
        vendor = _vendor_of(request)
        if vendor is None:
            return Response(refused.status, to_json(error_object(message, refused.code)), headers=refused.headers)
        parameter = refused.parameter if isinstance(refused, _RefusedCall) else None
        body = to_json(error_body(vendor, refused.status, refused.code, message, parameter))
        return Response(refused.status, body, headers=(*refused.headers, *NO_RETRY))


class _RefusedCall(Refused):
    """A judge call without a reply."""

    def __init__(self, error: JudgeCallError) -> None:
        super().__init__(error.status, error.code, error.message)
        self.parameter = error.parameter


def _patience_of(request: Request) -> float | None:
    """How many seconds a client waits for a reply, minus the time to send one; None if it does not say."""
    announced = (request.headers[name] for name in TIMEOUTS if name in request.headers)
    try:
        seconds = float(next(announced, b""))
    except ValueError:
        return None
    return seconds - min(SENDING_SECONDS, seconds / 10) if 0 < seconds < LONGEST_TIMEOUT else None


def _vendor_of(request: Request | None) -> Vendor | None:
    """The vendor whose client library sent the request; None for a client of the judge proxy itself."""
    return None if request is None else vendor_at(request.path.decode("latin-1"))


def _unauthorized() -> Refused:
    message = "send `Authorization: Bearer <token>` with the token from AGENTV_JUDGE_PROXY_TOKEN"
    return Refused(401, "unauthorized", message, (("WWW-Authenticate", "Bearer"),))
