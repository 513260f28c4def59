from llama_index.core.evaluation import CorrectnessEvaluator
from llama_index.llms.openai import OpenAI
from scenario import Case, run


def metric(case: Case) -> float:
    evaluator = CorrectnessEvaluator(llm=OpenAI(model="gpt-4o"))
    result = evaluator.evaluate(
        query="What is the capital of France?", response=case["candidate_answer"], reference="It is Paris."
    )
    return result.score / 5  # its scale is 1 to 5


run(metric)
