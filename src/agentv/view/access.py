"""Who may use the server of the viewer: a browser that has opened the printed link, and no page of another site.

Checks, in this order: `Host`, so that no other name can be made to lead here (DNS rebinding); Fetch Metadata and
`Origin`, so that pages of other sites, and of other servers on this machine, are refused; then the token of the link or
the cookie, so that other users of this machine are refused.
"""

from __future__ import annotations

import hmac
import secrets
import time

from agentv.http.messages import Refused, Request

OPEN = b"/open"
"""The path of the printed link."""
INVITATION_SECONDS = 60.0
_OWN_SITE = (b"same-origin", b"none")
"""Values of `Sec-Fetch-Site` for requests of our pages, and for an address that was typed or came from a terminal."""
_OPEN_THE_LINK = "Open the link that `agentv view` printed in the terminal."


class Access:
    """The credentials of one server. `host` is the only valid value of `Host`."""

    def __init__(self, token: bytes | None = None) -> None:
        self.token = token or secrets.token_urlsafe(32).encode("ascii")
        self._session = secrets.token_urlsafe(32).encode("ascii")
        self._invitation: tuple[bytes, float] | None = None

    def link(self, host: bytes, place: str) -> str:
        """The link to print. It can be used any number of times."""
        return _link(host, self.token, place)

    def invitation(self, host: bytes, place: str) -> str:
        """A link to start a browser with. It can be used once and soon, because other users see command lines."""
        token = secrets.token_urlsafe(32).encode("ascii")
        self._invitation = token, time.monotonic() + INVITATION_SECONDS
        return _link(host, token, place)

    def check(self, request: Request, host: bytes) -> None:
        """Raise `Refused` unless the request comes from our page, or opens the link."""
        headers = request.headers
        if headers.get(b"host") != host or b"host" in request.repeated:
            raise Refused(421, "misdirected", f"This server is http://{host.decode()}. {_OPEN_THE_LINK}")
        if headers.get(b"sec-fetch-site", b"none") not in _OWN_SITE or headers.get(b"origin", _origin(host)) != _origin(
            host
        ):
            message = f"A page of another site sent this request. {_OPEN_THE_LINK} Copy it to the address bar."
            raise Refused(403, "forbidden", message)
        is_known = self._has_token(request) if request.path == OPEN else self._has_cookie(request, host)
        if not is_known:
            raise Refused(401, "unauthorized", _OPEN_THE_LINK)

    def cookie(self, host: bytes) -> str:
        """The header that gives the browser the cookie. It ends with the browser, or with this server."""
        return f"{_cookie_name(host).decode()}={self._session.decode()}; Path=/; HttpOnly; SameSite=Strict"

    def _has_token(self, request: Request) -> bool:
        query = request.target.partition(b"?")[2]
        is_invited = False
        if self._invitation is not None:
            token, end = self._invitation
            is_invited = (
                request.method == b"GET" and hmac.compare_digest(query, b"t=" + token) and time.monotonic() < end
            )
            if is_invited:
                self._invitation = None
        return hmac.compare_digest(query, b"t=" + self.token) or is_invited

    def _has_cookie(self, request: Request, host: bytes) -> bool:
        name = _cookie_name(host)
        pairs = [pair.strip().partition(b"=") for pair in request.headers.get(b"cookie", b"").split(b";")]
        matches = [hmac.compare_digest(value, self._session) for key, _, value in pairs if key == name]
        return any(matches) and b"cookie" not in request.repeated


def _link(host: bytes, token: bytes, place: str) -> str:
    return f"http://{host.decode()}{OPEN.decode()}?t={token.decode()}{place}"


def _origin(host: bytes) -> bytes:
    return b"http://" + host


def _cookie_name(host: bytes) -> bytes:
    """Cookies do not depend on the port, so two servers must not have the same name for theirs."""
    return b"agentv-" + host.rpartition(b":")[2]
