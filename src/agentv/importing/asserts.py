"""Assertions of promptfoo -> evaluators. Every one here says yes or no, as there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentv.importing.source import FILE, Node, Notes, UnreadableError, entries, named_files, read_document, read_text
from agentv.importing.templates import TemplateError, as_text, render_all

SCRIPT = "write it as a script and use `code_judge` (`agentv judge new NAME` starts one)"
JUDGED = "say in words what a good answer does and use `llm_judge` or `rubric`"
MEASURED = "`similarity` compares texts by letters and words, not by embeddings: choose its `threshold` anew"
HINTS = {
    "javascript": SCRIPT,
    "python": SCRIPT,
    "ruby": SCRIPT,
    "webhook": SCRIPT,
    "similar": MEASURED,
    "levenshtein": MEASURED,
    "rouge-n": MEASURED,
    "bleu": MEASURED,
    "assert-set": "write its parts as a `composite`",
    "contains-json": "use `is_json` or `json_schema` when the whole answer must be JSON, else `regex`",
}
KNOWN = {"type", "value", "threshold", "weight", "metric", "provider"}


class LeftOutError(ValueError):
    """An assertion that is not carried over; the message says why and what to do."""


class NothingLeftError(ValueError):
    """None of the assertions of a test could be carried over."""


@dataclass(frozen=True, slots=True)
class Assertions:
    """The evaluators of one test, and the pass line that makes them decide as promptfoo does."""

    evaluators: list[dict[str, Any]]
    threshold: float


@dataclass(slots=True)
class AssertReader:
    """Reads the assertions of one configuration."""

    notes: Notes
    directory: Any
    judge_for: Callable[[Node], str | None]
    """The target that grades for an assertion, made from its `provider`."""

    def read(self, nodes: list[Node], values: Mapping[str, Any], threshold: float | None) -> Assertions:
        found: list[dict[str, Any]] = []
        for node in nodes:
            try:
                evaluator = self._evaluator(node, values, exact=threshold is not None)
            except (LeftOutError, TemplateError, UnreadableError) as error:
                kind = node.raw("type", "?") if node.is_mapping else "?"
                what = f"the template {error} is not filled in" if isinstance(error, TemplateError) else str(error)
                self.notes.left_out(node, f"assertion `{kind}`: {what}")
            else:
                found.append({"name": _unique(node.raw("metric") or evaluator["type"], found), **evaluator})
        if nodes and not found:
            raise NothingLeftError
        if not found:
            found.append({"name": "answered", "type": "regex", "pattern": "^"})
        return _decided(found, threshold)

    def _evaluator(self, node: Node, values: Mapping[str, Any], *, exact: bool) -> dict[str, Any]:
        kind = node.raw("type")
        if not isinstance(kind, str):
            raise LeftOutError("it has no `type`")
        negate, base = kind.startswith("not-"), kind.removeprefix("not-")
        for key, entry in entries(node):
            if key not in KNOWN:
                self.notes.left_out(entry, f"`{key}` of an assertion is not carried over")
        value = self._value(node, values, base)
        evaluator = _convert(base, value, node, exact=exact or negate)
        if evaluator["type"] == "rubric":
            self._graded(evaluator, node)
        if negate:
            evaluator["negate"] = True
        weight = node.raw("weight")
        if weight is not None:
            if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
                raise LeftOutError(f"its weight is {weight!r}, not a number of 0 or more")
            evaluator["weight"] = weight
        return evaluator

    def _graded(self, evaluator: dict[str, Any], node: Node) -> None:
        if judge := self.judge_for(node):
            evaluator["judge_target"] = judge
        if node.get("threshold"):
            told = "the judge says yes or no here, so the threshold of this assertion is not needed"
            self.notes.look_at(node["threshold"], told)

    def _value(self, node: Node, values: Mapping[str, Any], kind: str) -> Any:
        value = node.raw("value")
        if isinstance(value, str) and value.startswith(FILE) and kind not in HINTS:
            path = named_files(value, self.directory)[0]
            if path.suffix in (".js", ".ts", ".mjs", ".cjs", ".py", ".rb"):
                raise LeftOutError(f"its value comes from the program {path.name}: {SCRIPT}")
            is_data = kind == "is-json" or path.suffix in (".json", ".yaml", ".yml")
            value = read_document(path).value if is_data else read_text(path).strip()
        return value if kind in HINTS else render_all(value, values)


def _convert(kind: str, value: Any, node: Node, *, exact: bool) -> dict[str, Any]:
    if kind in _TEXTS:
        return {"type": _TEXTS[kind], "value": _one_text(value)}
    if kind in ("contains-any", "icontains-any", "contains-all", "icontains-all"):
        return _several(kind, _texts(value), exact=exact)
    if kind == "equals":
        if isinstance(value, dict | list):
            return {"type": "json_schema", "schema": {"const": value}}
        return {"type": "equals", "value": as_text(value)}
    if kind == "regex":
        return {"type": "regex", "pattern": _pattern(_one_text(value))}
    if kind == "is-json":
        schema = _schema(value)
        return {"type": "is_json"} if schema is None else {"type": "json_schema", "schema": schema}
    if kind in ("llm-rubric", "model-graded-closedqa"):
        return {"type": "rubric", "rubrics": [_one_text(value)]}
    if kind in ("latency", "cost"):
        option = {"latency": "threshold_ms", "cost": "budget_usd"}[kind]
        limit = node.raw("threshold")
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise LeftOutError("it has no `threshold`")
        return {"type": kind, option: limit}
    raise LeftOutError(f"there is no such check here; {HINTS.get(kind, JUDGED)}")


_TEXTS = {"contains": "contains", "icontains": "icontains", "starts-with": "starts_with"}


def _one_text(value: Any) -> str:
    if value is None or isinstance(value, dict | list) or value == "":
        raise LeftOutError("its `value` is not a text")
    return as_text(value)


def _texts(value: Any) -> list[str]:
    """A list, or a text with commas."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or any(isinstance(item, dict | list) for item in items):
        raise LeftOutError("its `value` is not a list of texts")
    texts = [as_text(item) for item in items]
    if "" in texts:
        raise LeftOutError("one of its texts is empty, which every answer contains")
    return texts


