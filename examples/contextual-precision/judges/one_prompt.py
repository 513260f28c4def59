"""Contextual precision with one judge call for all passages: the reply is an array of judgments."""

import json

from agentv_eval import code_judge

from ranking import is_yes, passages_of, result

ASK = 'Which passages help to answer the question? Answer with a JSON array: "yes" or "no" for each passage, in order.'


@code_judge
def one_prompt(input, judge):
    passages = passages_of(input)
    if not passages:
        return {"score": 0.0, "misses": ["the search found nothing"]}
    listed = "\n".join(f"{rank}. {passage}" for rank, passage in enumerate(passages, 1))
    reply = judge.invoke(question=f"{ASK}\n\nQuestion: {input.question}\n\nPassages:\n{listed}")
    return result(passages, [is_yes(judgment) for judgment in json.loads(reply.raw_text)])
