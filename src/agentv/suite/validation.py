"""Validate plain data against a model; every mistake in words, at its node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentv.suite.findings import Findings, did_you_mean, one_of
from agentv.suite.yaml_events import Path as NodePath
from agentv.suite.yaml_events import WrittenFloat, WrittenInt

Model = TypeVar("Model", bound=BaseModel)

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
    "none_required": "nothing",
}
_BOUNDS = {"greater_than_equal": ">=", "greater_than": ">", "less_than_equal": "<=", "less_than": "<"}
_YAML_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def validate(model: type[Model], data: Any, findings: Findings, at: NodePath = ()) -> Model | None:
    """The data as `model`, or None with every mistake in `findings`. Numbers where text is meant stay as written."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error
    patched, changed = _keep_text_as_written(data, first)
    if changed:
        try:
            return model.model_validate(patched)
        except ValidationError as error:
            first = error
    _explain(model, patched, first, findings, at)
    return None


def as_written(value: Any) -> Any:
    """A scalar as the text it was written as; anything else unchanged."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.raw
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def show(value: Any) -> str:
    """A value in an error message, short."""
    if isinstance(value, str):
        text = repr(value)
    elif isinstance(value, Mapping):
        text = "a mapping"
    elif isinstance(value, list | tuple):
        text = "a list"
    elif value is None:
        text = "nothing"
    else:
        text = str(as_written(value))
    return text if len(text) <= 60 else text[:57] + "..."


def _keep_text_as_written(data: Any, error: ValidationError) -> tuple[Any, bool]:
    changed = False
    for item in error.errors(include_url=False, include_context=False):
        if item["type"] != "string_type":
            continue
        node = _node_path(data, item["loc"])
        value = _get(data, node)
        if isinstance(value, bool | int | float):
            data, changed = _with(data, node, as_written(value)), True
    return data, changed


def _explain(model: type[BaseModel], data: Any, error: ValidationError, findings: Findings, at: NodePath) -> None:
    by_node: dict[NodePath, list[ErrorDetails]] = {}
    for item in error.errors(include_url=False):
        missing = item["type"] == "missing"
        node = _node_path(data, item["loc"][:-1] if missing else item["loc"])
        if missing:
            findings.add((*at, *node), f"`{item['loc'][-1]}` is missing")
            by_node.setdefault((*node, item["loc"][-1]), [])
        else:
            by_node.setdefault(node, []).append(item)
    for node, items in by_node.items():
        if not items or any(other[: len(node)] == node and len(other) > len(node) for other in by_node):
            continue  # a branch of a union that was not meant: the mistake further inside says it better
        if items[0]["type"] == "extra_forbidden":
            name = str(node[-1]) if node else "?"
            known = known_keys(model, data, node[:-1])
            findings.add((*at, *node), f"unknown key `{name}`{did_you_mean(name, known)}", at_key=True)
        else:
            findings.add((*at, *node), _sentence(items, _label(node), _get(data, node)))


def _sentence(items: list[ErrorDetails], label: str, value: Any) -> str:
    item = items[0]
    kind, context = item["type"], item.get("ctx") or {}
    if kind in _KINDS:
        expected = " or ".join(dict.fromkeys(_KINDS[each["type"]] for each in items if each["type"] in _KINDS))
    elif kind == "literal_error":
        choices = [word.strip().strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        expected = one_of([word for word in choices if word])
        if isinstance(value, str):
            return f"{label}expected {expected}, got {show(value)}{did_you_mean(value, choices)}"
    elif kind in _BOUNDS:
        bound = next(context[name] for name in ("ge", "gt", "le", "lt") if name in context)
        expected = f"a number {_BOUNDS[kind]} {bound}"
    elif kind in ("string_too_short", "too_short"):
        return f"{label}must not be empty"
    elif kind in ("value_error", "assertion_error"):
        return f"{label}{str(item['msg']).removeprefix('Value error, ').removeprefix('Assertion failed, ')}"
    else:
        return f"{label}{item['msg'][:1].lower()}{item['msg'][1:]}, got {show(value)}"
    hint = ""
    if kind == "bool_type" and isinstance(value, str) and value.lower() in _YAML_BOOLEANS:
        hint = f"; write `{_YAML_BOOLEANS[value.lower()]}`"
    return f"{label}expected {expected}, got {show(value)}{hint}"


def _label(node: NodePath) -> str:
    names = [step for step in node if isinstance(step, str)]
    return f"`{names[-1]}`: " if names else ""


def _node_path(data: Any, loc: tuple[int | str, ...]) -> NodePath:
    """A pydantic location without the steps that are not in the data (union tags, validators)."""
    node: list[str | int] = []
    for step in loc:
        inside = (isinstance(data, Mapping) and step in data) or (
            isinstance(data, list | tuple) and isinstance(step, int) and step < len(data)
        )
        if inside:
            node.append(step)
            data = data[step]  # type: ignore[index]
    return tuple(node)


def _get(data: Any, node: NodePath) -> Any:
    for step in node:
        data = data[step]
    return data


def _with(data: Any, node: NodePath, value: Any) -> Any:
    """A copy of the data with one node replaced; shared parts stay shared (aliases are never changed in place)."""
    if not node:
        return value
    step, *rest = node
    copy = dict(data) if isinstance(data, Mapping) else list(data)
    copy[step] = _with(data[step], tuple(rest), value)  # type: ignore[index]
    return copy


def known_keys(model: type[BaseModel], data: Any, node: NodePath) -> list[str]:
    """The keys allowed at a node: those of the model that describes it."""
    current: Any = model
    for step in node:
        if isinstance(step, int):
            continue
        field = _field(current, step)
        current = _model_inside(field.annotation) if field is not None else None
        if current is None:
            return []
    return [field.alias or name for name, field in current.model_fields.items()]


def _field(model: type[BaseModel], key: str) -> Any:
    for name, field in model.model_fields.items():
        if key in (field.alias or name, name):
            return field
    return None


def _model_inside(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if found := _model_inside(argument):
            return found
    return None
