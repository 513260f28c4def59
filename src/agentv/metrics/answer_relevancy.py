"""Answer relevancy: does the answer stick to the question?

Needs: the question, the answer
Judge calls: 2: the statements of the answer, then a verdict for all of them; none if the answer is empty
Formula: statements that are not irrelevant / statements; 0 if there are none, as in an empty answer

It does not measure whether the answer is correct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import judged, listed, numbered, share
from agentv_eval import code_judge
from agentv_eval.material import question_of

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

STATEMENTS = """\
Split the answer into statements: one short sentence each, understandable on its own. Include everything that the answer
says, including advice, refusals, remarks and advertising.\
"""

VERDICTS = """\
Say for each of the numbered statements, which are from the answer, whether it is relevant to the question:
- relevant: it answers the question or a part of it, or says that this is not possible
- supporting: it does not answer the question, but gives background, a condition or a source for the answer
- irrelevant: it has nothing to do with what was asked
A wrong statement can be relevant: judge the topic, not the truth.\
"""


@code_judge
def answer_relevancy(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    question, answer = question_of(case), case.candidate_answer or ""
    material = {"question": question, "answer": answer}
    statements = listed(judge, case, STATEMENTS, material, "statements") if answer.strip() else []
    if not statements:
        return {"score": 0.0, "misses": ["the answer says nothing"], "details": {"statements": []}}
    material = {"question": question, "statements": numbered(statements)}
    judgments = judged(
        judge, case, VERDICTS, material, items=statements, verdicts=("relevant", "supporting", "irrelevant")
    )
    return share(judgments, ("relevant", "supporting"), "statements", "statements are relevant to the question")
