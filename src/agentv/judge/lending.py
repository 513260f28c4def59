"""Lending a judge: from the settings of a run to a `JudgeSession` for one execution, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.errors import EvaluatorError, TargetUnavailableError
from agentv.judge.access import JudgeAccess
from agentv.judge.choice import JudgeChoice
from agentv.judge.session import JudgeSession, JudgeTargets
from agentv.redact import NO_SECRETS, Redactor
from agentv.targets.budget import Budget
from agentv.targets.config import NO_JUDGE, TargetsConfig, TargetSpec
from agentv.targets.gate import TargetGate
from agentv.targets.pool import TargetPool
from agentv.targets.provider import Provider

if TYPE_CHECKING:
    from agentv.judge.cache import JudgeCache

HOW = (
    "Name a judge with --judge-target, with `judge_target` of the target or under `defaults` of the configuration, "
    "or with `judge.target` of the evaluator; `agentv targets` shows what is ready."
)
HOW_WITHOUT_SCRIPT = (
    "Name a judge with --judge-target, with `judge_target` of this evaluator, of the target or under `defaults` of the "
    "configuration; `agentv targets` shows what is ready."
)


@dataclass(frozen=True, slots=True)
class Asker:
    """The evaluator that asks the judge, and the case whose answer it judges."""

    evaluator: str
    eval_id: str
    attempt: int = 1
    suite: str = ""
    target: str = ""
    """The target that answered the case."""
    directory: Path | None = None
    script: bool = True
    """False for an evaluator that asks the judge itself."""


@dataclass(slots=True)
class Lender:
    """Lends the judges of one configuration; or `live` ones, which are then all there are."""

    choice: JudgeChoice
    config: TargetsConfig | None = None
    pool: TargetPool | None = None
    redactor: Redactor = NO_SECRETS
    on_call: Callable[[dict[str, Any]], None] | None = None
    record_io: bool = False
    budget: Budget | None = None
    cache: JudgeCache | None = None
    live: Mapping[str, Provider] | None = None
    """Judges by name; opened from the configuration when they are first needed."""
    _unavailable: dict[str, str] = field(default_factory=dict)
    _unavailable_to_scripts: dict[str, str] = field(default_factory=dict)
    """The same reasons as far as a script may know them: no path, no address."""

    def lend(self, access: JudgeAccess, asker: Asker) -> JudgeSession:
        """A session for one execution. EvaluatorError says why no judge is available and how to configure one."""
        name, why = self.choice.resolve(access.target), self.refusal(access)
        if name is None or why is not None:
            needs, consequence, how = (
                ("has judge access", "Its script was not started", HOW)
                if asker.script
                else ("asks a judge", "Nothing was judged", HOW_WITHOUT_SCRIPT)
            )
            raise EvaluatorError(
                f"the evaluator '{asker.evaluator}' {needs}, but no judge is available: {why}. {consequence}",
                next_step=how,
            )
        return JudgeSession(
            JudgeTargets(name, self._targets(), self._unavailable_to_scripts, access.allowed_targets),
            evaluator=asker.evaluator,
            max_calls=access.max_calls,
            timeout=access.timeout_seconds,
            eval_id=asker.eval_id,
            attempt=asker.attempt,
            directory=asker.directory,
            redactor=self.redactor,
            on_call=self._recorder(asker),
            record_io=self.record_io,
            budget=self.budget,
        )

    def refusal(self, access: JudgeAccess) -> str | None:
        """Why no judge can be lent; None when one can."""
        name = self.choice.resolve(access.target)
        if name == NO_JUDGE:
            return "the judge target is set to `none`"
        if name in self._targets():
            return None
        if self.config is None:
            return "there is no target configuration"
        if name is None:
            return "nothing names a judge target, and there is no configured main target to fall back on"
        if name in self._unavailable:
            return f"the judge target '{name}' cannot be used: {self._unavailable[name]}"
        return f"there is no target '{name}' in {self.config.path}"

    def _recorder(self, asker: Asker) -> Callable[[dict[str, Any]], None] | None:
        """Records a call together with the case it was made for."""
        on_call = self.on_call
        if on_call is None:
            return None
        labels = {
            "suite": asker.suite,
            "eval_id": asker.eval_id,
            "case_target": asker.target,
            "case_attempt": asker.attempt,
        }
        return lambda record: on_call({**labels, **record})

    def _targets(self) -> Mapping[str, Provider]:
        """Every configured target that can be called; opened once."""
        if self.live is None:
            self.live = {}
            if self.config is not None and self.pool is not None:
                self.live = dict(self._opened(self.config, self.pool))
        return self.live

    def _opened(self, config: TargetsConfig, pool: TargetPool) -> Iterator[tuple[str, Provider]]:
        for spec in config.targets.values():
            try:
                gate = pool.gate(spec, config.environment)
            except TargetUnavailableError as error:
                self._unavailable[spec.name] = error.reason
                missing = spec.reading.missing
                reason = f"{missing[0]} is not set" if missing else "it could not be set up"
                self._unavailable_to_scripts[spec.name] = reason
            else:
                yield spec.name, self._cached(gate, spec, config)

    def _cached(self, gate: TargetGate, spec: TargetSpec, config: TargetsConfig) -> Provider:
        if self.cache is None:
            return gate
        from agentv.judge.cache import cached  # noqa: PLC0415 - SQLite is for runs with a cache

        return cached(gate, spec, config.environment, self.cache, self.redactor)
