import asyncio

from openai import AsyncOpenAI
from ragas.llms import llm_factory
from ragas.metrics.collections import Faithfulness
from scenario import Case, run


def metric(case: Case) -> float:
    faithfulness = Faithfulness(llm=llm_factory("gpt-4o-mini", client=AsyncOpenAI()))
    result = asyncio.run(
        faithfulness.ascore(
            user_input="What is the capital of France?",
            response=case["candidate_answer"],
            retrieved_contexts=["Paris is the capital of France."],
        )
    )
    return float(result.value)


run(metric)
