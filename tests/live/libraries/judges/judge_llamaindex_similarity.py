from llama_index.core.evaluation import SemanticSimilarityEvaluator
from llama_index.embeddings.openai import OpenAIEmbedding
from scenario import Case, run


def metric(case: Case) -> float:
    evaluator = SemanticSimilarityEvaluator(embed_model=OpenAIEmbedding())
    return evaluator.evaluate(response=case["candidate_answer"], reference="It is Paris.").score


run(metric)
