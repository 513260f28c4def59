"""Evaluators. This one does not ask a judge."""

from types import SimpleNamespace


class BaseEvaluator:
    """All evaluators."""


class CorrectnessEvaluator(BaseEvaluator):
    """Scores from 1 to 5."""

    async def aevaluate(self, query: str, response: str, reference: str) -> SimpleNamespace:
        return SimpleNamespace(score=4.0, feedback=f"{query} {response} {reference}", invalid_result=False)
