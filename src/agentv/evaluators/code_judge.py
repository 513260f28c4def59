"""`code_judge`: an evaluator that is any program in any language.

JSON on stdin, JSON on stdout. With judge access it may ask the configured judge through a proxy of its own, and never
sees a credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from agentv.command import split_command
from agentv.errors import EvaluatorError
from agentv.evaluators.base import Complain, EvaluationContext, Evaluator
from agentv.judge.access import JudgeAccess, read_access
from agentv.results import Score
from agentv.scripts import ScriptObserver, ScriptSpec, run_script, working_directory
from agentv.suite.evaluator import Need
from agentv.text import is_typo

_OPTIONS = (
    "script",
    "cwd",
    "timeout_seconds",
    "judge",
    "use_judge_provider",
    "judge_provider",
    "target",
    "env",
    "config",
    "warm",
    "protocol",
)
_COMMON = ("name", "type", "weight", "required", "threshold", "negate")


def _as_written(schema: dict[str, Any]) -> None:
    """What a suite may write, for editors: more spellings than the fields have."""
    options = schema["properties"]
    words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    options["script"] = {"anyOf": [{"type": "string"}, words], "description": options["script"]["description"]}
    access = options["judge"]["anyOf"][0]
    options["judge"] |= {"anyOf": [access, {"type": "boolean"}], "default": False}
    options["use_judge_provider"] = {"type": "boolean", "description": "`true` is the same as `judge: {}`."}
    schema["additionalProperties"] = True


class ScriptEvaluator(Evaluator):
    """The options of an evaluator that is a script, and what it does with them: lend it the judge, and run it."""

    ALIASES: ClassVar[Mapping[str, str]] = {"judge_provider": "judge", "target": "judge"}
    INHERITS: ClassVar[tuple[str, ...]] = ("warm",)

    script: list[str] = Field(
        description="The program: a list of words, or one string split like a POSIX shell would, without a shell."
    )
    cwd: str | None = Field(
        None, description="Directory of the process, relative to the suite's, else to those above it in the repository."
    )
    timeout_seconds: float = Field(120.0, gt=0, description="Deadline of the whole execution.")
    judge: JudgeAccess | None = Field(None, description="Enables judge access: `true`, `{}` or options.")
    env: dict[str, str] | list[str] = Field(
        default={}, description="Extra variables: a mapping, or names to pass through on purpose."
    )
    config: dict[str, Any] | None = Field(None, description="A mapping for the script, passed verbatim.")
    warm: bool = Field(
        default=False,
        description="For Python: fork each execution from a process that has imported its modules already.",
    )

    protocol: Literal["json", "jsonl"] = Field(
        "json",
        description="`jsonl`: the script reads a payload a line and prints a result a line, and its process serves "
        "one execution after the other.",
    )

    @model_validator(mode="after")
    def _one_way_to_be_quick(self) -> Self:
        if self.warm and self.protocol == "jsonl":
            raise ValueError("`warm` and `protocol: jsonl` are two ways to the same end: keep one")
        return self

    @field_validator("script")
    @classmethod
    def _has_a_program(cls, script: list[str]) -> list[str]:
        if not script or not script[0].strip():
            raise ValueError("must name a program, like `[python, judges/precision.py]`")
        if any("\0" in word for word in script):
            raise ValueError("must not contain NUL characters")
        return script

    @field_validator("env")
    @classmethod
    def _can_be_passed(cls, env: dict[str, str] | list[str]) -> dict[str, str] | list[str]:
        values = env.values() if isinstance(env, dict) else ()
        if any(not name or "=" in name for name in env):
            raise ValueError("must name variables: a name is not empty, and has no `=` in it")
        if any("\0" in text for text in (*env, *values)):
            raise ValueError("must not contain NUL characters")
        return env

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """The options as the model knows them: one spelling of judge access, every other key under `config`."""
        options = dict(raw)
        if isinstance(options.get("script"), str):
            try:
                options["script"] = split_command(options["script"])
            except ValueError as error:
                complain("script", f"`script`: {error}; to use a shell, write `[sh, -c, '...']`")
                options["script"] = ["-"]
        access = read_access(options, complain)
        if access is not None:
            options["judge"] = dict(access)
        _gather_config(options, complain)
        return options

    def depends_on(self, directory: Path) -> list[Path]:
        """The files of the script itself: when they change, a run cannot simply be resumed."""
        cwd = working_directory(directory, self.cwd)
        return [path for path in (cwd / word for word in self.script) if _is_file(path)]

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.SCRIPTS} if self.judge is None else {Need.SCRIPTS, Need.JUDGE_ACCESS})

    def targets_named(self) -> list[str]:
        if self.judge is None:
            return []
        return [name for name in (self.judge.target, *(self.judge.allowed_targets or ())) if name is not None]

    def judge_targets(self) -> list[str | None]:
        return [] if self.judge is None else [self.judge.target]

    def spec(self, directory: Path) -> ScriptSpec:
        """The script of a suite in this directory."""
        return ScriptSpec(
            name=self.name,
            argv=self.script,
            cwd=working_directory(directory, self.cwd),
            env=self.env,
            timeout=self.timeout_seconds,
            protocol=self.protocol,
            warm=self.warm,
        )

    def payload(self, context: EvaluationContext) -> dict[str, Any]:
        """What the script reads on stdin."""
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
            "config": None if self.config is None else dict(self.config),
        }

    async def run(
        self, payload: Mapping[str, Any], context: EvaluationContext, observer: ScriptObserver | None = None
    ) -> Score:
        """The score that the script gives for this payload."""
        if context.runtime is None:
            raise EvaluatorError(f"the evaluator '{self.name}' needs a run to start its script in")
        session = None
        if self.judge is not None:
            session = context.runtime.lender.lend(self.judge, context.asker(self.name, script=True))
        spec = self.spec(context.directory or Path.cwd())
        return await run_script(spec, payload, context.runtime, session=session, observer=observer)


class CodeJudge(ScriptEvaluator):
    """Runs a script on the answer."""

    model_config = ConfigDict(json_schema_extra=_as_written)

    async def evaluate(self, context: EvaluationContext) -> Score:
        return await self.run(self.payload(context), context)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a file name, or in a directory that cannot be read
        return False


def _gather_config(options: dict[str, Any], complain: Complain) -> None:
    """Move unknown keys under `config`, for the script; report those that look like a typo of an option."""
    config = options.get("config")
    for key in [key for key in options if key not in _OPTIONS and key not in _COMMON]:
        value = options.pop(key)
        near = next((option for option in (*_OPTIONS, *_COMMON) if is_typo(key, option)), None)
        if near is not None:
            complain(key, f"unknown key `{key}` (did you mean `{near}`?); or put it under `config:` for the script")
        elif isinstance(config, dict) and key in config:
            complain(key, f"`{key}` is here and under `config`: keep one")
        elif config is None or isinstance(config, dict):
            config = {**(config or {}), key: value}
            options["config"] = config
