from openevals.llm import create_llm_as_judge
from openevals.prompts import CORRECTNESS_PROMPT
from scenario import Case, run


def metric(case: Case) -> float:
    correctness = create_llm_as_judge(
        prompt=CORRECTNESS_PROMPT, model="openai:o3-mini", feedback_key="correctness", continuous=True
    )
    result = correctness(
        inputs="What is the capital of France?", outputs=case["candidate_answer"], reference_outputs="It is Paris."
    )
    return float(result["score"])


run(metric)
