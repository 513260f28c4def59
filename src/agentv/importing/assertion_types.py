"""The evaluator for each type of promptfoo assertion."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentv.importing.source import Node
from agentv.patterns import compiled
from agentv.templates import has_template

SCRIPT = "rewrite it as a judge script and use `code_judge` (create one with `agentv judge new NAME`)"
JUDGED = "describe a good answer in words and use `llm_judge` or `rubric`"
MEASURED = "`similarity` has other metrics, so choose one and a new `threshold`"
ACROSS = "it compares several answers; use `agentv compare RUN --by prompt` or `--by target`"
HINTS = {
    "ruby": SCRIPT,
    "webhook": SCRIPT,
    "levenshtein": MEASURED,
    "rouge-n": MEASURED,
    "bleu": MEASURED,
    "gleu": MEASURED,
    "meteor": MEASURED,
    "select-best": ACROSS,
    "max-score": ACROSS,
    "contains-json": "use `is_json` or `json_schema` if the whole answer must be JSON, otherwise `regex`",
}
CODE = {"javascript": "javascript", "python": "python"}
ABOVE_ZERO = 0.001
"""The threshold of code without one: in promptfoo, every number above 0 passes."""
GRADED = {"python", "javascript", "similarity", "llm_judge", "metric"}
"""Evaluators whose score can be between 0 and 1."""
SIMILAR_ENOUGH, RELEVANT_ENOUGH, GOOD_ENOUGH = 0.75, 0.0, 0.7
"""Default thresholds of promptfoo: `similar`, metrics, `g-eval`."""
_METRICS = {
    "answer-relevance": "answer_relevancy",
    "context-faithfulness": "faithfulness",
    "context-recall": "contextual_recall",
    "context-relevance": "contextual_relevancy",
}
_IS_XML = """\
from xml.etree import ElementTree
try:
    ElementTree.fromstring(answer)
except ElementTree.ParseError:
    return False
