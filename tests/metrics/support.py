"""Run the handler of a metric with a scripted judge."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentv.testing import with_judge_proxy
from agentv.wire.judge import JudgeCall
from agentv_eval import CodeJudgeInput, CodeJudgeResult, create_judge_proxy_client
from agentv_eval.results import encode_result

CASE: dict[str, Any] = {
    "question": "How long can I return a book?",
    "candidate_answer": "You have 30 days. We pay the postage.",
    "reference_answer": "30 days, if it has not been read.",
    "metadata": {"retrieval_context": ["A book can be returned within 30 days.", "Readings are on Fridays."]},
}


@dataclass(frozen=True)
class Measured:
    """The result of a metric as it is printed, and the prompts that it sent."""

    result: dict[str, Any]
    prompts: list[str]

    @property
    def score(self) -> float:
        return float(self.result["score"])


def verdicts(*words: str) -> str:
    """A reply with a verdict for each number."""
    return json.dumps(
        {"verdicts": [{"number": n, "reason": f"reason {n}", "verdict": word} for n, word in enumerate(words, 1)]}
    )


def measure(
    metric: str,
    replies: Sequence[str] | Callable[[JudgeCall], str] = (),
    config: dict[str, Any] | None = None,
    **changes: Any,
) -> Measured:
    """Measure `CASE` with these changes. The judge gives the replies in order; a further call fails."""
    handler = getattr(importlib.import_module(f"agentv.metrics.{metric}"), metric)
    case = CodeJudgeInput({**CASE, **changes, "config": config or {}})
    if metric in ("tool_correctness", "json_correctness"):
        return Measured(_printed(handler(case)), [])
    with with_judge_proxy(replies if callable(replies) else list(replies)) as proxy:
        judge = create_judge_proxy_client()
        assert judge is not None
        with judge:
            result = handler(case, judge)
        return Measured(_printed(result), [str(call.question) for call in proxy.calls])


def _printed(result: dict[str, Any] | CodeJudgeResult) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(encode_result(result))
    return printed
