"""Hallucination: does the answer contradict what it was given?

Needs: the answer, passages that are true
Judge calls: 1: a verdict for all passages
Formula: passages that the answer does not contradict / passages; 1 is best

An answer that leaves something out or adds something does not contradict a passage. To find claims without support, use
`faithfulness`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import judged, passages, share
from agentv_eval import code_judge
from agentv_eval.material import answer_of, context_of

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

VERDICTS = """\
Compare the answer with each of the numbered passages, and choose one verdict:
- agrees: nothing in the answer contradicts the passage; the answer may leave out what it says
- contradicts: the answer states something that cannot be true if the passage is true
Assume that the passages are true, even if you know otherwise.\
"""


@code_judge
def hallucination(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    answer, context = answer_of(case), context_of(case)
    material = {"question": case.question or "", "answer": answer, **passages(context)}
    judgments = judged(judge, case, VERDICTS, material, items=context, verdicts=("agrees", "contradicts"))
    return share(judgments, ("agrees",), "passages", "passages are not contradicted by the answer")
