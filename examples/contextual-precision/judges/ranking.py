"""What both judges need: the passages that were found, and the arithmetic."""


def passages_of(input):
    """What the `search` tool returned to the assistant, best first."""
    calls = [call for message in input.output_messages for call in message.get("tool_calls") or []]
    return [passage for call in calls if call["tool"] == "search" for passage in call["output"]]


def is_yes(judgment):
    """A reply that is neither yes nor no is a failure: a judge that did not answer has not said no."""
    word = judgment.strip(" .\n").lower()
    if word not in ("yes", "no"):
        raise ValueError(f"the judge said {judgment!r}, and neither yes nor no")
    return word == "yes"


def result(passages, helpful):
    """At the rank of each helpful passage, the share of helpful ones so far; the score is the mean of these shares."""
    shares = [sum(helpful[:rank]) / rank for rank, helps in enumerate(helpful, 1) if helps]
    judged = list(zip(passages, helpful, strict=True))
    return {
        "score": sum(shares) / len(shares) if shares else 0.0,
        "hits": [passage for passage, helps in judged if helps],
        "misses": [passage for passage, helps in judged if not helps],
    }
