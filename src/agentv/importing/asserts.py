"""Convert promptfoo assertions to evaluators. Each evaluator passes or fails, as in promptfoo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentv.importing.source import FILE, Node, Notes, UnreadableError, entries, named_files, read_document, read_text
from agentv.importing.templates import TemplateError, as_text, render_all
from agentv.patterns import compiled

SCRIPT = "rewrite it as a judge script and use `code_judge` (create one with `agentv judge new NAME`)"
JUDGED = "describe a good answer in words and use `llm_judge` or `rubric`"
MEASURED = "`similarity` compares characters and words instead of embeddings, so choose a new `threshold`"
HINTS = {
    "javascript": SCRIPT,
    "python": SCRIPT,
    "ruby": SCRIPT,
    "webhook": SCRIPT,
    "similar": MEASURED,
    "levenshtein": MEASURED,
    "rouge-n": MEASURED,
    "bleu": MEASURED,
    "assert-set": "use `composite`",
    "contains-json": "use `is_json` or `json_schema` if the whole answer must be JSON, otherwise `regex`",
}
KNOWN = {"type", "value", "threshold", "weight", "metric", "provider"}


class LeftOutError(ValueError):
    """An assertion that cannot be imported; the message has the reason and the next step."""


class NothingLeftError(ValueError):
    """None of the assertions of a test could be imported."""


@dataclass(frozen=True, slots=True)
class Assertions:
    """The evaluators of one test, and the threshold that gives the same verdict as promptfoo."""

    evaluators: list[dict[str, Any]]
    threshold: float


@dataclass(slots=True)
class AssertReader:
    """Reads the assertions of one configuration."""

    notes: Notes
    directory: Any
    judge_for: Callable[[Node], str | None]
    """Returns the judge target for the `provider` of an assertion."""

    def read(self, nodes: list[Node], values: Mapping[str, Any], threshold: float | None) -> Assertions:
        evaluators: list[dict[str, Any]] = []
        for node in nodes:
            try:
                evaluator = self._evaluator(node, values)
            except (LeftOutError, TemplateError, UnreadableError) as error:
                kind = node.raw("type", "?") if node.is_mapping else "?"
                reason = f"the template {error} is not supported" if isinstance(error, TemplateError) else str(error)
                self.notes.left_out(node, f"assertion `{kind}`: {reason}")
            else:
                evaluators.append({"name": _unique(node.raw("metric") or evaluator["type"], evaluators), **evaluator})
        if nodes and not evaluators:
            raise NothingLeftError
        if not evaluators:
            evaluators.append({"name": "answered", "type": "regex", "pattern": "^"})
        return _with_threshold(evaluators, threshold)

    def _evaluator(self, node: Node, values: Mapping[str, Any]) -> dict[str, Any]:
        kind = node.raw("type")
        if not isinstance(kind, str):
            raise LeftOutError("`type` is missing")
        negate, base = kind.startswith("not-"), kind.removeprefix("not-")
        for key, entry in entries(node):
            if key not in KNOWN:
                self.notes.left_out(entry, f"`{key}` of an assertion is not imported")
        value = self._value(node, values, base)
        evaluator = _convert(base, value, node)
        if evaluator["type"] == "rubric":
            self._set_judge(evaluator, node)
        if negate:
            evaluator["negate"] = True
        weight = node.raw("weight")
        if weight is not None:
            if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
                raise LeftOutError(f"`weight` must be a number of 0 or more, got {weight!r}")
            evaluator["weight"] = weight
        return evaluator

    def _set_judge(self, evaluator: dict[str, Any], node: Node) -> None:
        if judge := self.judge_for(node):
            evaluator["judge_target"] = judge
        if node.get("threshold"):
            message = "the judge answers yes or no, so the threshold of this assertion is not needed"
            self.notes.look_at(node["threshold"], message)

    def _value(self, node: Node, values: Mapping[str, Any], kind: str) -> Any:
        value = node.raw("value")
        if isinstance(value, str) and value.startswith(FILE) and kind not in HINTS:
            path = named_files(value, self.directory)[0]
            if path.suffix in (".js", ".ts", ".mjs", ".cjs", ".py", ".rb"):
                raise LeftOutError(f"`value` comes from the program {path.name}; {SCRIPT}")
            is_data = kind == "is-json" or path.suffix in (".json", ".yaml", ".yml")
            value = read_document(path).value if is_data else read_text(path).strip()
        return value if kind in HINTS else render_all(value, values)


def _convert(kind: str, value: Any, node: Node) -> dict[str, Any]:
    if kind in _STRING_CHECKS:
        return {"type": _STRING_CHECKS[kind], "value": _string(value)}
    if kind in ("contains-any", "icontains-any", "contains-all", "icontains-all"):
        return _any_or_all(kind, _strings(value))
    if kind == "equals":
        if isinstance(value, dict | list):
            return {"type": "json_schema", "schema": {"const": value}}
        return {"type": "equals", "value": as_text(value)}
    if kind == "regex":
        return {"type": "regex", "pattern": _pattern(_string(value))}
    if kind == "is-json":
        schema = _schema(value)
        return {"type": "is_json"} if schema is None else {"type": "json_schema", "schema": schema}
    if kind in ("llm-rubric", "model-graded-closedqa"):
        return {"type": "rubric", "rubrics": [_string(value)]}
    if kind in ("latency", "cost"):
        option = {"latency": "threshold_ms", "cost": "budget_usd"}[kind]
        limit = node.raw("threshold")
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise LeftOutError("`threshold` is missing")
        return {"type": kind, option: limit}
    raise LeftOutError(f"not supported; {HINTS.get(kind, JUDGED)}")


_STRING_CHECKS = {"contains": "contains", "icontains": "icontains", "starts-with": "starts_with"}


def _string(value: Any) -> str:
    if value is None or isinstance(value, dict | list) or value == "":
        raise LeftOutError("`value` must be a non-empty string")
    return as_text(value)


def _strings(value: Any) -> list[str]:
    """The strings of a list, or of a comma-separated string."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or any(isinstance(item, dict | list) for item in items):
        raise LeftOutError("`value` must be a list of strings")
    strings = [as_text(item) for item in items]
    if "" in strings:
        raise LeftOutError("`value` contains an empty string, which matches every answer")
    return strings


def _any_or_all(kind: str, strings: list[str]) -> dict[str, Any]:
    name, _, how = kind.partition("-")
    return {"type": name, "value": strings, "match": how}


def _pattern(pattern: str) -> str:
    try:
        compiled(pattern, "")
    except ValueError as error:
        raise LeftOutError(f"its pattern cannot be used: {error}; rewrite it for `regex`") from None
    return pattern


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


def _with_threshold(evaluators: list[dict[str, Any]], threshold: float | None) -> Assertions:
    """Without a threshold, every assertion must pass, including those with weight 0."""
    if threshold is not None:
        return Assertions(evaluators, threshold)
    if all(evaluator.get("weight", 1) > 0 for evaluator in evaluators):
        return Assertions(evaluators, 1.0)
    return Assertions([{**evaluator, "required": True} for evaluator in evaluators], 0.0)


def _unique(name: Any, others: list[dict[str, Any]]) -> str:
    taken = {other["name"] for other in others}
    wanted = str(name)
    return next(each for each in (wanted, *(f"{wanted}-{n}" for n in range(2, len(taken) + 3))) if each not in taken)
