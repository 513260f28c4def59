"""A judge for tests: a real judge proxy in front of scripted replies.

    with with_judge_proxy(["yes", "no"]) as judge:
        ...  # whatever makes a client here finds the proxy; judge.calls says what was asked

A reply is text, a mapping with `text` or `output_messages`, an agentv `Reply`, or an exception for a judge that
fails. Scripted is one reply for every call, a list with one for each, or a function of the call.
"""

from __future__ import annotations

import inspect
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from agentv.errors import ProviderError, UsageError
from agentv.judge.ledger import DEFAULT_MAX_CALLS, JudgeLedger
from agentv.judge.proxy import JudgeProxy
from agentv.judge.session import JudgeSession, JudgeTargets
from agentv.targets.provider import Provider, Reply, Request
from agentv.targets.providers.function import as_reply
from agentv.testing.loop_thread import loop_thread
from agentv.wire.judge import JudgeCall

Answer = str | Mapping[str, Any] | Reply | Exception
Replies = Answer | Sequence[Answer] | Callable[[JudgeCall], Any]

DEFAULT_TARGET = "judge"
URL_VARIABLE = "AGENTV_JUDGE_PROXY_URL"
TOKEN_VARIABLE = "AGENTV_JUDGE_PROXY_TOKEN"  # noqa: S105 - the name of a variable


class ScriptedJudge:
    """A judge with scripted replies. While it is entered, a judge proxy lends it at `url` for `token`.

    `reply` is the script of the target `judge`; `targets` are more of them by name. Without `reply` the first of
    `targets` is the default. `max_calls` is the limit of each execution.
    """

    def __init__(
        self,
        reply: Replies | None = None,
        *,
        max_calls: int = DEFAULT_MAX_CALLS,
        targets: Mapping[str, Replies] | None = None,
    ) -> None:
        scripts = {**({} if reply is None else {DEFAULT_TARGET: reply}), **(targets or {})}
        if not scripts:
            raise UsageError(
                "a scripted judge needs something to say",
                next_step='Give a reply, a list of replies or a function: judge_proxy("yes").',
            )
        self.calls: list[JudgeCall] = []
        """Every call that was let through, in order; `target` is the name of the target that was asked."""
        live = {name: _ScriptedTarget(name, script, self.calls) for name, script in scripts.items()}
        self._targets = JudgeTargets(next(iter(scripts)), live)
        self._max_calls = max_calls
        self._session = self.lend("test")
        self._proxy = JudgeProxy(self._session)
        self._entered = ExitStack()

    @property
    def url(self) -> str:
        """The value of AGENTV_JUDGE_PROXY_URL."""
        return self._proxy.url

    @property
    def token(self) -> str:
        """The value of AGENTV_JUDGE_PROXY_TOKEN."""
        return self._proxy.token

    @property
    def environ(self) -> dict[str, str]:
        """The two variables that a client reads."""
        return {URL_VARIABLE: self.url, TOKEN_VARIABLE: self.token}

    @property
    def max_calls(self) -> int:
        return self._max_calls

    @property
    def ledger(self) -> JudgeLedger:
        """The count of the latest execution: of the script that `run_judge` ran last, else of this process."""
        return self._session.ledger

    def lend(self, evaluator: str, *, eval_id: str = "", attempt: int = 1) -> JudgeSession:
        """The permission of one more execution: its own token and limit, the same scripted replies."""
        self._session = JudgeSession(
            self._targets, evaluator=evaluator, max_calls=self._max_calls, eval_id=eval_id, attempt=attempt
        )
        self._session.limit_setting = "`max_calls` of the scripted judge"
        return self._session

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            run = stack.enter_context(loop_thread())
            run(self._proxy.__aenter__())
            stack.callback(lambda: run(self._proxy.__aexit__(None, None, None)))
            self._entered = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def __repr__(self) -> str:
        return f"ScriptedJudge({', '.join(self._targets.live)}; {len(self.calls)} calls)"


class _ScriptedTarget(Provider):
    """One target of a scripted judge."""

    def __init__(self, name: str, script: Replies, calls: list[JudgeCall]) -> None:
        self._name = name
        self._calls = calls
        self._listed: deque[Answer] | None = None
        self._given = 0
        self._script: Callable[[JudgeCall], Any]
        if callable(script):
            self._script = script
        elif isinstance(script, str | Mapping | Reply | Exception):
            self._script = lambda _: script
        elif isinstance(script, Sequence):
            self._listed = deque(script)
            self._given = len(self._listed)
            self._script = self._next
        else:
            raise UsageError(
                f"the scripted judge '{name}' cannot say {type(script).__name__}",
                next_step="Give a string, a list of strings, or a function of the call.",
            )

    async def invoke(self, request: Request) -> Reply:
        call = JudgeCall(
            None,
            None,
            request.eval_id,
            request.attempt,
            self._name,
            messages=request.messages,
            options=request.options,
        )
        self._calls.append(call)
        answer = self._script(call)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return as_reply(answer)

    def _next(self, _: JudgeCall) -> Answer:
        if self._listed:
            return self._listed.popleft()
        raise ProviderError(
            f"the scripted judge '{self._name}' has no reply left: {self._given} were given, and this is one call more",
            next_step="List a reply for every call, or give one text for all of them, or a function.",
        )


@contextmanager
def with_judge_proxy(
    reply: Replies | None = None,
    *,
    max_calls: int = DEFAULT_MAX_CALLS,
    targets: Mapping[str, Replies] | None = None,
) -> Iterator[ScriptedJudge]:
    """A scripted judge behind a real judge proxy, and its two variables in the environment of this process."""
    with ScriptedJudge(reply, max_calls=max_calls, targets=targets) as judge:
        before = {name: os.environ.get(name) for name in judge.environ}
        os.environ.update(judge.environ)
        try:
            yield judge
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
