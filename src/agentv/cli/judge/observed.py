"""A `code_judge` under observation: its payload, its log, its judge calls, with every secret masked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from pydantic import Field

from agentv.evaluators.base import EvaluationContext
from agentv.evaluators.code_judge import CodeJudge
from agentv.judge.access import JudgeAccess
from agentv.judge.session import JudgeCallError, JudgeSession
from agentv.processes.launcher import Script
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import Score

LONGEST_LINE = 16 * 1024
"""A line of a log is shown in pieces of this length: a script may write without ever ending a line."""


class Show(Protocol):
    """Where what is observed goes; all of it is masked already."""

    def payload(self, payload: dict[str, Any]) -> None: ...
    def stderr(self, line: str) -> None: ...
    def call(self, record: dict[str, Any]) -> None: ...
    def refused(self, message: str) -> None: ...


class Observer:
    """Takes in what a script does, as it happens, and hands it on masked."""

    def __init__(self, show: Show) -> None:
        self.redactor: Redactor = NO_SECRETS
        self._show = show
        self.payload: bytes | None = None
        """What the script got, masked."""
        self._line = bytearray()
        self._cut = False

    def started(self, payload: bytes) -> None:
        """The script is about to get this on stdin."""
        data = json.loads(payload)
        masked = self.redactor.value(data)
        same = masked == data
        self.payload = payload if same else json.dumps(masked, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self._show.payload(masked)

    def stderr(self, chunk: bytes) -> None:
        """Lines are shown when they are whole, so that a secret in one is found."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._line += line
            self._flush()
        self._line += rest
        while len(self._line) > LONGEST_LINE:
            more = self._line[LONGEST_LINE:]
            del self._line[LONGEST_LINE:]
            self._flush(goes_on=True)
            self._line += more

    def finish(self) -> None:
        """Show what is left of a last line that was not ended."""
        if self._line:
            self._flush()

    def _flush(self, *, goes_on: bool = False) -> None:
        text = self._line.decode("utf-8", "backslashreplace")
        self._line.clear()
        self._show.stderr(self.redactor.text(text, cut_start=self._cut, cut_end=goes_on))
        self._cut = goes_on

    def call(self, record: dict[str, Any]) -> None:
        """A judge call has ended. The session has masked its record."""
        self._show.call(record)

    def refused(self, error: JudgeCallError) -> None:
        self._show.refused(error.message)


class ObservedJudge(CodeJudge):
    """A `code_judge` that tells an observer what it does. `given` is sent in place of a payload made from the case."""

    observer: Any = Field(exclude=True)
    given: bytes | None = Field(None, exclude=True)

    def payload(self, context: EvaluationContext) -> bytes:
        payload = super().payload(context) if self.given is None else self.given
        self.observer.started(payload)
        return payload

    async def evaluate(self, context: EvaluationContext) -> Score:
        runtime = context.runtime
        assert runtime is not None  # noqa: S101 - a plan with scripts has one

        def lend(access: JudgeAccess, evaluator: str, lent_for: Any, *, script: bool = True) -> JudgeSession:
            session = runtime.lend(access, evaluator, lent_for, script=script)
            session.on_refused = self.observer.refused
            return session

        return await super().evaluate(replace(context, runtime=replace(runtime, lend=lend)))

    def _script(
        self,
        context: EvaluationContext,
        payload: bytes,
        environment: dict[str, str],
        *,
        isolate: bool,
        access: Mapping[str, str] | None = None,
    ) -> Script:
        script = super()._script(context, payload, environment, isolate=isolate, access=access)
        return replace(script, on_stderr=self.observer.stderr)
