"""Contextual recall: do the retrieved passages contain what the expected answer needs?

Needs: an expected answer, retrieved passages
Judge calls: 1: the statements of the expected answer, each with the passage that supports it
Formula: statements that a passage supports / statements

It does not depend on the answer: it measures the retriever alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import ask, at_most, max_claims, object_of, passages, share
from agentv_eval import code_judge
from agentv_eval.material import context_of, reference_of

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

STATEMENTS = """\
Split the expected answer into statements: one short sentence each, understandable on its own. Say for each statement
which passage supports it: the number of the passage, or 0 if none does. A passage supports a statement if it states
it, or if it follows from the passage. Use only the passages, not what you know.\
"""


@code_judge
def contextual_recall(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    context = context_of(case)
    text, number = {"type": "string"}, {"type": "integer", "minimum": 0, "maximum": len(context)}
    statement = object_of({"statement": text, "reason": text, "passage": number})
    most = max_claims(case)
    schema = object_of({"statements": {"type": "array", "items": statement, "minItems": 1, "maxItems": most}})
    material = {"expected answer": reference_of(case), **passages(context)}
    reply = ask(judge, case, f"{STATEMENTS}\nList {at_most(most, 'statements')}.", material, schema)
    judgments = [
        {
            "text": entry["statement"],
            "verdict": "supported" if entry["passage"] else "not_supported",
            "reason": entry["reason"],
            "passage": entry["passage"],
        }
        for entry in reply["statements"]
    ]
    summary = "statements of the expected answer are supported by a passage"
    return share(judgments, ("supported",), "statements", summary, passages=len(context))
