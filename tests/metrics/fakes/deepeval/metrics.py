from __future__ import annotations

import json
import os
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from deepeval.test_case import SingleTurnParams as Params


class APIStatusError(Exception):
    """The error of OpenAI's client."""

    def __init__(self, status_code: int, body: Any) -> None:
        super().__init__(f"Error code: {status_code}")
        self.status_code, self.body = status_code, body


class BaseMetric:
    _required_params: ClassVar[list[Params]] = [Params.INPUT, Params.ACTUAL_OUTPUT]
    threshold: float = 0.5
    score: Any = None
    reason: str | None = None
    error: str | None = None

    def __init__(self, threshold: float = 0.5, model: str = "gpt-4o") -> None:
        self.threshold, self.model = threshold, model

    def is_successful(self) -> bool:
        return bool(self.score >= self.threshold)

    def measure(self, test_case: Any) -> None:
        self.reason = ask(f"{type(self).__name__} {vars(test_case)}", self.model)
        self.score = json.loads(self.reason)


class BaseConversationalMetric(BaseMetric):
    pass


class ContextualRecallMetric(BaseMetric):
    _required_params: ClassVar = [Params.INPUT, Params.EXPECTED_OUTPUT, Params.RETRIEVAL_CONTEXT]


class AnswerRelevancyMetric(BaseMetric):
    pass


class OldBiasMetric(BaseMetric):
    """Its score is the share of biased opinions, as in versions before 4.3."""

    def is_successful(self) -> bool:
        return bool(self.score <= self.threshold)


class GEval(BaseMetric):
    def __init__(self, name: str, criteria: str, evaluation_params: list[Params] | None = None) -> None:
        super().__init__()
        self.criteria, self.evaluation_params = f"{name}: {criteria}", evaluation_params

    def measure(self, test_case: Any) -> None:
        self.reason, self.score = f"{self.criteria} {self.evaluation_params}", 1


class TurnsMetric(BaseConversationalMetric):
    _requires_chatbot_role = True

    def measure(self, test_case: Any) -> None:
        self.reason, self.score = " / ".join(f"{turn.role}: {turn.content}" for turn in test_case.turns), 1


class EnvironmentMetric(BaseMetric):
    def measure(self, test_case: Any) -> None:
        self.reason, self.score = os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"], 1


def ask(prompt: str, model: str) -> str:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers), timeout=20) as reply:
            text: str = json.load(reply)["choices"][0]["message"]["content"]
    except HTTPError as error:
        raise APIStatusError(error.code, json.load(error)["error"]) from None
    return text
