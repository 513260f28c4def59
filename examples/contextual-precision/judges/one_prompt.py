"""Contextual precision with one judge call for all passages: the reply is an array of judgments."""

import json
import re

from agentv_eval import code_judge

from ranking import is_yes, passages_of, result

ASK = 'Which passages help to answer the question? Answer with a JSON array: "yes" or "no" for each passage, in order.'


def judgments_in(reply):
    """The JSON array in a reply. Many models put it in a code fence, or a sentence before it."""
    array = re.search(r"\[[^\[\]]*\]", reply)
    if array is None:
        raise ValueError(f"the judge's reply contains no JSON array: {reply[:200]!r}")
    return json.loads(array[0])


@code_judge
def one_prompt(input, judge):
    passages = passages_of(input)
    if not passages:
        return {"score": 0.0, "misses": ["the search found nothing"]}
    listed = "\n".join(f"{rank}. {passage}" for rank, passage in enumerate(passages, 1))
    reply = judge.invoke(question=f"{ASK}\n\nQuestion: {input.question}\n\nPassages:\n{listed}")
    return result(passages, [is_yes(judgment) for judgment in judgments_in(reply.raw_text)])
