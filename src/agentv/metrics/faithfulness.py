"""Faithfulness: is what the answer claims supported by the retrieved passages?

Needs: the answer, retrieved passages
Judge calls: 2: the claims of the answer, then a verdict for all of them; 1 if there are none
Formula: supported claims / claims; 1 if the answer makes no claims

With `allow_unmentioned: true`, claims that the passages do not mention count like supported ones, so that only
contradictions lower the score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import judged, listed, numbered, option, passages, share
from agentv_eval import code_judge
from agentv_eval.material import answer_of, context_of

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

CLAIMS = """\
List the factual claims that the answer makes. Each claim is one short sentence that is understandable on its own:
replace pronouns with what they refer to. Take the claims from the answer as it is, whether they are true or not. Leave
out greetings, questions, and statements like "I do not know".\
"""

VERDICTS = """\
Compare each of the numbered claims with the passages, and choose one verdict:
- supported: the passages state it, or it follows from them
- contradicted: the passages state something else
- not_mentioned: the passages neither support nor contradict it
Use only the passages, not what you know. Other claims do not support a claim.\
"""


@code_judge
def faithfulness(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    answer, context = answer_of(case), context_of(case)
    claims = listed(judge, case, CLAIMS, {"question": case.question or "", "answer": answer}, "claims")
    if not claims:
        return {"score": 1.0, "reasoning": "the answer makes no claims", "details": {"claims": []}}
    material = {**passages(context), "claims": numbered(claims)}
    judgments = judged(
        judge, case, VERDICTS, material, items=claims, verdicts=("supported", "contradicted", "not_mentioned")
    )
    good = {"supported"}
    summary = "claims are supported by the passages"
    if option(case, "allow_unmentioned", default=False):
        good.add("not_mentioned")
        summary = "claims are not contradicted by the passages"
    return share(judgments, good, "claims", summary, passages=len(context))