return True
"""
_SCORED = (
    "Score from 0 to 1 how well the answer meets this:\n\n{criteria}\n\n"
    "Question:\n{{{{ question }}}}\n\nAnswer:\n{{{{ candidate_answer }}}}\n"
)


class LeftOutError(ValueError):
    """An assertion that cannot be imported; the message has the reason and the next step."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """One assertion, without `not-`, and with its value read from files."""

    kind: str
    value: Any
    node: Node

    @property
    def threshold(self) -> float | None:
        limit = self.node.raw("threshold")
        if limit is None:
            return None
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise LeftOutError(f"`threshold` must be a number, got {limit!r}")
        return float(limit)

    def share(self, default: float) -> float:
        """The threshold of a score from 0 to 1."""
        limit = default if self.threshold is None else self.threshold
        if not 0 <= limit <= 1:
            raise LeftOutError(f"`threshold` must be a number from 0 to 1, got {limit}")
        return limit


def evaluator_for(assertion: Assertion) -> dict[str, Any]:
    """The evaluator with the same verdicts as an assertion. Raises LeftOutError."""
    convert = _CONVERTERS.get(assertion.kind)
    if convert is None:
        raise LeftOutError(f"not supported; {HINTS.get(assertion.kind, JUDGED)}")
    return convert(assertion)


# -- text


def _string_check(assertion: Assertion) -> dict[str, Any]:
    return {"type": assertion.kind.replace("-", "_"), "value": _string(assertion.value)}


def _any_or_all(assertion: Assertion) -> dict[str, Any]:
    name, _, how = assertion.kind.partition("-")
    return {"type": name, "value": _strings(assertion.value), "match": how}


def _equals(assertion: Assertion) -> dict[str, Any]:
    value = assertion.value
    if isinstance(value, dict | list):
        return {"type": "json_schema", "schema": {"const": value}}
    if value is None:
        raise LeftOutError("`value` is missing")
    return {"type": "equals", "value": as_text(value)}


def _regex(assertion: Assertion) -> dict[str, Any]:
    pattern = _string(assertion.value)
    if not has_template(pattern):
        try:
            compiled(pattern, "")
        except ValueError as error:
            raise LeftOutError(f"its pattern cannot be used: {error}; rewrite it for `regex`") from None
    return {"type": "regex", "pattern": pattern}


def _is_json(assertion: Assertion) -> dict[str, Any]:
    schema = _schema(assertion.value)
    return {"type": "is_json"} if schema is None else {"type": "json_schema", "schema": schema}


def _word_count(assertion: Assertion) -> dict[str, Any]:
    limits = assertion.value
    if isinstance(limits, dict) and limits and limits.keys() <= {"min", "max"}:
        low, high = limits.get("min"), limits.get("max")
        if not all(isinstance(limit, int) for limit in limits.values()):
            raise LeftOutError("`min` and `max` must be integers")
        parts = (f"{low} <= " if low is not None else "", f" <= {high}" if high is not None else "")
        return {"type": "python", "value": f"{parts[0]}len(answer.split()){parts[1]}"}
    try:
        return {"type": "python", "value": f"len(answer.split()) == {int(limits)}"}
    except (TypeError, ValueError):
        raise LeftOutError("`value` must be a number, or a mapping with `min` and `max`") from None


def _is_xml(assertion: Assertion) -> dict[str, Any]:
    if assertion.value:
        raise LeftOutError("required elements are not supported; check them in a `python` check")
    return {"type": "python", "value": _IS_XML}


# -- code


def _code(assertion: Assertion) -> dict[str, Any]:
    code = _string(assertion.value)
    if "\n" in code.strip() and not _returns(assertion.kind, code):
        raise LeftOutError("its code has several lines and no `return`; return the result")
    evaluator = {"type": assertion.kind, "value": code, "threshold": assertion.share(ABOVE_ZERO)}
    config = assertion.node.raw("config")
    return evaluator | ({"config": config} if isinstance(config, dict) else {})


def _returns(kind: str, code: str) -> bool:
    """Whether code of several lines has a `return`, or is one expression."""
    if kind == "javascript":
        return bool(re.search(r"\breturn\b", code))
    try:
        ast.parse(code.strip(), mode="eval")
    except SyntaxError:
        pass
    else:
        return True
    try:
        body = ast.parse(f"def check():\n{textwrap.indent(textwrap.dedent(code), ' ')}").body[0]
    except SyntaxError:
        return False
    nodes = list(ast.iter_child_nodes(body))
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            nodes += ast.iter_child_nodes(node)
    return False


# -- models


def _rubric(assertion: Assertion) -> dict[str, Any]:
    criterion = _criterion(assertion.value)
    if assertion.threshold is None:
        return {"type": "rubric", "rubrics": [criterion]}
    return {"type": "llm_judge", "prompt": _SCORED.format(criteria=criterion), "threshold": assertion.share(1)}


def _g_eval(assertion: Assertion) -> dict[str, Any]:
    value = assertion.value
    criteria = "\n".join(f"- {as_text(item)}" for item in value) if isinstance(value, list) else _criterion(value)
    prompt = _SCORED.format(criteria=criteria)
    return {"type": "llm_judge", "prompt": prompt, "threshold": assertion.share(GOOD_ENOUGH)}


def _factuality(assertion: Assertion) -> dict[str, Any]:
    return {"type": "rubric", "rubrics": [f"does not contradict these facts: {_criterion(assertion.value)}"]}


def _similar(assertion: Assertion) -> dict[str, Any]:
    if isinstance(assertion.value, list):
        raise LeftOutError("`value` is a list; use a `similarity` for each of its strings in a `composite`")
    threshold = assertion.share(SIMILAR_ENOUGH)
    return {"type": "similarity", "metric": "embedding", "value": _string(assertion.value), "threshold": threshold}


def _metric(assertion: Assertion) -> dict[str, Any]:
    name = _METRICS[assertion.kind]
    return {"type": "metric", "metric": name, "threshold": assertion.share(RELEVANT_ENOUGH)}


# -- what the answer took, and which tools it used


def _limit(assertion: Assertion) -> dict[str, Any]:
    if assertion.threshold is None:
        raise LeftOutError("`threshold` is missing")
    option = {"latency": "threshold_ms", "cost": "budget_usd"}[assertion.kind]
    return {"type": assertion.kind, option: assertion.node.raw("threshold")}


def _tool_used(assertion: Assertion) -> dict[str, Any]:
    value = assertion.value
    if isinstance(value, dict) and isinstance(value.get("name"), str) and value.keys() <= {"name", "min"}:
        return {"type": "tool_trajectory", "mode": "any_order", "minimums": {value["name"]: value.get("min", 1)}}
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LeftOutError("only names of tools are supported; use `tool_trajectory`")
    return {"type": "tool_trajectory", "mode": "any_order", "minimums": dict.fromkeys(names, 1)}


def _tool_sequence(assertion: Assertion) -> dict[str, Any]:
    value = assertion.value
    steps, mode = (
        (value.get("steps"), value.get("mode", "in_order")) if isinstance(value, dict) else (value, "in_order")
    )
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise LeftOutError("only names of tools are supported; use `tool_trajectory`")
    mode = "exact" if mode == "exact" else "in_order"
    return {"type": "tool_trajectory", "mode": mode, "expected": [{"tool": step} for step in steps]}


_CONVERTERS: dict[str, Callable[[Assertion], dict[str, Any]]] = {
    "contains": _string_check,
    "icontains": _string_check,
    "starts-with": _string_check,
    "contains-any": _any_or_all,
    "icontains-any": _any_or_all,
    "contains-all": _any_or_all,
    "icontains-all": _any_or_all,
    "equals": _equals,
    "regex": _regex,
    "is-json": _is_json,
    "is-xml": _is_xml,
    "word-count": _word_count,
    "javascript": _code,
    "python": _code,
    "llm-rubric": _rubric,
    "model-graded-closedqa": _rubric,
    "g-eval": _g_eval,
    "factuality": _factuality,
    "model-graded-factuality": _factuality,
    "similar": _similar,
    "similar:cosine": _similar,
    **dict.fromkeys(_METRICS, _metric),
    "latency": _limit,
    "cost": _limit,
    "trajectory:tool-used": _tool_used,
    "trajectory:tool-sequence": _tool_sequence,
}


def as_text(value: Any) -> str:
    """A value as the text that it is compared with."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _criterion(value: Any) -> str:
    text = as_text(value)
    if not text.strip():
        raise LeftOutError("`value` must be a non-empty string")
    return text.strip()


def _string(value: Any) -> str:
    if value is None or isinstance(value, dict | list) or value == "":
        raise LeftOutError("`value` must be a non-empty string")
    return as_text(value)


def _strings(value: Any) -> Any:
    """The strings of a list, or of a comma-separated string. A template can be a list, too."""
    if isinstance(value, str) and re.fullmatch(r"\s*\{\{[^{}]*\}\}\s*", value):
        return value.strip()
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or any(isinstance(item, dict | list) for item in items):
        raise LeftOutError("`value` must be a list of strings")
    strings = [as_text(item) for item in items]
    if "" in strings:
        raise LeftOutError("`value` contains an empty string, which matches every answer")
    return strings


def _schema(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        from agentv.suite.yaml import YamlProblem, YamlWalk  # noqa: PLC0415

        try:
            value = YamlWalk(value).document()
        except YamlProblem:
            value = ""
    if value is not None and not isinstance(value, dict):
        raise LeftOutError("`value` must be a JSON Schema")
    return value
