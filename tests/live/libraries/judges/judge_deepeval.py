from deepeval.metrics import AnswerRelevancyMetric
from deepeval.test_case import LLMTestCase
from scenario import Case, run


def metric(case: Case) -> float:
    relevancy = AnswerRelevancyMetric()
    return relevancy.measure(
        LLMTestCase(input="What is the capital of France?", actual_output=case["candidate_answer"]),
        _show_indicator=False,
    )


run(metric)
