"""`code_judge`: an evaluator that is any program in any language.

JSON on stdin, JSON on stdout. With judge access it may ask the configured judge through a proxy of its own, and never
sees a credential.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from agentv.command import split_command, with_own_python
from agentv.errors import EvaluatorError
from agentv.evaluators.base import Complain, EvaluationContext, Evaluator, Need
from agentv.evaluators.code_judge_result import score_of
from agentv.evaluators.runtime import Runtime
from agentv.judge.access import JudgeAccess, read_access
from agentv.processes.launcher import Launcher, Script
from agentv.processes.run import ProcessOutcome
from agentv.processes.start import ProcessStartError
from agentv.results import Score
from agentv.suite.files import repository_root, upward
from agentv.text import is_typo
from agentv.wire.payload import encode_payload

if TYPE_CHECKING:
    from agentv.judge.session import JudgeSession

PROXY_VARIABLES = (
    "AGENTV_JUDGE_PROXY_URL",
    "AGENTV_JUDGE_PROXY_TOKEN",
    "AGENTV_TARGET_PROXY_URL",
    "AGENTV_TARGET_PROXY_TOKEN",
)
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
PROTOCOL = "AGENTV_JUDGE_PROTOCOL"
"""Tells a script how it is spoken to, when that is not with one payload for one process."""
MUCH_OUTPUT = 256 * 1024
"""From here on reading it takes so long that other scripts would wait for their judge."""
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


class CodeJudge(Evaluator):
    """Runs a script on the answer."""

    model_config = ConfigDict(json_schema_extra=_as_written)
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
        """The files of the script itself: when they change, a run cannot simply go on."""
        home = _home(directory, self.cwd)
        return [path for path in (home / word for word in self.script) if _is_file(path)]

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.SCRIPTS} if self.judge is None else {Need.SCRIPTS, Need.JUDGE_ACCESS})

    def targets_named(self) -> list[str]:
        if self.judge is None:
            return []
        return [name for name in (self.judge.target, *(self.judge.allowed_targets or ())) if name is not None]

    def judge_targets(self) -> list[str | None]:
        return [] if self.judge is None else [self.judge.target]

    async def evaluate(self, context: EvaluationContext) -> Score:
        runtime = context.runtime
        if runtime is None or runtime.launcher is None:
            raise EvaluatorError("a code_judge needs a run to start its script in")
        launcher, payload = runtime.launcher, self.payload(context)
        if self.judge is None:
            environment = self._environment(runtime, runtime.environment.values)
            cold: list[str] = []
            script = self._script(context, payload, environment, isolate=False)
            async with runtime.script_slot():
                outcome = await launcher.run(script, on_cold=cold.append)
            return self._with_note(await self._score(outcome, runtime), cold)
        return await self._evaluate_with_judge(self.judge, context, (runtime, launcher), payload)

    def payload(self, context: EvaluationContext) -> bytes:
        """What the script reads on stdin."""
        try:
            return encode_payload(_payload(context, self.config), self.more_stdin())
        except ValueError as error:
            raise EvaluatorError(f"the case cannot be sent to the script as JSON: {error}") from None

    def more_stdin(self) -> Mapping[str, Any] | None:
        """What it reads besides what every script reads."""
        return None

    async def _evaluate_with_judge(
        self, access: JudgeAccess, context: EvaluationContext, started_by: tuple[Runtime, Launcher], payload: bytes
    ) -> Score:
        from agentv.judge.proxy import JudgeProxy  # noqa: PLC0415 - scripts without judge access need no HTTP

        runtime, launcher = started_by
        session = runtime.lend(access, self.name, context)
        async with runtime.script_slot(), JudgeProxy(session) as proxy:
            environment = self._environment(runtime, runtime.secrets.scrub(runtime.environment.values))
            if self.protocol == "json":
                environment |= dict(zip(PROXY_VARIABLES, (proxy.url, session.token) * 2, strict=True))
            access_line = {"url": proxy.url, "token": session.token}
            script = self._script(context, payload, _past_proxies(environment), isolate=True, access=access_line)
            cold: list[str] = []
            try:
                outcome = await launcher.run(script, on_exit=session.close, on_cold=cold.append)
            except asyncio.CancelledError:
                session.give_back()
                raise
            except ProcessStartError as error:
                ledger = session.ledger.to_dict()
                raise EvaluatorError(error.message, next_step=error.next_step, judge_proxy=ledger) from error
        if session.out_of_budget is not None:
            session.give_back()
            raise session.out_of_budget
        return self._with_note(await self._score(outcome, runtime, session), cold)

    def _with_note(self, score: Score, cold: list[str]) -> Score:
        """Say why the script was not warm, where the launcher says so: the first time."""
        notes = tuple(
            f"the script of '{self.name}' cannot be kept warm, and starts anew each time: {why}" for why in cold
        )
        return replace(score, warnings=(*score.warnings, *notes)) if notes else score

    async def _score(self, outcome: ProcessOutcome, runtime: Runtime, session: JudgeSession | None = None) -> Score:
        given = (outcome, (self.name, self.timeout_seconds), runtime.redactor, session, self.protocol == "jsonl")
        if len(outcome.stdout) < MUCH_OUTPUT:
            return score_of(*given)
        return await asyncio.to_thread(score_of, *given)

    def _environment(self, runtime: Runtime, base: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in base.items() if name not in PROXY_VARIABLES}
        if isinstance(self.env, dict):
            return kept | self.env
        passed = {name: runtime.environment.values[name] for name in self.env if name in runtime.environment.values}
        return kept | passed

    def _script(
        self,
        context: EvaluationContext,
        payload: bytes,
        environment: dict[str, str],
        *,
        isolate: bool,
        access: Mapping[str, str] | None = None,
    ) -> Script:
        home = context.directory or Path.cwd()
        execution_id = ""
        if self.protocol == "jsonl":
            execution_id = token_hex(8)
            environment = {**environment, PROTOCOL: "jsonl"}
            payload = _as_line(payload, execution_id, access)
        return Script(
            argv=with_own_python(self.script),
            cwd=_home(home, self.cwd),
            env=environment,
            stdin=payload,
            timeout=self.timeout_seconds,
            isolate=isolate,
            warm=self.warm,
            lines=self.protocol == "jsonl",
            execution_id=execution_id,
            own_variables=frozenset(name for name in PROXY_VARIABLES if name in environment),
        )


def _home(directory: Path, cwd: str | None) -> Path:
    """The directory of the process: below the suite's, else below one above it up to the repository."""
    if not cwd:
        return directory
    start = directory.resolve()
    above = tuple(upward(start, repository_root(start) or start))
    # `/judges` is that directory of the machine, and where there is none, that of the repository.
    folders = [folder / given for given in (cwd, cwd.lstrip("/")) for folder in above]
    return next((folder for folder in folders if folder.is_dir()), directory / cwd)


def _as_line(payload: bytes, execution_id: str, access: Mapping[str, str] | None) -> bytes:
    """The payload on one line, with what it takes to ask the judge."""
    more = {"execution_id": execution_id, "judge_proxy": access}
    return json.dumps({**json.loads(payload), **more}).encode("ascii") + b"\n"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long a word for the name of a file, or a directory nobody may look into
        return False


def _gather_config(options: dict[str, Any], complain: Complain) -> None:
    """Keys that are no options are for the script; but a key that looks like a typo of an option is told."""
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


def _past_proxies(environment: dict[str, str]) -> dict[str, str]:
    """Loopback is never reached through a proxy of the environment: the token would go there."""
    loopback = "127.0.0.1,localhost,::1"
    names = ("NO_PROXY", "no_proxy")
    # Programs look at one of the two, and not all at the same one: each must hold what either said.
    said = {name: environment.get(name) or environment.get(other, "") for name, other in (names, names[::-1])}
    for name, kept in said.items():
        environment[name] = kept if kept.strip() == "*" else f"{kept},{loopback}" if kept else loopback
    return environment


def _payload(context: EvaluationContext, config: Mapping[str, Any] | None) -> dict[str, Any]:
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
        "config": None if config is None else dict(config),
    }
