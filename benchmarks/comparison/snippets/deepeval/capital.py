# ruff: noqa: E402, I001
from openai import OpenAI

# scorer
from deepeval.metrics import BaseMetric
from deepeval.models import GPTModel
from deepeval.test_case import LLMTestCase


class Capital(BaseMetric):
    threshold = 0.5

    def measure(self, test_case: LLMTestCase) -> float:
        question = "Does the answer name the capital? Answer yes or no."
        reply, _ = GPTModel(model="judge-model").generate(f"{question}\n\n{test_case.actual_output}")
        self.score = 1.0 if reply.strip(" .\n").lower() == "yes" else 0.0
        return self.score

    async def a_measure(self, test_case: LLMTestCase) -> float:
        return self.measure(test_case)

    def is_successful(self) -> bool:
        return self.score >= self.threshold


# end of scorer

from deepeval import evaluate

asked = [{"role": "user", "content": "What is the capital of France?"}]
answer = OpenAI().chat.completions.create(model="assistant-model", messages=asked).choices[0].message.content
result = evaluate([LLMTestCase(input=asked[0]["content"], actual_output=answer)], metrics=[Capital()])
print("score", result.test_results[0].metrics_data[0].score)
