"""Contextual recall: the share of statements of the expected answer that a retrieved passage supports."""

import re

from agentv_eval import code_judge

ASK = "Which passage supports each statement? Answer with the number of the passage, or 0 when none does, in order."


def numbered(lines):
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


@code_judge
def contextual_recall(input, judge):
    statements = re.split(r"(?<=[.!?])\s+", input.reference_answer.strip())
    calls = [call for message in input.output_messages for call in message.get("tool_calls") or []]
    passages = [passage for call in calls if call["tool"] == "search" for passage in call["output"]]
    if not passages:
        return {"score": 0.0, "misses": statements, "reasoning": "the search found nothing"}

    number = {"type": "integer", "minimum": 0, "maximum": len(passages)}
    sources = judge.verdict(
        question=ASK,
        material={"question": input.question, "statements": numbered(statements), "passages": numbered(passages)},
        schema={"type": "array", "items": number, "minItems": len(statements), "maxItems": len(statements)},
    )
    judged = list(zip(statements, sources, strict=True))
    return {
        "score": sum(source > 0 for source in sources) / len(sources),
        "hits": [f"{statement} (passage {source})" for statement, source in judged if source],
        "misses": [statement for statement, source in judged if not source],
    }
