"""What evaluators that reach outside the process need of the run they are in."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agentv.redact import NO_SECRETS, Redactor
from agentv.targets.environment import Environment
from agentv.targets.secrets import Secrets

if TYPE_CHECKING:
    from agentv.judge.access import JudgeAccess
    from agentv.judge.session import JudgeSession
    from agentv.processes.launcher import Launcher


class Lend(Protocol):
    """Access, the evaluator's name and its context -> a session; EvaluatorError when no judge is available."""

    def __call__(
        self, access: JudgeAccess, evaluator: str, context: Any, /, *, script: bool = True
    ) -> JudgeSession: ...


@dataclass(frozen=True, slots=True)
class Runtime:
    """The run's launcher, environment and judges."""

    launcher: Launcher | None
    """None in runs without scripts."""
    lend: Lend
    environment: Environment = field(default_factory=lambda: Environment({}), repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False)
    redactor: Redactor = NO_SECRETS
    script_slots: asyncio.Semaphore | None = field(default=None, repr=False)
    """Places for the scripts of the whole run; None is no limit."""

    def script_slot(self) -> AbstractAsyncContextManager[Any]:
        """A place for one execution of a script, held while its process lives and no longer: evaluators that only ask
        a judge never wait for one."""
        return nullcontext() if self.script_slots is None else self.script_slots
