import openai
from pydantic import BaseModel
from scenario import Case, run


class Verdict(BaseModel):
    score: float


def metric(case: Case) -> float:
    reply = openai.OpenAI().chat.completions.parse(
        model="gpt-4o",
        messages=[
            {"role": "system", "content": "You judge answers."},
            {"role": "user", "content": f"How good is this answer? {case['candidate_answer']}"},
        ],
        response_format=Verdict,
    )
    verdict = reply.choices[0].message.parsed
    assert verdict is not None
    return verdict.score


run(metric)
