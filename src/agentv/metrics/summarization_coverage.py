"""Summarization coverage: does the summary contain what matters in the source?

Needs: the source text (the question, or the option `source`), the answer as the summary
Judge calls: 3: questions about the source, then their answers from the source and from the summary
Formula: questions answered with yes by source and summary / questions answered with yes by the source

Each question can be answered with yes or no, and the source answers it with yes. Give your own `questions` to
measure what matters to you; then there are 2 calls. An empty summary scores 0 without a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import (
    ATTEMPTS,
    MAX_QUESTIONS,
    ask,
    in_order,
    judge_of,
    judgments_schema,
    list_of,
    numbered,
    option,
    question_to_judge,
    share,
)
from agentv_eval import code_judge
from agentv_eval.material import fail, text_of, value_at

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput, JudgeProxyClient

QUESTIONS = """\
Write questions about the most important facts of the source that a good summary must contain. Each question can be
answered with yes or no, is understandable on its own, and its answer according to the source is yes.\
"""

ANSWERS = """\
Answer each of the numbered questions, using only the text:
- yes: the text says so
- no: the text says something else, or nothing about it\
"""


def _questions(case: CodeJudgeInput, judge: JudgeProxyClient | None, source: str) -> list[str]:
    most = option(case, "max_questions", MAX_QUESTIONS)
    prompt = f'{QUESTIONS}\nReply with {{"questions": [...]}}: at most {most} questions.'
    reply = ask(judge, case, prompt, {"source": source}, list_of("questions", most))
    questions = [question.strip() for question in reply["questions"] if question.strip()]
    return questions or fail("the judge found nothing to ask about the source; check `source`, or set `questions`")


@code_judge
def summarization_coverage(case: CodeJudgeInput, judge: JudgeProxyClient | None) -> dict[str, Any]:
    place = option(case, "source", "question")
    value = value_at(case, place)
    source = text_of(value) if value else fail(f"no source text at `{place}`; set the option `source` to where it is")
    summary = case.candidate_answer or ""
    if not summary.strip():
        return {"score": 0.0, "misses": ["the summary is empty"]}
    questions = option(case, "questions") or _questions(case, judge, source)
    schema = judgments_schema(len(questions), ("yes", "no"))
    replies = judge_of(judge).verdicts(
        [
            question_to_judge(case, ANSWERS, {"text": text, "questions": numbered(questions)})
            for text in (source, summary)
        ],
        schema=schema,
        attempts=ATTEMPTS,
    )
    by_source, by_summary = (in_order(reply, len(questions)) for reply in replies)
    judgments = [
        {"text": question, "verdict": covered["verdict"], "reason": covered["reason"]}
        for question, known, covered in zip(questions, by_source, by_summary, strict=True)
        if known["verdict"] == "yes"
    ]
    if not judgments:
        fail("the source answers none of the questions with yes; check `source` and `questions`")
    skipped = [question for question, known in zip(questions, by_source, strict=True) if known["verdict"] != "yes"]
    return share(judgments, ("yes",), "questions", "questions are answered by the summary", not_in_source=skipped)
