"""Run a judge script as agentv runs it: a real process, a payload on stdin, its result read and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.command import INTERPRETERS, split_command
from agentv.errors import EvaluatorError, UsageError
from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.function import FunctionEvaluator
from agentv.evaluators.scoring import judge as evaluate
from agentv.processes.launcher import Launcher
from agentv.results import EvaluatorResult, Score
from agentv.scripts import Runtime, ScriptSpec, run_script
from agentv.suite.suite import EvalCase
from agentv.targets.environment import Environment
from agentv.testing.loop_thread import loop_thread
from agentv.text import did_you_mean
from agentv.wire.payload import KEYS, encode_payload, with_empty_values

if TYPE_CHECKING:
    from agentv.testing.judge_proxy import ScriptedJudge

Program = str | os.PathLike[str] | Sequence[str]

DEFAULTS: Mapping[str, Any] = {"eval_id": "test", "attempt": 1}
"""Keys that every case has a value for."""


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """What became of a judge script: a score with its reasons, or `error`.

    A script that failed has no score. Reading one raises `EvaluatorError` with the message, so that a test cannot
    take a crash for a score of 0.
    """

    result: EvaluatorResult
    """What agentv would record."""

    @property
    def error(self) -> str | None:
        """Why there is no score; None when there is one."""
        return self.result.error

    @property
    def score(self) -> float:
        return self._judged().score

    @property
    def hits(self) -> tuple[str, ...]:
        return self._judged().hits

    @property
    def misses(self) -> tuple[str, ...]:
        return self._judged().misses

    @property
    def reasoning(self) -> str:
        return self._judged().reasoning

    @property
    def details(self) -> Mapping[str, Any] | None:
        return self._judged().details

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._judged().warnings

    @property
    def ledger(self) -> Mapping[str, Any] | None:
        """What it asked of the judge, also when it failed; None without judge access."""
        return self.result.judge_proxy

    def _judged(self) -> EvaluatorResult:
        if self.result.error is not None:
            raise EvaluatorError(f"the judge script failed, so that it gave no score: {self.result.error}")
        return self.result


def run_judge(
    script: Program,
    payload: Any = None,
    *,
    judge: ScriptedJudge | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout_seconds: float = 60.0,
) -> JudgeRun:
    """Run a judge script on a payload and read its result.

    `script` is a file, a command line or a list of words. `payload` is a mapping with the keys that the script
    reads, or an `agentv_eval.CodeJudgeInput`; absent keys are what they are for a case without them. With `judge`
    the script has judge access, through a proxy of its own.
    """
    values = _values(payload)
    spec = ScriptSpec(
        name="test",
        argv=_words(script),
        cwd=Path.cwd() if cwd is None else Path(cwd).absolute(),
        env=dict(env or {}),
        timeout=float(timeout_seconds),
    )
    case = EvalCase(id=str(values["eval_id"]), question="", input_messages=())
    attempt = values["attempt"] if isinstance(values["attempt"], int) else 1

    async def run_it(context: EvaluationContext) -> Score:
        assert context.runtime is not None  # noqa: S101 - it is made below
        session = None if judge is None else judge.lend(spec.name, eval_id=case.id, attempt=attempt)
        return await run_script(spec, values, context.runtime, session=session)

    async def run() -> EvaluatorResult:
        async with Launcher() as launcher:
            runtime = Runtime(launcher, environment=Environment(dict(os.environ)))
            evaluator = FunctionEvaluator(name=spec.name, type="code_judge", function=run_it)
            return await evaluate(evaluator, EvaluationContext(case, Candidate(""), attempt=attempt, runtime=runtime))

    with loop_thread() as there:
        return JudgeRun(there(run()))


def _words(script: Program) -> list[str]:
    if isinstance(script, str):
        try:
            words = split_command(script)
        except ValueError as error:
            raise UsageError(f"the command {script!r} cannot be run: {error}") from None
    elif isinstance(script, os.PathLike):
        words = [os.fspath(script)]
    else:
        words = [str(word) for word in script]
    if not words:
        raise UsageError("there is no script to run", next_step='Name one: run_judge("judges/precision.py", ...).')
    runner = INTERPRETERS.get(Path(words[0]).suffix) if len(words) == 1 else None
    return words if runner is None else [runner, *words]


def _values(payload: Any) -> dict[str, Any]:
    given = {} if payload is None else getattr(payload, "raw", payload)
    if not isinstance(given, Mapping):
        raise UsageError(
            f"the payload is {type(payload).__name__}",
            next_step='Give a mapping with the keys that a script reads, like {"candidate_answer": "Paris"}.',
        )
    for key in given:
        if key not in KEYS:
            hint = did_you_mean(str(key), KEYS)
            raise UsageError(f"a payload has no key `{key}`{hint}", next_step=f"Its keys are {', '.join(KEYS)}.")
    values = with_empty_values({**DEFAULTS, **given})
    try:
        encode_payload(values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the payload cannot be written as JSON: {error}") from None
    return values
