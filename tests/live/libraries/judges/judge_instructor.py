import instructor
from pydantic import BaseModel, Field
from scenario import Case, run


class Verdict(BaseModel):
    score: float = Field(ge=0, le=1)


def metric(case: Case) -> float:
    client = instructor.from_provider("openai/gpt-4o")
    verdict = client.chat.completions.create(
        response_model=Verdict,
        messages=[{"role": "user", "content": f"How good is this answer? {case['candidate_answer']}"}],
    )
    return verdict.score


run(metric)
