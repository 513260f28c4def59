from scenario import Case, run
from trulens.providers.openai import OpenAI


def metric(case: Case) -> float:
    provider = OpenAI(model_engine="gpt-4o")
    return provider.relevance("What is the capital of France?", case["candidate_answer"])


run(metric)
