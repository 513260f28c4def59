"""Task completion: did the assistant do what it was asked to?

Needs: the question, the answer; tool calls in `output_messages` if there are any
Judge calls: 2: the goals of the task, then a verdict for all of them
Formula: (achieved goals + half of the partly achieved goals) / goals

The goals are taken from the question (and the expected outcome, if the case has one) before the judge sees the
answer. Give your own `goals` to fix them; then there is 1 call. An empty answer without tool calls scores 0 without
a call.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentv.metrics.support import judged, listed, numbered, option, result
from agentv_eval import code_judge
from agentv_eval.material import fail, question_of, tool_calls

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

GOALS = """\
List the goals of the task that the user gives the assistant: what must be true when the task is done. Each goal is
one short sentence that is understandable on its own. List only what the user asks for, without advice on how to do
it. A simple question has one goal.\
"""

VERDICTS = """\
Say for each of the numbered goals whether the assistant achieved it:
- achieved: the answer and the steps show that it is done
- partly: an important part of it is done
- not_achieved: it is not done, it is wrong, or it is only announced
The steps are what the assistant actually did, with the outputs of its tools. Trust them over what the answer claims
about them.\
"""
WORTH = {"achieved": 1.0, "partly": 0.5, "not_achieved": 0.0}


@code_judge
def task_completion(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    question, answer, steps = question_of(case), case.candidate_answer or "", tool_calls(case)
    if not answer.strip() and not steps:
        return {"score": 0.0, "misses": ["the answer is empty"]}
    task = {"question": question}
    if case.expected_outcome:
        task["expected outcome"] = case.expected_outcome
    goals = option(case, "goals") or listed(judge, case, GOALS, task, "goals")
    if not goals:
        fail("the judge found no goals in the question; set the option `goals`")
    done = "\n".join(json.dumps(step, ensure_ascii=False) for step in steps) or "no tool calls"
    material = {**task, "goals": numbered(goals), "steps": done, "answer": answer}
    judgments = judged(judge, case, VERDICTS, material, items=goals, verdicts=WORTH)
    score = sum(WORTH[judgment["verdict"]] for judgment in judgments) / len(judgments)
    achieved = sum(judgment["verdict"] == "achieved" for judgment in judgments)
    partly = sum(judgment["verdict"] == "partly" for judgment in judgments)
    reasoning = f"{achieved} of {len(goals)} goals are achieved" + (f", {partly} partly" if partly else "")
    return result(score, judgments, ("achieved",), "goals", reasoning, steps=len(steps))
