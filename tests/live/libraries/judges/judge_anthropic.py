import anthropic
from scenario import Case, run

GRADE = {
    "name": "grade",
    "description": "Report the grade.",
    "input_schema": {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]},
}


def metric(case: Case) -> float:
    reply = anthropic.Anthropic().messages.create(
        model="claude-sonnet-4-5",
        max_tokens=100,
        messages=[{"role": "user", "content": f"Grade this answer: {case['candidate_answer']}"}],
        tools=[GRADE],
        tool_choice={"type": "tool", "name": "grade"},
    )
    return float(reply.content[0].input["score"])


run(metric)
