import dspy
from dspy.evaluate import SemanticF1
from scenario import Case, run

dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", cache=False))


def metric(case: Case) -> float:
    example = dspy.Example(question="What is the capital of France?", response="It is Paris.")
    return float(SemanticF1()(example, dspy.Prediction(response=case["candidate_answer"])).score)


run(metric)
