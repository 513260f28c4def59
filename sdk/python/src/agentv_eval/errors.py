"""Errors raised by the judge client.

    JudgeProxyError                 status, code, message; raised directly for other refusals and invalid responses
    +-- JudgeNotAvailableError      no judge: missing or wrong token (401), shutting down (503), connection refused
    +-- JudgeLimitError             the call would exceed `judge.max_calls` (429); never retried
    +-- UnknownTargetError          the target does not exist or is not allowed (400 `unknown_target`)
    +-- JudgeFailedError            the judge failed (502) or timed out (504); the call was counted
    +-- JudgeVerdictError           the judge replied, but never with a valid verdict (`invalid_verdict`)

`status` is the HTTP status, or `None` if no response was received. `code` is the error code sent by the proxy, or one
set by the client: `missing_token`, `invalid_token`, `invalid_url`, `unreachable`, `closed`, `invalid_request`,
`connection_lost`, `invalid_reply`, `redirect`, `client_timeout`, `invalid_verdict`.
"""

from __future__ import annotations


class JudgeProxyError(Exception):
    """A call to the judge proxy failed."""

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


class JudgeNotAvailableError(JudgeProxyError):
    """No judge is available."""


class JudgeLimitError(JudgeProxyError):
    """The call would exceed the call limit. The evaluator fails, whatever the script returns."""


class UnknownTargetError(JudgeProxyError):
    """The requested target does not exist or is not allowed. The message lists the allowed targets."""


class JudgeFailedError(JudgeProxyError):
    """The judge was called and failed or timed out."""


class JudgeVerdictError(JudgeProxyError):
    """No attempt returned a valid verdict. `raw_text` is the judge's last reply."""

    def __init__(self, message: str, *, raw_text: str) -> None:
        super().__init__(message, code="invalid_verdict")
        self.raw_text = raw_text


def error_for(status: int, code: str | None, message: str) -> JudgeProxyError:
    """The error for an HTTP status and an error code."""
    kind = JudgeProxyError
    if status in (401, 503):
        kind = JudgeNotAvailableError
    elif status == 429:
        kind = JudgeLimitError
    elif status in (502, 504):
        kind = JudgeFailedError
    elif status == 400 and code == "unknown_target":
        kind = UnknownTargetError
    return kind(message, status=status, code=code)


def failed_item(message: str, code: str | None) -> JudgeProxyError:
    """The error for a failed batch item: the same that `invoke` would have raised."""
    return error_for({"judge_timeout": 504, "shutting_down": 503}.get(code or "", 502), code, message)


def did_you_mean(name: object, known: tuple[str, ...]) -> str:
    """`; did you mean 'question'?`, or just `;` if no known name is similar."""
    from difflib import get_close_matches  # loaded only for errors

    close = get_close_matches(str(name), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ";"
