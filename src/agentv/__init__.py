"""agentv: evaluate agents and LLM applications.

The Python API is `agentv.evaluate(...)` and `agentv.evaluate_async(...)`; the command line is `agentv`.
Modules are imported on first use, so `import agentv` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from agentv.api import EvaluationRun as EvaluationRun
    from agentv.api import evaluate as evaluate
    from agentv.api import evaluate_async as evaluate_async
    from agentv.errors import AgentVError as AgentVError
    from agentv.messages import Message as Message
    from agentv.messages import TokenUsage as TokenUsage
    from agentv.messages import ToolCall as ToolCall
    from agentv.results import CaseResult as CaseResult
    from agentv.results import EvaluatorResult as EvaluatorResult
    from agentv.results import Score as Score
    from agentv.results import Verdict as Verdict

_HOMES = {
    "EvaluationRun": "agentv.api",
    "evaluate": "agentv.api",
    "evaluate_async": "agentv.api",
    "AgentVError": "agentv.errors",
    "Message": "agentv.messages",
    "TokenUsage": "agentv.messages",
    "ToolCall": "agentv.messages",
    "CaseResult": "agentv.results",
    "EvaluatorResult": "agentv.results",
    "Score": "agentv.results",
    "Verdict": "agentv.results",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - all keys are strings


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agentv' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
