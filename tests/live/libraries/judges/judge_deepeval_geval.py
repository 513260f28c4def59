from deepeval.metrics import GEval
from deepeval.test_case import LLMTestCase, SingleTurnParams
from scenario import Case, run


def metric(case: Case) -> float:
    correctness = GEval(
        name="correctness",
        criteria="Does the answer name the right city?",
        evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
    )
    return correctness.measure(
        LLMTestCase(input="What is the capital of France?", actual_output=case["candidate_answer"]),
        _show_indicator=False,
    )


run(metric)
