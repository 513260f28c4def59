"""What evaluators that reach outside the process need of the run they are in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentv.redact import NO_SECRETS, Redactor
from agentv.targets.environment import Environment
from agentv.targets.secrets import Secrets

if TYPE_CHECKING:
    from agentv.judge.access import JudgeAccess
    from agentv.judge.session import JudgeSession
    from agentv.launcher.launcher import Launcher

Lend = Callable[["JudgeAccess", str, Any], "JudgeSession"]
"""Access, the evaluator's name and its context -> a session; EvaluatorError when no judge is available."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The run's launcher, environment and judges."""

    launcher: Launcher
    lend: Lend
    environment: Environment = field(default_factory=lambda: Environment({}), repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False)
    redactor: Redactor = NO_SECRETS
