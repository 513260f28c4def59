"""Contextual relevancy: how much of the retrieved passages is about the question?

Needs: the question, retrieved passages
Judge calls: 1 per passage, concurrently: its statements, each with a verdict
Formula: relevant statements / statements, over all passages; 0 if the passages state nothing

It does not depend on the answer: it measures the retriever and the size of its passages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import ATTEMPTS, at_most, judge_of, max_claims, object_of, question_to_judge, share
from agentv_eval import code_judge
from agentv_eval.material import context_of, question_of

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

STATEMENTS = """\
Split the passage into statements: one short sentence each, understandable on its own. Say for each statement whether
it is relevant to the question:
- relevant: it helps to answer the question or a part of it
- irrelevant: it does not
If the passage states nothing, the list is empty.\
"""


@code_judge
def contextual_relevancy(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    question, context = question_of(case), context_of(case)
    text = {"type": "string"}
    statement = object_of({"statement": text, "reason": text, "verdict": {"enum": ["relevant", "irrelevant"]}})
    most = max_claims(case)
    schema = object_of({"statements": {"type": "array", "items": statement, "maxItems": most}})
    prompt = f"{STATEMENTS}\nList {at_most(most, 'statements')}."
    questions = [question_to_judge(case, prompt, {"question": question, "passage": text}) for text in context]
    replies = judge_of(judge).verdicts(questions, schema=schema, attempts=ATTEMPTS)
    judgments = [
        {"text": entry["statement"], "verdict": entry["verdict"], "reason": entry["reason"], "passage": number}
        for number, reply in enumerate(replies, 1)
        for entry in reply["statements"]
    ]
    if not judgments:
        return {"score": 0.0, "misses": ["the passages state nothing"], "details": {"statements": []}}
    summary = "statements of the passages are relevant to the question"
    return share(judgments, ("relevant",), "statements", summary, passages=len(context))
