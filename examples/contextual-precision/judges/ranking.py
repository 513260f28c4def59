"""Shared by both judges: the passages that were found, and the arithmetic."""


def passages_of(input):
    """What the `search` tool returned to the assistant, best first."""
    calls = [call for message in input.output_messages for call in message.get("tool_calls") or []]
    return [passage for call in calls if call["tool"] == "search" for passage in call["output"]]


def is_yes(judgment):
    """Whether the judge answered yes. Any reply but yes or no is an error, not a no."""
    word = judgment.strip(" .\n").lower()
    if word not in ("yes", "no"):
        raise ValueError(f"the judge must answer yes or no, got {judgment!r}")
    return word == "yes"


def result(passages, helpful):
    """At the rank of each helpful passage, the share of helpful ones so far; the score is the mean of these shares."""
    shares = [sum(helpful[:rank]) / rank for rank, helps in enumerate(helpful, 1) if helps]
    judged = list(enumerate(zip(passages, helpful, strict=True), 1))
    ranks = "".join(f", rank {rank}" for rank, (_, helps) in judged if helps)
    return {
        "score": sum(shares) / len(shares) if shares else 0.0,
        "hits": [f"rank {rank} helps: {passage}" for rank, (passage, helps) in judged if helps],
        "misses": [f"rank {rank} does not help: {passage}" for rank, (passage, helps) in judged if not helps],
        "reasoning": f"{sum(helpful)} of {len(passages)} passages help{ranks}",
    }
