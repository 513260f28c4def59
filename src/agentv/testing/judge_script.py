"""Run a judge script as agentv does: in its own process, with a payload on stdin, and with its result validated."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from agentv.wire.payload_names import ALL_SECOND_NAMES

if TYPE_CHECKING:
    from agentv.testing.judge_proxy import ScriptedJudge

Program = str | os.PathLike[str] | Sequence[str]

DEFAULTS: Mapping[str, Any] = {"eval_id": "test", "attempt": 1}
"""Keys that always have a value."""


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """The outcome of a judge script: a score with its reasons, or `error`.

    If the script failed, there is no score: reading `score` and the other properties raises `EvaluatorError`, so that
    a test cannot confuse a crash with a score of 0.
    """

    result: EvaluatorResult
    """The result that agentv would record."""

    @property
    def error(self) -> str | None:
        """Why no score was computed; None if there is a score."""
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

    `script` is a file, a command line or a list of words. `payload` is a mapping with the keys that the script reads,
    or an `agentv_eval.CodeJudgeInput`; missing keys get the value of a case without them. With `judge`, the script has
    judge access through its own proxy.
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

    async def evaluate_script(context: EvaluationContext) -> Score:
        assert context.runtime is not None  # noqa: S101 - set below
        lend = None if judge is None else partial(judge.lend, spec.name, eval_id=case.id, attempt=attempt)
        return await run_script(spec, values, context.runtime, lend=lend)

    async def run() -> EvaluatorResult:
        async with Launcher() as launcher:
            runtime = Runtime(launcher, environment=Environment(dict(os.environ)))
            evaluator = FunctionEvaluator(name=spec.name, type="code_judge", function=evaluate_script)
            return await evaluate(evaluator, EvaluationContext(case, Candidate(""), attempt=attempt, runtime=runtime))

    with loop_thread() as run_in_thread:
        return JudgeRun(run_in_thread(run()))


def _words(script: Program) -> list[str]:
    if isinstance(script, str):
        try:
            words = split_command(script)
        except ValueError as error:
            raise UsageError(f"invalid command {script!r}: {error}") from None
    elif isinstance(script, os.PathLike):
        words = [os.fspath(script)]
    else:
        words = [str(word) for word in script]
    if not words:
        raise UsageError(
            "the script is empty", next_step='Pass a file or a command: run_judge("judges/precision.py", ...).'
        )
    runner = INTERPRETERS.get(Path(words[0]).suffix) if len(words) == 1 else None
    return words if runner is None else [runner, *words]


def _values(payload: Any) -> dict[str, Any]:
    mapping = {} if payload is None else getattr(payload, "raw", payload)
    if not isinstance(mapping, Mapping):
        raise UsageError(
            f"the payload must be a mapping, got {type(payload).__name__}",
            next_step='Pass the keys that the script reads, for example {"candidate_answer": "Paris"}.',
        )
    for key in mapping:
        if key not in KEYS and key not in ALL_SECOND_NAMES:
            hint = did_you_mean(str(key), KEYS)
            raise UsageError(f"unknown payload key `{key}`{hint}", next_step=f"Available: {', '.join(KEYS)}.")
    values = with_empty_values({**DEFAULTS, **mapping})
    try:
        encode_payload(values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the payload must be JSON-serializable: {error}") from None
    return values
