import asyncio

from openai import AsyncOpenAI
from ragas.embeddings.base import embedding_factory
from ragas.llms import llm_factory
from ragas.metrics.collections import AnswerRelevancy
from scenario import Case, run


def metric(case: Case) -> float:
    client = AsyncOpenAI()
    relevancy = AnswerRelevancy(
        llm=llm_factory("gpt-4o-mini", client=client),
        embeddings=embedding_factory("openai", model="text-embedding-3-small", client=client),
    )
    result = asyncio.run(
        relevancy.ascore(user_input="What is the capital of France?", response=case["candidate_answer"])
    )
    return float(result.value)


run(metric)