def _several(kind: str, texts: list[str], *, exact: bool) -> dict[str, Any]:
    name, _, how = kind.partition("-")
    if how == "any" or len(texts) == 1 or not exact:
        several = {"type": name, "value": texts, "match": how}
        return {**several, "threshold": 1.0} if how == "all" and len(texts) > 1 else several
    # A list that must match whole scores the share that does; where that would count, one pattern says yes or no.
    pattern = "".join(rf"(?=.*{re.escape(text)})" for text in texts)
    return {"type": "regex", "pattern": rf"\A{pattern}", "flags": "is" if name == "icontains" else "s"}


def _pattern(pattern: str) -> str:
    import regex  # noqa: PLC0415 - only configurations with such an assertion need it

    try:
        regex.compile(pattern)
    except regex.error as error:
        raise LeftOutError(f"its pattern is not one in Python's syntax ({error}): write it anew for `regex`") from None
    return pattern


def _schema(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        from agentv.suite.yaml import YamlProblem, YamlWalk  # noqa: PLC0415

        try:
            value = YamlWalk(value).document()
        except YamlProblem:
            value = ""
    if value is not None and not isinstance(value, dict):
        raise LeftOutError("its `value` is not a JSON Schema")
    return value


def _decided(found: list[dict[str, Any]], threshold: float | None) -> Assertions:
    """Without a threshold every assertion must hold, also those whose weight is 0."""
    if threshold is not None:
        return Assertions(found, threshold)
    if all(evaluator.get("weight", 1) > 0 for evaluator in found):
        return Assertions(found, 1.0)
    return Assertions([{**evaluator, "required": True} for evaluator in found], 0.0)


def _unique(name: Any, others: list[dict[str, Any]]) -> str:
    taken = {other["name"] for other in others}
    wanted = str(name)
    return next(each for each in (wanted, *(f"{wanted}-{n}" for n in range(2, len(taken) + 3))) if each not in taken)
