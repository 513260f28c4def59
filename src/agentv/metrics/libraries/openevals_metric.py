"""Scores the case with a prompt or an evaluator of openevals (package `openevals`)."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import openevals.exact
import openevals.prompts
import openevals.string
from openevals.llm import create_llm_as_judge

from agentv_eval import CodeJudgeInput, code_judge
from agentv_eval.library_metrics import (
    checked_parameters,
    chosen,
    errors_of,
    gathered,
    measured,
    named,
    parameters_of,
)
from agentv_eval.material import (
    answer_of,
    context_of,
    conversation_of,
    fail,
    message_text,
    question_of,
    reference_of,
)

METRIC = ""
PARAMETERS: dict[str, Any] = {}

MODEL = "openai:gpt-4o-mini"
LOWER_IS_BETTER = (
    "CODE_INJECTION_PROMPT",
    "EXPLICIT_CONTENT_PROMPT",
    "FAIRNESS_PROMPT",
    "LAZINESS_PROMPT",
    "PERCEIVED_ERROR_PROMPT",
    "PII_LEAKAGE_PROMPT",
    "PROMPT_INJECTION_PROMPT",
    "SENSITIVE_IMAGERY_PROMPT",
    "TOXICITY_PROMPT",
)
"""Prompts that ask whether something bad was found."""
NOT_SCORES = ("LANGUAGE_DETECTION_PROMPT", "SUPPORT_INTENT_PROMPT")
"""Prompts that ask for a category."""
EVALUATORS: dict[str, Callable[..., Any]] = {
    "exact_match": lambda: openevals.exact.exact_match,
    "levenshtein_distance": lambda: openevals.string.levenshtein_distance,
}
"""Evaluators without a prompt: they compare the answer with the expected answer. That of embeddings is missing:
LangChain sends tokens instead of text, after a download."""


def shown(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages with their tool calls, as they are inserted in prompts about conversations."""
    return [
        {"role": message["role"], "content": message_text(message)}
        | ({"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {})
        for message in messages
    ]


FIELDS = {
    "inputs": question_of,
    "outputs": answer_of,
    "reference_outputs": reference_of,
    "context": lambda case: "\n\n".join(context_of(case)),
}
OF_CONVERSATIONS: dict[str, Callable[[CodeJudgeInput], Any]] = {
    "outputs": lambda case: shown(conversation_of(case)),
    "reference_outputs": lambda case: shown(case.expected_messages) or reference_of(case),
}


def prompts() -> dict[str, str]:
    return {
        name: text
        for name, text in vars(openevals.prompts).items()
        if isinstance(text, str) and name.endswith(("_PROMPT", "_OUTPUTS", "_REFERENCE")) and name not in NOT_SCORES
    }


def is_about_conversations(name: str) -> bool:
    """Whether `outputs` in the prompt are the messages: prompts about conversations, and about tool calls."""
    kinds = (getattr(openevals.prompts, kind, None) for kind in ("conversation", "trajectory"))
    return any(hasattr(kind, name) for kind in kinds)


def scale_of(parameters: dict[str, Any]) -> tuple[float, float]:
    """0 to 1, unless the parameter `choices` has other numbers."""
    choices = parameters.get("choices") or (0, 1)
    return (0, 1) if min(choices) >= 0 and max(choices) <= 1 else (min(choices), max(choices))


def checked(evaluator: Callable[..., Any], material: dict[str, Any]) -> dict[str, Any]:
    result = evaluator(**material)
    return result if isinstance(result, dict) and "score" in result else fail(f"openevals returned {result!r}")


def compared(case: CodeJudgeInput, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    material = gathered(case, FIELDS, ["outputs", "reference_outputs"])
    create = EVALUATORS[name]
    checked_parameters(name, parameters_of(create), parameters)
    with errors_of(name):
        result = checked(create(**parameters), material)
    return measured("openevals", name, result["score"])


@code_judge
def judge(case: CodeJudgeInput) -> dict[str, Any]:
    written, parameters = chosen(case, METRIC, PARAMETERS)
    name = named(written, [*prompts(), *EVALUATORS], "openevals")
    if name in EVALUATORS:
        return compared(case, name, parameters)
    prompt = prompts()[name]
    fields = [field for _, field, _, _ in string.Formatter().parse(prompt) if field]
    of_case = {field: parameters.pop(field) for field in fields if field in parameters}
    found_by = {**FIELDS, **(OF_CONVERSATIONS if is_about_conversations(name) else {})}
    material = gathered(case, found_by, fields, (), of_case)
    accepted = {key: False for key in parameters_of(create_llm_as_judge) if key != "prompt"}
    checked_parameters(name, accepted, parameters)
    with errors_of(name):
        evaluator = create_llm_as_judge(prompt=prompt, **{"model": MODEL, "feedback_key": name.lower(), **parameters})
        result = checked(evaluator, material)
    return measured(
        "openevals",
        name,
        result["score"],
        result.get("comment"),
        scale=scale_of(parameters),
        lower_is_better=name in LOWER_IS_BETTER,
    )
