"""Declares a target down after a number of equal errors in a row, so that its remaining cases are not called."""

from __future__ import annotations

import re

from agentv.errors import ProviderError, TargetDownError

DEFAULT_LIMIT = 20

_VARIES = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"  # a UUID
    r"|\b(?:req|chatcmpl|msg|trace)[-_][\w-]{6,}"  # the request id of a vendor
    r"|\b[0-9a-f]{16,}\b"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?",
    re.IGNORECASE,
)
"""Parts of an error message that differ from call to call although the error is the same."""
_COMPARED = 4_000


class Outage:
    """Counts equal errors in a row of one target. Once it is declared down, it stays down for the rest of the run.

    Two errors are equal if they have the same status and the same message. A successful call or another error starts
    the count again. Retries of one call count once.
    """

    def __init__(self, target: str, limit: int, retry_command: str | None = None) -> None:
        """`limit` is 0 for a target that is never declared down."""
        self._target, self._limit, self._retry_command = target, limit, retry_command
        self._last: tuple[int | None, str] | None = None
        self._count = 0
        self._cause: str | None = None

    def refuse(self) -> None:
        """Raise TargetDownError if the target has been declared down."""
        if self._cause is not None:
            times = "1 error" if self._limit == 1 else f"{self._limit} equal errors in a row"
            hint = (
                f"This call was not made. Run it again with `{self._retry_command}`." if self._retry_command else None
            )
            raise TargetDownError(
                f"target '{self._target}' was declared down after {times}: {self._cause}", next_step=hint
            )

    def succeeded(self) -> None:
        self._last, self._count = None, 0

    def failed(self, error: ProviderError) -> None:
        """Count the error of a call, after its last retry."""
        if self._limit == 0 or self._cause is not None or isinstance(error, TargetDownError):
            return
        kind = (error.status, _VARIES.sub("*", error.message[:_COMPARED]))
        self._count = self._count + 1 if kind == self._last else 1
        self._last = kind
        if self._count >= self._limit:
            self._cause = error.message
