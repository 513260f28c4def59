"""Contextual precision: are the passages that help ranked before those that do not?

Needs: the question, an expected answer, retrieved passages in the order of the retriever
Judge calls: 1: a verdict for all passages
Formula: mean of the precision at the rank of each useful passage; 0 if no passage is useful

The precision at a rank is the share of useful passages up to that rank: with useful passages at ranks 1 and 3, the
score is (1/1 + 2/3) / 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import judged, passages, result
from agentv_eval import code_judge
from agentv_eval.material import context_of, question_of, reference_of

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

VERDICTS = """\
Say for each of the numbered passages whether it is useful for giving the expected answer to the question:
- useful: it contains something that the expected answer states or needs
- not_useful: it does not, even if it is about the same topic
Judge each passage independently of the others.\
"""


@code_judge
def contextual_precision(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    context = context_of(case)
    material = {"question": question_of(case), "expected answer": reference_of(case), **passages(context)}
    judgments = judged(judge, case, VERDICTS, material, items=context, verdicts=("useful", "not_useful"))
    useful = [judgment["verdict"] == "useful" for judgment in judgments]
    precisions = [sum(useful[:rank]) / rank for rank, helps in enumerate(useful, 1) if helps]
    score = sum(precisions) / len(precisions) if precisions else 0.0
    ranks = ", ".join(str(rank) for rank, helps in enumerate(useful, 1) if helps)
    reasoning = f"{sum(useful)} of {len(useful)} passages are useful" + (f": rank {ranks}" if ranks else "")
    return result(score, judgments, ("useful",), "passages", reasoning)
