"""Write agentv judge scripts: typed input and result, and a client for the judge proxy.

Importing this module loads nothing else. Each name is imported when it is first used, because a script pays for its
imports every time it runs.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers treat this as true; importing `typing` would double the import time
if TYPE_CHECKING:
    from .async_client import AsyncJudgeProxyClient, create_async_judge_proxy_client
    from .client import JudgeProxyClient, create_judge_proxy_client
    from .errors import (
        JudgeFailedError,
        JudgeLimitError,
        JudgeNotAvailableError,
        JudgeProxyError,
        JudgeVerdictError,
        UnknownTargetError,
    )
    from .judge import code_judge, define_code_judge
    from .targets import TargetRequest
    from .values import CodeJudgeInput, CodeJudgeResult, JudgeInfo, JudgeReply

__all__ = [
    "AsyncJudgeProxyClient",
    "CodeJudgeInput",
    "CodeJudgeResult",
    "JudgeFailedError",
    "JudgeInfo",
    "JudgeLimitError",
    "JudgeNotAvailableError",
    "JudgeProxyClient",
    "JudgeProxyError",
    "JudgeReply",
    "JudgeVerdictError",
    "TargetRequest",
    "UnknownTargetError",
    "__version__",
    "code_judge",
    "create_async_judge_proxy_client",
    "create_judge_proxy_client",
    "define_code_judge",
]

_HOME = {
    "AsyncJudgeProxyClient": "async_client",
    "CodeJudgeInput": "values",
    "CodeJudgeResult": "values",
    "JudgeFailedError": "errors",
    "JudgeInfo": "values",
    "JudgeLimitError": "errors",
    "JudgeNotAvailableError": "errors",
    "JudgeProxyClient": "client",
    "JudgeProxyError": "errors",
    "JudgeReply": "values",
    "JudgeVerdictError": "errors",
    "TargetRequest": "targets",
    "UnknownTargetError": "errors",
    "code_judge": "judge",
    "create_async_judge_proxy_client": "async_client",
    "create_judge_proxy_client": "client",
    "define_code_judge": "judge",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; available: {', '.join(__all__)}")
    value: object = getattr(__import__(f"{__name__}.{home}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
