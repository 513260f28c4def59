"""The pytest plugin: `judge_proxy` starts a scripted judge, and `run_judge` runs a judge script.

pytest loads this module for every test run in an environment with agentv, so agentv is imported only when a fixture is
used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentv.testing.judge_proxy import ScriptedJudge
    from agentv.testing.judge_script import JudgeRun

pytest_plugins = ["agentv.pytest_suites.plugin"]
"""Collects suites. A plugin of pytest, like this module, that `-p no:agentv` disables, too."""

_LATEST: Any = object()


class LendJudge:
    """`judge_proxy(reply, max_calls=..., targets=...)`: start a scripted judge that runs until the test ends."""

    def __init__(self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stack = stack
        self._monkeypatch = monkeypatch
        self.latest: ScriptedJudge | None = None

    def __call__(self, reply: Any = None, **options: Any) -> ScriptedJudge:
        from agentv.testing.judge_proxy import ScriptedJudge  # noqa: PLC0415 - imported only by tests that use it

        judge = self._stack.enter_context(ScriptedJudge(reply, **options))
        for name, value in judge.environ.items():
            self._monkeypatch.setenv(name, value)
        self.latest = judge
        return judge


class RunJudge:
    """`run_judge(script, payload)`: run a script with the latest judge of `judge_proxy` in this test, if any."""

    def __init__(self, lent: LendJudge) -> None:
        self._lent = lent

    def __call__(self, script: Any, payload: Any = None, *, judge: Any = _LATEST, **options: Any) -> JudgeRun:
        from agentv.testing.judge_script import run_judge  # noqa: PLC0415 - as above

        return run_judge(script, payload, judge=self._lent.latest if judge is _LATEST else judge, **options)


@pytest.fixture
def judge_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[LendJudge]:
    """Start a scripted judge: `judge_proxy("yes")`, `judge_proxy(["yes", "no"])`, `judge_proxy(lambda call: ...)`."""
    with ExitStack() as stack:
        yield LendJudge(stack, monkeypatch)


@pytest.fixture
def run_judge(judge_proxy: LendJudge) -> RunJudge:
    """Run a judge script as agentv does: `run_judge("judges/precision.py", {"candidate_answer": "Paris"}).score`."""
    return RunJudge(judge_proxy)
