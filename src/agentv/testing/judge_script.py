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
from agentv.evaluators.code_judge import CodeJudge
from agentv.evaluators.runtime import Runtime
from agentv.evaluators.scoring import judge as evaluate
from agentv.judge.access import JudgeAccess
from agentv.judge.session import JudgeSession
from agentv.processes.launcher import Launcher
from agentv.results import EvaluatorResult
from agentv.suite.case import EvalCase
from agentv.targets.environment import Environment
from agentv.testing.loop_thread import loop_thread
from agentv.text import did_you_mean
from agentv.wire.payload import KEYS, encode_payload

if TYPE_CHECKING:
    from agentv.testing.judge_proxy import ScriptedJudge

Program = str | os.PathLike[str] | Sequence[str]

_ABSENT: Mapping[str, Any] = {
    "eval_id": "test",
    "attempt": 1,
    "input_messages": [],
    "input_files": [],
    "expected_messages": [],
    "output_messages": [],
    "guideline_files": [],
    "metadata": {},
}


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


class _GivenPayload(CodeJudge):
    """A `code_judge` whose script reads what it is given."""

    given: bytes

    def payload(self, context: EvaluationContext) -> bytes:
        del context
        return self.given


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
    directory = Path.cwd() if cwd is None else Path(cwd).absolute()
    evaluator = _GivenPayload(
        name="test",
        type="code_judge",
        script=_words(script),
        timeout_seconds=float(timeout_seconds),
        judge=None if judge is None else JudgeAccess(max_calls=judge.max_calls),
        env=dict(env or {}),
        given=_encoded(values),
    )
    case = EvalCase(id=str(values["eval_id"]), question="", input_messages=())
    attempt = values["attempt"] if isinstance(values["attempt"], int) else 1

    def lend(_: JudgeAccess, name: str, context: EvaluationContext, *, script: bool = True) -> JudgeSession:
        del script
        assert judge is not None  # noqa: S101 - only scripts with judge access borrow
        return judge.lend(name, eval_id=context.case.id, attempt=context.attempt)

    async def run() -> EvaluatorResult:
        async with Launcher() as launcher:
            runtime = Runtime(launcher, lend, Environment(dict(os.environ)))
            context = EvaluationContext(case, Candidate(""), attempt=attempt, directory=directory, runtime=runtime)
            return await evaluate(evaluator, context)

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
    return {key: given.get(key, _ABSENT.get(key)) for key in KEYS}


def _encoded(values: Mapping[str, Any]) -> bytes:
    try:
        return encode_payload(values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the payload cannot be written as JSON: {error}") from None
