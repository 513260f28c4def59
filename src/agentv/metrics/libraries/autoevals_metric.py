"""Scores the case with a scorer of autoevals (package `autoevals`)."""

from __future__ import annotations

import inspect
import json
import os
import re
from typing import Any

import autoevals
import openai  # noqa: F401 - autoevals imports it late; here, warm processes have it already

from agentv_eval import CodeJudgeInput, code_judge
from agentv_eval.library_metrics import (
    checked_parameters,
    chosen,
    errors_of,
    gathered,
    measured,
    named,
    need_embeddings,
    parameters_of,
)
from agentv_eval.material import answer_of, context_of, fail, question_of, reference_of

METRIC = ""
PARAMETERS: dict[str, Any] = {}

FIELDS = {
    "input": question_of,
    "output": answer_of,
    "expected": reference_of,
    "context": context_of,
    "instructions": question_of,
}
NEEDS = {
    "AnswerCorrectness": ("input", "expected"),
    "AnswerRelevancy": ("input", "context"),
    "AnswerSimilarity": ("expected",),
    "ContextEntityRecall": ("expected", "context"),
    "ContextPrecision": ("input", "expected", "context"),
    "ContextRecall": ("input", "expected", "context"),
    "ContextRelevancy": ("input", "context"),
    "EmbeddingSimilarity": ("expected",),
    "ExactMatch": ("expected",),
    "Faithfulness": ("input", "context"),
    "JSONDiff": ("expected",),
    "Levenshtein": ("expected",),
    "ListContains": ("expected",),
    "NumericDiff": ("expected",),
}
"""Besides `output`. Prompts of classifiers name what they need."""
EMBEDS = ("AnswerCorrectness", "AnswerRelevancy", "AnswerSimilarity", "ContextEntityRecall", "EmbeddingSimilarity")
PARSED = ("ListContains", "NumericDiff")
VARIABLE = re.compile(r"{{{?\s*(\w+)\s*}?}}")


def scorers() -> dict[str, Any]:
    """Scorers that can be used by name, without the base classes that they share."""
    kinds = {name: kind for name, kind in vars(autoevals).items() if inspect.isclass(kind)}
    bases = {"OpenAILLMClassifier", "OpenAILLMScorer", "OpenAIScorer", "SpecFileClassifier"}
    return {
        name: kind
        for name, kind in kinds.items()
        if issubclass(kind, autoevals.Scorer) and not inspect.isabstract(kind) and name not in bases
    }


def created(kind: Any, parameters: dict[str, Any]) -> Any:
    """The scorer. Without the judge proxy, autoevals would send the case to a gateway of its vendor."""
    if issubclass(kind, autoevals.llm.OpenAIScorer) or kind is autoevals.EmbeddingSimilarity:
        _ = os.environ.get("OPENAI_BASE_URL") or fail(
            "the metric has no judge; set `judge: {}` on the evaluator, and no `OPENAI_API_KEY` in its `env`"
        )
    return kind(**checked_parameters(kind.__name__, parameters_of(kind), parameters))


def needed_by(name: str, scorer: Any) -> list[str]:
    """What the scorer needs besides `output`: for classifiers, the variables in their prompt."""
    prompt = "".join(str(message.get("content")) for message in getattr(scorer, "messages", None) or ())
    rendered = getattr(scorer, "render_args", None) or {}
    variables = [found for found in VARIABLE.findall(prompt) if found not in rendered and not found.startswith("_")]
    return [*NEEDS.get(name, ()), *(variable for variable in dict.fromkeys(variables) if variable != "output")]


def parsed(material: dict[str, Any]) -> dict[str, Any]:
    """Answer and expected answer as JSON values, for scorers that compare numbers or lists."""
    values = dict(material)
    for key in ("output", "expected"):
        try:
            values[key] = json.loads(material[key])
        except ValueError:
            fail(f"`{key}` must be JSON for this metric, got {material[key][:80]!r}")
    return values


def as_json(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """The metadata of a score without objects, which some scorers put there."""
    plain: dict[str, Any] = json.loads(
        json.dumps(metadata or {}, default=lambda value: getattr(value, "score", str(value)))
    )
    return plain


@code_judge
def judge(case: CodeJudgeInput) -> dict[str, Any]:
    written, parameters = chosen(case, METRIC, PARAMETERS)
    name = named(written, scorers(), "autoevals")
    if name in EMBEDS:
        need_embeddings(case)
    kind = scorers()[name]
    constructor = parameters_of(kind)
    with errors_of(name):
        scorer = created(kind, {key: value for key, value in parameters.items() if key in constructor})
        needed = ["output", *needed_by(name, scorer)]
        optional = [field for field in parameters_of(scorer._run_eval_sync) if field in FIELDS]  # noqa: SLF001
        of_case = {key: value for key, value in parameters.items() if key not in constructor}
        checked_parameters(name, dict.fromkeys([*constructor, *needed, *optional], False), of_case)
        material = gathered(case, FIELDS, needed, optional, of_case)
        result = scorer.eval(**(parsed(material) if name in PARSED else material))
    metadata = as_json(result.metadata)
    return measured("autoevals", name, result.score, metadata.pop("rationale", ""), details=metadata)
