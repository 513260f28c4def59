"""The live targets of a run. Each is opened once, shared by all callers and closed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from agentv.errors import AgentVError, TargetUnavailableError
from agentv.redact import Redactor
from agentv.targets.budget import Budget, MeteredProvider
from agentv.targets.commands import Commands, RunJob
from agentv.targets.config import AGENTV_FILES, TargetSpec
from agentv.targets.environment import Environment
from agentv.targets.gate import DEFAULT_CONCURRENCY, TargetGate
from agentv.targets.provider import OnRetry, TargetScope, TargetSettings
from agentv.targets.registry import provider_class
from agentv.targets.secrets import Secrets
from agentv.targets.shared import Shared


class RunsCommands(Protocol):
    """Runs the commands of targets elsewhere."""

    def runner(self, target: str, settings: TargetSettings, secret_values: Iterable[str], own: Iterable[str]) -> RunJob:
        """What runs the commands of a target. Raises `TargetUnavailableError` if they cannot run there."""


class _Opened(NamedTuple):
    scope: TargetScope
    settings: TargetSettings
    gate: TargetGate


class TargetPool:
    """Opens targets on first use. Leaving `async with` closes all of them."""

    def __init__(
        self,
        secrets: Secrets,
        *,
        workers: int | None = None,
        timeout: float | None = None,
        on_retry: OnRetry | None = None,
        budget: Budget | None = None,
        max_consecutive_errors: int | None = None,
        retry_command: str | None = None,
        nodes: RunsCommands | None = None,
    ) -> None:
        """`workers`, `timeout` and `max_consecutive_errors` override the settings of the targets.

        `retry_command` is the command that repeats calls that were not made because a target was down. `nodes` run the
        commands of targets that need not run on this machine.
        """
        self._secrets = secrets
        self._redactor = Redactor(secrets.values)
        self._workers = workers
        self._timeout = timeout
        self._on_retry = on_retry
        self.budget = budget
        self._max_consecutive_errors = max_consecutive_errors
        self._retry_command = retry_command
        self._nodes = nodes
        self._opened: dict[tuple[Path, str], list[_Opened]] = {}
        self._commands = Commands()
        self._shared = Shared()
        self._closing = AsyncExitStack()
        self._closing.push_async_callback(self._commands.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    def gate(self, spec: TargetSpec, environment: Environment) -> TargetGate:
        """The live target. Raises `TargetUnavailableError` with the reason if it cannot be opened."""
        settings, kind = spec.reading.settings, provider_class(spec.provider)
        if spec.unavailable or settings is None or kind is None:
            raise TargetUnavailableError(spec.name, spec.unavailable or "its settings could not be read")
        if not isinstance(settings, TargetSettings):
            raise TypeError(f"settings of target '{spec.name}' must be TargetSettings, got {type(settings).__name__}")
        scope = TargetScope(
            name=spec.name,
            directory=spec.directory,
            agentv_file=spec.path.name in AGENTV_FILES,
            environment=self._secrets.scrub_for(spec, environment),
            redactor=self._redactor,
            run_command=self._commands.run,
            run_job=self._runner(spec, settings, environment),
            shared=self._shared,
        )
        limited = self._limits(settings)
        # Suites with their own `.env` load the configuration separately. They share the gate if the target is the same.
        same_name = self._opened.setdefault((scope.directory, spec.name), [])
        for opened in same_name:
            if (opened.scope, opened.settings) == (scope, limited):
                return opened.gate
        try:
            provider = kind(limited, scope)
        except TargetUnavailableError:
            raise
        except AgentVError as error:
            raise TargetUnavailableError(spec.name, str(error)) from error
        except Exception as error:
            raise TargetUnavailableError(spec.name, f"{type(error).__name__}: {error}") from error
        if self.budget is not None and self.budget.limited:
            provider = MeteredProvider(provider, self.budget)
        gate = TargetGate(provider, limited, name=spec.name, on_retry=self._on_retry, retry_command=self._retry_command)
        same_name.append(_Opened(scope, limited, gate))
        self._closing.push_async_callback(gate.aclose)
        return gate

    def _runner(self, spec: TargetSpec, settings: TargetSettings, environment: Environment) -> RunJob:
        """What runs the commands of a target."""
        if self._nodes is None or not settings.on_nodes:
            return self._commands.run_job
        own = [name for name in spec.reading.reads if name in environment.values]
        return self._nodes.runner(spec.name, settings, spec.reading.secret_values, own)

    def gates(self) -> Iterator[TargetGate]:
        """The targets that are open."""
        return (opened.gate for same_name in self._opened.values() for opened in same_name)

    def _limits(self, settings: TargetSettings) -> TargetSettings:
        several = max(DEFAULT_CONCURRENCY, self._workers or 0, settings.workers or 0)
        limit = settings.concurrency or several
        changes = {"max_concurrency": limit, "timeout_seconds": self._timeout or settings.timeout_seconds}
        if self._max_consecutive_errors is not None:
            changes["max_consecutive_errors"] = self._max_consecutive_errors
        return settings.model_copy(update=changes)
