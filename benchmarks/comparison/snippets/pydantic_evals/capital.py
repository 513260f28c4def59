# ruff: noqa: I001
from pydantic_evals import Case, Dataset

# scorer
from dataclasses import dataclass

from pydantic_ai import Agent
from pydantic_evals.evaluators import Evaluator, EvaluatorContext


@dataclass
class Capital(Evaluator):
    async def evaluate(self, ctx: EvaluatorContext) -> float:
        question = "Does the answer name the capital? Answer yes or no."
        reply = await Agent("openai-chat:judge-model").run(f"{question}\n\n{ctx.output}")
        return 1.0 if reply.output.strip(" .\n").lower() == "yes" else 0.0


# end of scorer


async def assistant(question: str) -> str:
    return (await Agent("openai-chat:assistant-model").run(question)).output


dataset = Dataset(name="capitals", cases=[Case(inputs="What is the capital of France?")], evaluators=[Capital()])
report = dataset.evaluate_sync(assistant, progress=False)
print("score", report.cases[0].scores["Capital"].value)
