"""One workload in DeepEval: `python deepeval_run.py WORKLOAD CASES IN_FLIGHT`; prints the number of passed cases.

DeepEval scores existing answers, so they are fetched first, with the openai SDK, which is a dependency of DeepEval.
"""

import asyncio
import json
import os
import sys

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric, GEval
from deepeval.models import GPTModel
from deepeval.test_case import LLMTestCase, SingleTurnParams
from openai import AsyncOpenAI

workload, cases, in_flight = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


class Metric(BaseMetric):
    """Base class of the metrics below: a check of the answer that passes or fails."""

    threshold = 0.5
    async_mode = True

    async def right(self, answer: str) -> bool:
        raise NotImplementedError

    async def a_measure(self, test_case: LLMTestCase, *_args: object, **_more: object) -> float:
        self.score = 1.0 if await self.right(test_case.actual_output) else 0.0
        self.success = self.is_successful()
        return self.score

    def measure(self, test_case: LLMTestCase, *_args: object, **_more: object) -> float:
        return asyncio.run(self.a_measure(test_case))

    def is_successful(self) -> bool:
        return self.score >= self.threshold

    @property
    def __name__(self) -> str:
        return type(self).__name__


class ContainsParis(Metric):
    async def right(self, answer: str) -> bool:
        return "Paris" in answer


class Script(Metric):
    async def right(self, answer: str) -> bool:
        process = await asyncio.create_subprocess_exec(
            os.environ["SCRIPT_PYTHON"], "script.py", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate(json.dumps({"output": answer}).encode())
        return json.loads(printed)["score"] == 1.0


class ScriptJudge(Metric):
    async def right(self, answer: str) -> bool:
        reply, _ = await judge.a_generate(f"Does the answer name the capital?\n\n{answer}")
        return "Paris" in reply


def graded() -> GEval:
    shown = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT]
    steps = ["Check whether the answer names the capital that the question asks for."]
    return GEval(name="Right", evaluation_params=shown, evaluation_steps=steps, model=judge)


async def answers(questions: list[str]) -> list[str]:
    slots = asyncio.Semaphore(in_flight)
    async with AsyncOpenAI() as client:

        async def one(question: str) -> str:
            async with slots:
                asked = [{"role": "user", "content": question}]
                reply = await client.chat.completions.create(model="assistant-model", messages=asked)
                return reply.choices[0].message.content or ""

        return await asyncio.gather(*map(one, questions))


judge = GPTModel(model=os.environ["JUDGE_MODEL"])
metrics = {"contains": ContainsParis, "llm-judge": graded, "script": Script, "script-judge": ScriptJudge}
questions = [f"What is the capital of France? ({n})" for n in range(cases)]
result = evaluate(
    [LLMTestCase(input=q, actual_output=a) for q, a in zip(questions, asyncio.run(answers(questions)), strict=True)],
    metrics=[metrics[workload]()],
    async_config=AsyncConfig(run_async=True, max_concurrent=in_flight, throttle_value=0),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False, use_cache=False),
)
print("passed", sum(bool(test.success) for test in result.test_results))
