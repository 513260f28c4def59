# ruff: noqa: A002
from agentv_eval import code_judge


@code_judge
def capital(input, judge):
    verdict = judge.verdict(
        question="Does the answer name the capital?", material=input.candidate_answer, choices=["yes", "no"]
    )
    return 1.0 if verdict == "yes" else 0.0
