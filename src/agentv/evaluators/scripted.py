"""Base of evaluators that run a program: judge access, environment, payload, and running it once for an answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.judge.access import JudgeAccess
from agentv.redact import MASK
from agentv.results import Score
from agentv.scripts import ScriptObserver, ScriptSpec, run_script
from agentv.suite.evaluator import Need
from agentv.targets.config import holds_secret


def judge_as_written(schema: dict[str, Any]) -> None:
    """Extend the JSON Schema for editors: `judge` can also be a boolean."""
    option = schema["properties"]["judge"]
    option |= {"anyOf": [option["anyOf"][0], {"type": "boolean"}], "default": False}


class Scripted(Evaluator):
    """An evaluator that runs a program for each answer, with or without judge access."""

    ALIASES: ClassVar[Mapping[str, str]] = {"judge_provider": "judge", "target": "judge"}

    timeout_seconds: float = Field(120.0, gt=0, description="Timeout for one execution of the script.")
    judge: JudgeAccess | None = Field(None, description="Judge access: `true`, `{}` or options.")
    env: dict[str, str] | list[str] = Field(
        default={}, description="Extra environment variables: a mapping, or a list of names to pass through."
    )
    config: dict[str, Any] | None = Field(None, description="Mapping passed to the script unchanged.")
    on: Literal["driver", "nodes"] | None = Field(
        None,
        description="Where it runs in a run with `--on`: `driver` is the machine that runs agentv. Default: `nodes`.",
    )

    @field_validator("env")
    @classmethod
    def _can_be_passed(cls, env: dict[str, str] | list[str]) -> dict[str, str] | list[str]:
        values = env.values() if isinstance(env, dict) else ()
        if any(not name or "=" in name for name in env):
            raise ValueError("variable names must not be empty or contain `=`")
        if any("\0" in text for text in (*env, *values)):
            raise ValueError("must not contain NUL characters")
        return env

    def recorded_options(self) -> dict[str, Any]:
        """The options. Variables whose names look like secrets are masked: a suite may contain them literally."""
        options = super().recorded_options()
        if isinstance(self.env, dict) and self.env:
            options["env"] = {name: MASK if holds_secret(name) else value for name, value in self.env.items()}
        return options

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.SCRIPTS} if self.judge is None else {Need.SCRIPTS, Need.JUDGE_ACCESS})

    def targets_named(self) -> list[str]:
        if self.judge is None:
            return []
        return self.judge.targets

    def embeddings_named(self) -> list[str]:
        return [] if self.judge is None or self.judge.embeddings is None else [self.judge.embeddings]

    def judge_targets(self) -> list[str | None]:
        return [] if self.judge is None else [self.judge.target]

    @abstractmethod
    def spec(self, directory: Path) -> ScriptSpec:
        """The script to run for a suite in this directory."""

    def payload(self, context: EvaluationContext) -> dict[str, Any]:
        """The payload that the script reads from stdin."""
        return payload_of(context, self.config)

    @property
    def shown(self) -> str | None:
        """What the user wrote, if that says more than the command."""
        return None

    async def evaluate(self, context: EvaluationContext) -> Score:
        return await self.run(self.payload(context), context)

    async def run(
        self, payload: Mapping[str, Any], context: EvaluationContext, observer: ScriptObserver | None = None
    ) -> Score:
        """Run the script on this payload and return its score."""
        if context.runtime is None:
            raise EvaluatorError(f"the evaluator '{self.name}' cannot start its script outside of a run")
        lend = None
        if self.judge is not None:
            lend = partial(context.runtime.lender.lend, self.judge, context.asker(self.name, script=True))
        spec = replace(self.spec(context.directory or Path.cwd()), on=self.on)
        return await run_script(spec, payload, context.runtime, lend=lend, observer=observer)


def payload_of(context: EvaluationContext, config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The payload of a script: the case, the answer, and the `config` of the script."""
    case, candidate = context.case, context.candidate
    return {
        "eval_id": case.id,
        "attempt": context.attempt,
        "target": context.target,
        "suite": context.suite,
        "question": case.question,
        "input_messages": [message.to_dict() for message in case.input_messages],
        "input_files": [str(path) for path in case.input_files],
        "expected_outcome": case.expected_outcome,
        "expected_messages": [message.to_dict() for message in case.expected_messages],
        "reference_answer": case.reference_answer,
        "candidate_answer": candidate.answer,
        "output_messages": [message.to_dict() for message in candidate.output_messages],
        "guideline_files": [str(path) for path in case.guideline_files],
        "trace_summary": None if candidate.trace_summary is None else dict(candidate.trace_summary),
        "metadata": dict(case.metadata),
        "vars": dict(case.vars) or None,
        "config": None if config is None else dict(config),
    }
