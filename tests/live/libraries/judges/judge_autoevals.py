import autoevals
from scenario import Case, run


def metric(case: Case) -> float:
    factuality = autoevals.Factuality()
    result = factuality(
        output=case["candidate_answer"], expected="It is Paris.", input="What is the capital of France?"
    )
    return result.score


run(metric)
