"""Contextual precision with one judge call per passage, made concurrently."""

from agentv_eval import code_judge

from ranking import is_yes, passages_of, result

ASK = "Does the passage help to answer the question? Answer yes or no, and nothing else."


@code_judge
def one_call_per_passage(input, judge):
    passages = passages_of(input)
    if not passages:
        return {"score": 0.0, "misses": ["the search found nothing"]}
    replies = judge.invoke_batch(
        {"question": f"{ASK}\n\nQuestion: {input.question}\n\nPassage: {passage}"} for passage in passages
    )
    for reply in replies:
        if reply.error:
            raise RuntimeError(f"a passage could not be judged: {reply.error}")
    return result(passages, [is_yes(reply.raw_text) for reply in replies])
