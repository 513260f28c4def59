"""One workload in pydantic-evals: `python pydantic_evals_run.py WORKLOAD CASES IN_FLIGHT`; prints the passed cases."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass

from pydantic_ai import Agent
from pydantic_ai.models import infer_model
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains, Evaluator, EvaluatorContext, LLMJudge

workload, cases, in_flight = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# Models are created once: given a name, LLMJudge creates a client for every call, at more than twice the cost.
judge_model = infer_model(f"openai-chat:{os.environ['JUDGE_MODEL']}")
assistant = Agent("openai-chat:assistant-model")
judge = Agent(judge_model)


@dataclass
class Script(Evaluator):
    async def evaluate(self, ctx: EvaluatorContext) -> bool:
        process = await asyncio.create_subprocess_exec(
            os.environ["SCRIPT_PYTHON"], "script.py", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate(json.dumps({"output": ctx.output}).encode())
        return json.loads(printed)["score"] == 1.0


@dataclass
class ScriptJudge(Evaluator):
    async def evaluate(self, ctx: EvaluatorContext) -> bool:
        return "Paris" in (await judge.run(f"Does the answer name the capital?\n\n{ctx.output}")).output


async def ask(question: str) -> str:
    return (await assistant.run(question)).output


evaluators = {
    "contains": lambda: Contains("Paris"),
    "llm-judge": lambda: LLMJudge("Names Paris", model=judge_model, include_input=True),
    "script": Script,
    "script-judge": ScriptJudge,
}
dataset = Dataset(
    name="capitals",
    cases=[Case(name=f"case-{n}", inputs=f"What is the capital of France? ({n})") for n in range(cases)],
    evaluators=[evaluators[workload]()],
)
report = dataset.evaluate_sync(ask, max_concurrency=in_flight, progress=False)
for failure in [*report.failures, *(failed for case in report.cases for failed in case.evaluator_failures)][:1]:
    print(failure)
print(
    "passed",
    sum(all(result.value for result in case.assertions.values()) and bool(case.assertions) for case in report.cases),
)
