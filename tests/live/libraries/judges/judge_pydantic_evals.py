from pydantic_evals import Case as EvalsCase
from pydantic_evals import Dataset
from pydantic_evals.evaluators import LLMJudge
from scenario import Case, run


def metric(case: Case) -> float:
    judge = LLMJudge(
        rubric="Names the right city", include_input=True, score={"evaluation_name": "city"}, assertion=False
    )
    dataset = Dataset(name="capitals", cases=[EvalsCase(inputs="What is the capital of France?")], evaluators=[judge])
    report = dataset.evaluate_sync(lambda _: case["candidate_answer"], progress=False)
    (evaluated,) = report.cases
    return float(evaluated.scores["city"].value)


run(metric)
