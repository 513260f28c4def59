"""The lifetime of a judge proxy: its own port on loopback, open while one script runs."""

from __future__ import annotations

from agentv.http.server import Server
from agentv.judge.app import JudgeApp
from agentv.judge.session import JudgeSession


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
