"""The error of a judge call, and the time that parsing a request took: what sessions and routes share."""

from __future__ import annotations

from agentv.errors import AgentVError

PARSE_SECONDS = 5.0
LATE = "it did not answer within {:g} s"
"""A call exceeded the deadline of its evaluator, and not that of its target."""


class JudgeCallError(AgentVError):
    """A call without a reply: the HTTP status, the error code, the message and the parameter that it is about."""

    def __init__(self, status: int, code: str, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.parameter = parameter


class TimedCalls:
    """The CPU time that parsing the calls in a body took."""

    def __init__(self) -> None:
        self.seconds = 0.0
