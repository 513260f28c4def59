import asyncio

import httpx
from langchain_openai import ChatOpenAI
from ragas.dataset_schema import SingleTurnSample
from ragas.llms import LangchainLLMWrapper
from ragas.metrics import Faithfulness
from scenario import Case, run


def metric(case: Case) -> float:
    client = httpx.AsyncClient()  # LangChain shares one among all event loops, and it fails in all but the first
    faithfulness = Faithfulness(llm=LangchainLLMWrapper(ChatOpenAI(model="gpt-4o-mini", http_async_client=client)))
    sample = SingleTurnSample(
        user_input="What is the capital of France?",
        response=case["candidate_answer"],
        retrieved_contexts=["Paris is the capital of France."],
    )
    return float(asyncio.run(faithfulness.single_turn_ascore(sample)))


run(metric)
