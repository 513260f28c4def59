"""Everything the judge client raises on purpose.

    JudgeProxyError                 status, code, message; itself for other refusals and for broken replies
    +-- JudgeNotAvailableError      no judge to talk to: no or wrong token (401), shut down (503), refused
    +-- JudgeLimitError             the call would pass `judge.max_calls` (429); never tried again
    +-- UnknownTargetError          the target does not exist or is not allowed (400 `unknown_target`)
    +-- JudgeFailedError            the judge itself failed (502) or took too long (504); the call was counted
    +-- JudgeVerdictError           the judge answered, but never with a verdict (`invalid_verdict`)

`status` is the HTTP status, or `None` when there was no answer. `code` is the proxy's machine word, or one of
the client's own: `missing_token`, `invalid_token`, `invalid_url`, `unreachable`, `closed`, `invalid_request`,
`connection_lost`, `invalid_reply`, `redirect`, `client_timeout`, `invalid_verdict`.
"""

from __future__ import annotations


class JudgeProxyError(Exception):
    """A call to the judge proxy did not give a reply."""

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


class JudgeNotAvailableError(JudgeProxyError):
    """There is no judge to talk to."""


class JudgeLimitError(JudgeProxyError):
    """The call would pass the limit of this execution; the evaluator fails whatever the script does now."""


class UnknownTargetError(JudgeProxyError):
    """The chosen target does not exist or is not allowed; the message lists those that are."""


class JudgeFailedError(JudgeProxyError):
    """The judge was called and failed, or did not answer in time."""


class JudgeVerdictError(JudgeProxyError):
    """The judge was asked for a verdict as often as allowed and gave none. `raw_text` is its last reply."""

    def __init__(self, message: str, *, raw_text: str) -> None:
        super().__init__(message, code="invalid_verdict")
        self.raw_text = raw_text


def error_for(status: int, code: str | None, message: str) -> JudgeProxyError:
    """The error that an HTTP status and a machine word stand for."""
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
    """The error of a failed item of a batch: the one that `invoke` would have raised for it."""
    return error_for({"judge_timeout": 504, "shutting_down": 503}.get(code or "", 502), code, message)


def did_you_mean(name: object, known: tuple[str, ...]) -> str:
    """`; did you mean 'question'?`, or a plain `;` when no known name is close."""
    from difflib import get_close_matches  # only a mistake pays for it

    close = get_close_matches(str(name), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ";"
