"""Fakes for testing suites, judge scripts and providers. Modules are imported on first use.

`with_judge_proxy` starts a real judge proxy with a scripted judge, and `run_judge` runs a judge script as agentv does;
`plugin.py` provides both as pytest fixtures. `FakeModelServer` is a fake model with an OpenAI-compatible API.
`FaultProxy` injects faults into the replies of a real server.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentv.testing.fault_proxy import FaultProxy as FaultProxy
    from agentv.testing.judge_proxy import ScriptedJudge as ScriptedJudge
    from agentv.testing.judge_proxy import with_judge_proxy as with_judge_proxy
    from agentv.testing.judge_script import JudgeRun as JudgeRun
    from agentv.testing.judge_script import run_judge as run_judge
    from agentv.testing.model_server import Failure as Failure
    from agentv.testing.model_server import FakeModelServer as FakeModelServer

_HOMES = {
    "FaultProxy": "agentv.testing.fault_proxy",
    "ScriptedJudge": "agentv.testing.judge_proxy",
    "with_judge_proxy": "agentv.testing.judge_proxy",
    "JudgeRun": "agentv.testing.judge_script",
    "run_judge": "agentv.testing.judge_script",
    "Failure": "agentv.testing.model_server",
    "FakeModelServer": "agentv.testing.model_server",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - all keys are strings


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agentv.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
