import litellm
from pydantic import BaseModel
from scenario import Case, run


class Verdict(BaseModel):
    score: float


def metric(case: Case) -> float:
    reply = litellm.completion(
        model="openai/gpt-4o",
        messages=[{"role": "user", "content": f"How good is this answer? {case['candidate_answer']}"}],
        response_format=Verdict,
    )
    return Verdict.model_validate_json(reply.choices[0].message.content).score


run(metric)
