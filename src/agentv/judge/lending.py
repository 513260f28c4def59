"""Lending a judge: from the settings of a run to a `JudgeSession` for one execution, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom a judge is lent: the case whose answer a script judges."""

    eval_id: str
    attempt: int
    directory: Path | None = None
    script: bool = True
    """Whether a script asks, or an evaluator of our own."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """What every record of a call says besides."""


@dataclass(slots=True)
class Lender:
    """Lends the judges of one configuration."""

    pool: TargetPool
    config: TargetsConfig | None
    choice: JudgeChoice
    redactor: Redactor = NO_SECRETS
    on_call: Callable[[dict[str, Any]], None] | None = None
    record_io: bool = False
    budget: Budget | None = None
    cache: JudgeCache | None = None
    """Keeps what judges answer."""
    _live: dict[str, Provider] | None = None
    _unavailable: dict[str, str] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    """The same reasons as far as a script may know them: no path, no address."""

    def lend(self, access: JudgeAccess, evaluator: str, asker: Asker) -> JudgeSession:
        """A session for one execution. EvaluatorError says why no judge is available and how to configure one."""
        name, why = self.choice.resolve(access.target), self.refusal(access)
        if name is None or why is not None:
            needs, so = (
                ("has judge access", "Its script was not started")
                if asker.script
                else ("asks a judge", "Nothing was judged")
            )
            raise EvaluatorError(
                f"the evaluator '{evaluator}' {needs}, but no judge is available: {why}. {so}",
                next_step=HOW,
            )
        targets = JudgeTargets(name, self._targets(), self._told, access.allowed_targets)
        return JudgeSession(
            targets,
            evaluator=evaluator,
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
        usable = name is not None and name != NO_JUDGE and self.config is not None and name in self._targets()
        return None if usable else self._why(name)

    def _recorder(self, asker: Asker) -> Callable[[dict[str, Any]], None] | None:
        on_call = self.on_call
        if on_call is None:
            return None
        return lambda record: on_call({**asker.labels, **record})

    def _why(self, name: str | None) -> str:
        if name == NO_JUDGE:
            return "the judge target is set to `none`"
        if self.config is None:
            return "there is no target configuration"
        if name is None:
            return "nothing names a judge target, and there is no configured main target to fall back on"
        if name in self._unavailable:
            return f"the judge target '{name}' cannot be used: {self._unavailable[name]}"
        return f"there is no target '{name}' in {self.config.path}"

    def _targets(self) -> dict[str, Provider]:
        """Every configured target that can be called; opened once."""
        if self._live is None:
            self._live = {}
            for spec in self.config.targets.values() if self.config is not None else ():
                self._open(spec, self._live)
        return self._live

    def _open(self, spec: TargetSpec, live: dict[str, Provider]) -> None:
        assert self.config is not None  # noqa: S101 - only called for targets of a configuration
        try:
            gate = self.pool.gate(spec, self.config.environment)
        except TargetUnavailableError as error:
            self._unavailable[spec.name] = error.reason
            missing = spec.reading.missing
            self._told[spec.name] = f"{missing[0]} is not set" if missing else "it could not be set up"
        else:
            live[spec.name] = self._cached(gate, spec)

    def _cached(self, gate: TargetGate, spec: TargetSpec) -> Provider:
        if self.cache is None or self.config is None:
            return gate
        from agentv.judge.cache import cached  # noqa: PLC0415 - SQLite is for runs with a cache

        return cached(gate, spec, self.config.environment, self.cache, self.redactor)
