"""`code_judge`: runs a judge script, written in any language.

The script reads JSON from stdin and writes JSON to stdout. With judge access it can call the judge target through a
local proxy, without ever seeing a credential.
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
from agentv.redact import MASK
from agentv.results import Score
from agentv.scripts import ScriptObserver, ScriptSpec, run_script, working_directory
from agentv.suite.evaluator import Need
from agentv.suite.search import ProgramSearch
from agentv.suite.yaml import NodePath
from agentv.targets.config import holds_secret
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
    """Extend the JSON Schema for editors: a suite can use more forms than the fields accept."""
    options = schema["properties"]
    words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    options["script"] = {"anyOf": [{"type": "string"}, words], "description": options["script"]["description"]}
    access = options["judge"]["anyOf"][0]
    options["judge"] |= {"anyOf": [access, {"type": "boolean"}], "default": False}
    options["use_judge_provider"] = {"type": "boolean", "description": "Alias: `true` is the same as `judge: {}`."}
    schema["additionalProperties"] = True


class ScriptEvaluator(Evaluator):
    """Base of evaluators that run a script: their options, and running the script with or without judge access."""

    ALIASES: ClassVar[Mapping[str, str]] = {"judge_provider": "judge", "target": "judge"}
    INHERITS: ClassVar[tuple[str, ...]] = ("warm",)

    script: list[str] = Field(
        description="Command to run: a list, or a string that is split like in a POSIX shell (no shell is started)."
    )
    cwd: str | None = Field(
        None,
        description="Working directory, relative to the suite's directory or one of its parents in the repository.",
    )
    timeout_seconds: float = Field(120.0, gt=0, description="Timeout for one execution of the script.")
    judge: JudgeAccess | None = Field(None, description="Judge access: `true`, `{}` or options.")
    env: dict[str, str] | list[str] = Field(
        default={}, description="Extra environment variables: a mapping, or a list of names to pass through."
    )
    config: dict[str, Any] | None = Field(None, description="Mapping passed to the script unchanged.")
    warm: bool = Field(
        default=False,
        description="Python only: fork each execution from a process that has already imported the modules.",
    )

    protocol: Literal["json", "jsonl"] = Field(
        "json",
        description="`jsonl`: one long-running process reads one payload per line and prints one result per line.",
    )

    @model_validator(mode="after")
    def _one_way_to_be_quick(self) -> Self:
        if self.warm and self.protocol == "jsonl":
            raise ValueError("`warm` and `protocol: jsonl` cannot be combined; use only one of them")
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
            raise ValueError("variable names must not be empty or contain `=`")
        if any("\0" in text for text in (*env, *values)):
            raise ValueError("must not contain NUL characters")
        return env

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """Return the options with judge access under `judge` and every unknown key under `config`."""
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

    def recorded_options(self) -> dict[str, Any]:
        """The options. Variables whose names look like secrets are masked: a suite may contain them literally."""
        options = super().recorded_options()
        if isinstance(self.env, dict) and self.env:
            options["env"] = {name: MASK if holds_secret(name) else value for name, value in self.env.items()}
        return options

    def depends_on(self, directory: Path) -> list[Path]:
        """Files named in the command, such as the script itself."""
        cwd = working_directory(directory, self.cwd)
        return [path for path in (cwd / word for word in self.script) if _is_file(path)]

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        """The directory, the program or the script file, if the command certainly cannot run without it."""
        spec = self.spec(directory)
        problem = search.problem(spec.argv, spec.cwd, spec.env if isinstance(spec.env, Mapping) else {})
        if problem is None:
            return {}
        return {("cwd",) if problem.word is None else ("script", problem.word): problem.message}

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
        """The script to run for a suite in this directory."""
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
        """The payload that the script reads from stdin."""
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
        """Run the script on this payload and return its score."""
        if context.runtime is None:
            raise EvaluatorError(f"the evaluator '{self.name}' cannot start its script outside of a run")
        session = None
        if self.judge is not None:
            session = context.runtime.lender.lend(self.judge, context.asker(self.name, script=True))
        spec = self.spec(context.directory or Path.cwd())
        return await run_script(spec, payload, context.runtime, session=session, observer=observer)


class CodeJudge(ScriptEvaluator):
    """Judges the answer with a script."""

    model_config = ConfigDict(json_schema_extra=_as_written)

    async def evaluate(self, context: EvaluationContext) -> Score:
        return await self.run(self.payload(context), context)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # for example, too long for a file name, or in an unreadable directory
        return False


def _gather_config(options: dict[str, Any], complain: Complain) -> None:
    """Move unknown keys to `config`, for the script. Keys that look like a typo of an option are reported."""
    config = options.get("config")
    for key in [key for key in options if key not in _OPTIONS and key not in _COMMON]:
        value = options.pop(key)
        near = next((option for option in (*_OPTIONS, *_COMMON) if is_typo(key, option)), None)
        if near is not None:
            complain(key, f"unknown key `{key}` (did you mean `{near}`?); to pass it to the script, put it in `config`")
        elif isinstance(config, dict) and key in config:
            complain(key, f"`{key}` is set here and in `config`; keep only one of them")
        elif config is None or isinstance(config, dict):
            config = {**(config or {}), key: value}
            options["config"] = config
