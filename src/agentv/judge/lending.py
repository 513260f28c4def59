"""Opens a `JudgeSession` for one execution from the settings of a run, or says why no judge is available."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.errors import EvaluatorError, TargetUnavailableError
from agentv.judge.access import JudgeAccess
from agentv.judge.choice import JudgeChoice
from agentv.judge.recording import NOT_RECORDED, Recording
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import RowKey
from agentv.targets.budget import Budget
from agentv.targets.config import NO_JUDGE, TargetsConfig, TargetSpec
from agentv.targets.gate import TargetGate
from agentv.targets.pool import TargetPool
from agentv.targets.provider import Provider

if TYPE_CHECKING:
    from agentv.judge.cache import JudgeCache
    from agentv.judge.replay import JudgeReplay

HOW = (
    "Set `judge_target` under `defaults` in the configuration. For this run only, use --judge-target; `judge_target` "
    "of a target and `judge.target` of the evaluator work too. `agentv targets` shows which targets are ready."
)
HOW_WITHOUT_SCRIPT = (
    "Set `judge_target` under `defaults` in the configuration. For this run only, use --judge-target; `judge_target` "
    "of a target and of this evaluator work too. `agentv targets` shows which targets are ready."
)


@dataclass(frozen=True, slots=True)
class Asker:
    """The evaluator that calls the judge, and the case whose answer it judges."""

    evaluator: str
    eval_id: str
    attempt: int = 1
    suite: str = ""
    target: str = ""
    """The variant that answered the case: its target, with the prompt if there is one."""
    directory: Path | None = None
    script: bool = True
    """False for a built-in evaluator that calls the judge directly."""


@dataclass(slots=True)
class Lender:
    """Opens judge sessions with the targets of one configuration, or with the providers in `live`."""

    choice: JudgeChoice
    config: TargetsConfig | None = None
    pool: TargetPool | None = None
    redactor: Redactor = NO_SECRETS
    recording: Recording = NOT_RECORDED
    budget: Budget | None = None
    cache: JudgeCache | None = None
    replay: JudgeReplay | None = None
    """Answers all calls from the record of a run, so that all configured targets are available."""
    live: Mapping[str, Provider] | None = None
    """Providers by target name; if None, opened from the configuration on first use."""
    _unavailable: dict[str, str] = field(default_factory=dict)
    _unavailable_to_scripts: dict[str, str] = field(default_factory=dict)
    """The same reasons without paths and addresses, which scripts must not see."""

    def lend(self, access: JudgeAccess, asker: Asker, *, named_only: bool = False) -> JudgeSession:
        """A session for one execution. Raises EvaluatorError, with the reason and what to set, if there is no judge.

        With `named_only`, the target is the one that the evaluator names, whatever judges the run.
        """
        name = access.target if named_only else self.choice.resolve(access.target)
        why = self._refusal(name)
        if name is None or why is not None:
            needs, consequence, how = (
                ("has judge access", "Its script was not started", HOW)
                if asker.script
                else ("needs a judge", "Nothing was judged", HOW_WITHOUT_SCRIPT)
            )
            raise EvaluatorError(
                f"the evaluator '{asker.evaluator}' {needs}, but no judge is available: {why}. {consequence}",
                next_step=how,
            )
        return JudgeSession(
            JudgeTargets(
                name,
                self._targets_for(asker),
                self._unavailable_to_scripts,
                access.allowed_targets,
                models=access.models or {},
                embeddings=access.embeddings,
                replayed=self.replay is not None,
            ),
            evaluator=asker.evaluator,
            max_calls=access.max_calls,
            timeout=access.timeout_seconds,
            eval_id=asker.eval_id,
            attempt=asker.attempt,
            suite=asker.suite,
            case_target=asker.target,
            directory=asker.directory,
            redactor=self.redactor,
            recording=self.recording,
            budget=self.budget,
            for_script=asker.script,
            vendors=access.vendors,
        )

    def refusal(self, access: JudgeAccess) -> str | None:
        """Why no judge is available; None if one is."""
        return self._refusal(self.choice.resolve(access.target))

    def _refusal(self, name: str | None) -> str | None:
        if name == NO_JUDGE:
            return "the judge target is set to `none`"
        if name in self._targets():
            return None
        if self.config is None:
            return "no target configuration was found"
        if name is None:
            return "no judge target is set, and there is no configured main target to fall back on"
        if name in self._unavailable:
            return f"the judge target '{name}' is not available: {self._unavailable[name]}"
        return f"there is no target '{name}' in {self.config.path}"

    def _targets_for(self, asker: Asker) -> Mapping[str, Provider]:
        if self.replay is None:
            return self._targets()
        key = RowKey(asker.suite, asker.eval_id, asker.target, asker.attempt)
        return self.replay.targets(self.config, key, asker.evaluator)

    def _targets(self) -> Mapping[str, Provider]:
        """All configured targets that are available, opened once."""
        if self.live is None:
            self.live = {}
            if self.replay is not None:
                self.live = self.replay.targets(self.config, RowKey("", "", "", 1), "")
            elif self.config is not None and self.pool is not None:
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
        from agentv.judge.cache import cached  # noqa: PLC0415 - only runs with a cache need SQLite

        return cached(gate, spec, config.environment, self.cache, self.redactor)
