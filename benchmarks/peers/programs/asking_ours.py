"""The judge script of the workload `script-judge` in agentv: one judge call through the proxy."""

from agentv_eval import code_judge


@code_judge
def names_paris(input, judge):  # noqa: A002 - the SDK passes arguments by these names
    reply = judge.invoke(question=f"Does the answer name the capital?\n\n{input.candidate_answer}")
    return 1.0 if "Paris" in reply.raw_text else 0.0
