"""A scripted judge that is called through the real `Lender` and records its requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentv.evaluators.base import Candidate, EvaluationContext, Evaluator
from agentv.evaluators.scoring import judge
from agentv.judge.choice import JudgeChoice
from agentv.judge.lending import Lender
from agentv.messages import OPTIONS, Message, TokenUsage
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import EvaluatorResult
from agentv.scripts import Runtime
from agentv.suite.suite import EvalCase
from agentv.targets.provider import Provider, Reply, Request

Scripted = str | Exception | Reply


class Judge(Provider):
    """Returns the replies in order, then repeats the last one; `requests` are the received requests."""

    honours = frozenset(OPTIONS)

    def __init__(self, *replies: Scripted) -> None:
        self.replies: list[Scripted] = list(replies)
        self.requests: list[Request] = []

    async def invoke(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Reply) else spoken(reply)

    def runtime(self, redactor: Redactor = NO_SECRETS) -> Runtime:
        return Runtime(
            lender=Lender(JudgeChoice(main="strict"), live={"strict": self}, redactor=redactor), redactor=redactor
        )

    async def judged(
        self, evaluator: Evaluator, context: EvaluationContext, redactor: Redactor = NO_SECRETS
    ) -> EvaluatorResult:
        given = EvaluationContext(context.case, context.candidate, runtime=self.runtime(redactor))
        return await judge(evaluator, given)


def spoken(text: str, finish_reason: str | None = "stop") -> Reply:
    usage = TokenUsage(input=10, output=2)
    return Reply((Message("assistant", text),), token_usage=usage, cost_usd=0.01, finish_reason=finish_reason)


def verdict(score: float = 1.0, hits: Sequence[str] = (), misses: Sequence[str] = (), reasoning: str = "so") -> str:
    return json.dumps({"score": score, "hits": list(hits), "misses": list(misses), "reasoning": reasoning})


def checks(*given: tuple[str, bool] | tuple[str, bool, str], overall: str = "all in all") -> str:
    items = [dict(zip(("id", "satisfied", "reasoning"), (*check, "")[:3], strict=True)) for check in given]
    return json.dumps({"checks": items, "overall_reasoning": overall})


def a_case(answer: str = "Paris", **fields: Any) -> EvaluationContext:
    """A case about a capital with an answer; `output_messages` belong to the candidate."""
    output = tuple(fields.pop("output_messages", ()))
    given = {"id": "france", "question": "?", "input_messages": (Message("user", "The capital of France?"),), **fields}
    return EvaluationContext(EvalCase(**given), Candidate(answer, output))
