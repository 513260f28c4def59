"""Ready metrics: one judge script per file, which the evaluator type `metric` runs.

Each file is a plain `code_judge` script. Its docstring says what it measures and how, and its prompts are the constants
of the file. `support.py` is shared by all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SHARED = "agentv.metrics.support"
"""The module that the scripts import."""
SHARED_FILE = Path(__file__).with_name("support.py")


class Metric(NamedTuple):
    """A ready metric: its options, and whether it calls a judge."""

    options: tuple[str, ...]
    calls_judge: bool = True


_CLAIMS = ("max_claims", "language")

METRICS: Mapping[str, Metric] = {
    "faithfulness": Metric(("context", "allow_unmentioned", *_CLAIMS)),
    "answer_relevancy": Metric(_CLAIMS),
    "contextual_precision": Metric(("context", "language")),
    "contextual_recall": Metric(("context", *_CLAIMS)),
    "contextual_relevancy": Metric(("context", *_CLAIMS)),
    "hallucination": Metric(("context", "language")),
    "summarization_coverage": Metric(("source", "questions", "max_questions", "language")),
    "tool_correctness": Metric(("expected", "mode", "arguments"), calls_judge=False),
    "task_completion": Metric(("goals", *_CLAIMS)),
    "json_correctness": Metric(("schema",), calls_judge=False),
    "toxicity": Metric(_CLAIMS),
    "bias": Metric(_CLAIMS),
}
"""Metrics by name. To add one, write a script and add a line here."""

ALIASES: Mapping[str, str] = {"summarisation_coverage": "summarization_coverage"}


def metric_name(written: str) -> str:
    """The name of a metric as in `METRICS`: `Answer Relevancy` and `answer-relevancy` are `answer_relevancy`."""
    name = "_".join(written.replace("-", " ").lower().split())
    return ALIASES.get(name, name)


def script_of(metric: str) -> Path:
    """The script of a metric."""
    return Path(__file__).with_name(f"{metric}.py")
