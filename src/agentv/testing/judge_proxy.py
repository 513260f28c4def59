"""A fake judge for tests: a real judge proxy with scripted replies.

    with with_judge_proxy(["yes", "no"]) as judge:
        ...  # clients created here use the proxy; judge.calls lists their calls

A reply is a string, a mapping with `text` or `output_messages`, an agentv `Reply`, or an exception to raise. Pass one
reply for all calls, a list with one reply per call, or a function of the call.
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
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.messages import OPTIONS
from agentv.targets.provider import Provider, Reply, Request
from agentv.targets.providers.function import as_reply
from agentv.testing.loop_thread import loop_thread
from agentv.text import plural
from agentv.wire.apis.registry import VENDORS, variables_of
from agentv.wire.judge import JudgeCall

Answer = str | Mapping[str, Any] | Reply | Exception
Replies = Answer | Sequence[Answer] | Callable[[JudgeCall], Any]

DEFAULT_TARGET = "judge"
URL_VARIABLE = "AGENTV_JUDGE_PROXY_URL"
TOKEN_VARIABLE = "AGENTV_JUDGE_PROXY_TOKEN"  # noqa: S105 - the name of a variable


class ScriptedJudge:
    """A context manager for a judge with scripted replies, available through a judge proxy at `url` with `token`.

    `reply` is the script of the target `judge`; `targets` adds more targets by name. Without `reply`, the first of
    `targets` is the default. `max_calls` limits each execution.
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
                "a scripted judge needs a reply",
                next_step='Pass a reply, a list of replies or a function: judge_proxy("yes").',
            )
        self.calls: list[JudgeCall] = []
        """All accepted calls, in order; `target` is the name of the called target."""
        live = {name: _ScriptedTarget(name, script, self.calls) for name, script in scripts.items()}
        self._targets = JudgeTargets(next(iter(scripts)), live)
        self._max_calls = max_calls
        self._session = self.lend("test")
        self._proxy = JudgeProxy(self._session)
        self._stack = ExitStack()

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
        """The environment variables that clients read, also those of the libraries of vendors."""
        return {URL_VARIABLE: self.url, TOKEN_VARIABLE: self.token, **variables_of(VENDORS, self.url, self.token)}

    @property
    def max_calls(self) -> int:
        return self._max_calls

    @property
    def ledger(self) -> JudgeLedger:
        """The calls of the latest execution: the last script run by `run_judge`, or else this process."""
        return self._session.ledger

    def lend(self, evaluator: str, *, eval_id: str = "", attempt: int = 1) -> JudgeSession:
        """Grant access to another execution, with its own token and limit and the same replies."""
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
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __repr__(self) -> str:
        return f"ScriptedJudge({', '.join(self._targets.live)}; {len(self.calls)} calls)"


class _ScriptedTarget(Provider):
    """One target of a scripted judge."""

    honours = frozenset(OPTIONS)

    def __init__(self, name: str, script: Replies, calls: list[JudgeCall]) -> None:
        self._name = name
        self._calls = calls
        self._replies: deque[Answer] | None = None
        self._count = 0
        self._script: Callable[[JudgeCall], Any]
        if callable(script):
            self._script = script
        elif isinstance(script, str | Mapping | Reply | Exception):
            self._script = lambda _: script
        elif isinstance(script, Sequence):
            self._replies = deque(script)
            self._count = len(self._replies)
            self._script = self._next
        else:
            raise UsageError(
                f"the reply of the scripted judge '{name}' has an unsupported type: {type(script).__name__}",
                next_step="Pass a string, a list of strings or a function of the call.",
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
        if self._replies:
            return self._replies.popleft()
        raise ProviderError(
            f"the scripted judge '{self._name}' has no reply left after {plural(self._count, 'call')}",
            next_step="Add a reply for every call, or pass a single string or a function.",
        )


@contextmanager
def with_judge_proxy(
    reply: Replies | None = None,
    *,
    max_calls: int = DEFAULT_MAX_CALLS,
    targets: Mapping[str, Replies] | None = None,
) -> Iterator[ScriptedJudge]:
    """Start a judge proxy with a scripted judge, and set its environment variables in this process."""
    with ScriptedJudge(reply, max_calls=max_calls, targets=targets) as judge:
        previous = {name: os.environ.get(name) for name in judge.environ}
        os.environ.update(judge.environ)
        try:
            yield judge
        finally:
            for name, value in previous.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
