"""Validate plain data against a model, with a readable message for every problem, at its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentv.suite.findings import Findings
from agentv.suite.yaml import NodePath
from agentv.suite.yaml_scalars import as_written
from agentv.text import all_of, did_you_mean, nearest, one_of

Model = TypeVar("Model", bound=BaseModel)

_KINDS = {
    "string_type": "a string",
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
    "none_required": "null",
}
_EXAMPLES = {"MessageModel": " like `{role: user, content: ...}`"}
_BOUNDS = {"greater_than_equal": ">=", "greater_than": ">", "less_than_equal": "<=", "less_than": "<"}
_YAML_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_NONE: Mapping[str, Any] = {}
SHOWN_KEYS = 5
IS_MISSING = "is missing"
"""How the message of an absent key ends; the configuration recognizes it while a variable is not set."""


def validate(
    model: type[Model],
    data: Any,
    findings: Findings,
    at: NodePath = (),
    spelled: Mapping[str, str] = _NONE,
) -> Model | None:
    """The data as `model`, or None with every problem in `findings`. Numbers are accepted as strings, as written.

    `spelled` maps keys of the data to the aliases that the file uses for them.
    """
    return _check(model, data, findings, at, spelled)[0]


def validate_partly(
    model: type[Model],
    data: dict[str, Any],
    findings: Findings,
    at: NodePath = (),
    *,
    spelled: Mapping[str, str] = _NONE,
    instead: Mapping[str, Any] = _NONE,
) -> tuple[Model | None, set[str]]:
    """Like `validate`, but invalid data still gives a model of its valid parts, so that later checks can run.

    The second value contains the keys that are invalid or missing; `instead` has values to use for them.
    """
    valid, data, wrong = _check(model, data, findings, at, spelled)
    if valid is not None:
        return valid, set()
    keys = {str(node[0]) for node in wrong if node}
    if () in wrong or not isinstance(data, Mapping):
        return None, keys
    for node in wrong:
        data = _without(data, node)
    try:
        return model.model_validate({**instead, **data}), keys
    except ValidationError:
        return None, keys


def show(value: Any) -> str:
    """A value for an error message, shortened."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else repr(value[:57] + "...")
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "null" if value is None else str(as_written(value))[:60]


def _check(
    model: type[Model], data: Any, findings: Findings, at: NodePath, spelled: Mapping[str, str]
) -> tuple[Model | None, Any, set[NodePath]]:
    """The model or None, the data with scalars as written where strings are expected, and the invalid nodes."""
    try:
        return model.model_validate(data), data, set()
    except ValidationError as error:
        first = error

    def in_file(node: NodePath) -> NodePath:
        return (*at, spelled.get(str(node[0]), node[0]), *node[1:]) if node else at

    patched = data
    for item in first.errors(include_url=False, include_context=False, include_input=False):
        node = _node_path(patched, item["loc"])
        value = _get(patched, node)
        if item["type"] == "string_type" and isinstance(value, bool | int | float):
            patched = _with(patched, node, findings.as_written(in_file(node), value))
    if patched is not data:
        try:
            return model.model_validate(patched), patched, set()
        except ValidationError as error:
            first = error
    return None, patched, _explain(model, patched, first, findings, in_file)


def _explain(
    model: type[BaseModel],
    data: Any,
    error: ValidationError,
    findings: Findings,
    in_file: Callable[[NodePath], NodePath],
) -> set[NodePath]:
    by_node: dict[NodePath, list[ErrorDetails]] = {}
    for item in error.errors(include_url=False):
        missing = item["type"] == "missing"
        node = _node_path(data, item["loc"][:-1] if missing else item["loc"])
        by_node.setdefault((*node, item["loc"][-1]) if missing else node, []).append(item)
    for node, items in by_node.items():
        if any(other[: len(node)] == node and len(other) > len(node) for other in by_node):
            continue  # a branch of a union that does not apply: the problem further inside is more precise
        kinds = {item["type"] for item in items}
        place = in_file(node)
        name = str(place[-1]) if place else ""
        if "missing" in kinds:
            unknown = [str(other[-1]) for other in by_node if other[:-1] == node[:-1] and other != node]
            if not did_you_mean(name, unknown):  # otherwise the unknown key is reported
                findings.add(in_file(node[:-1]), f"`{name}` {IS_MISSING}")
        elif "extra_forbidden" in kinds:
            findings.add(place, _unknown_key(name, known_keys(model, node[:-1], data)), at_key=True)
        else:
            findings.add(place, _sentence(items, place[len(place) - len(node) :], _get(data, node)))
    return set(by_node)


OF_OTHER_TOOLS = {"assert": "evaluators", "asserts": "evaluators", "scorers": "evaluators", "metrics": "evaluators"}
"""Keys of other tools, with what they are here."""


def _unknown_key(name: str, known: list[str]) -> str:
    same = OF_OTHER_TOOLS.get(name)
    near = f" (did you mean `{same}`?)" if same in known else did_you_mean(name, known)
    if near or not known:
        return f"unknown key `{name[:60]}`{near}"
    names = nearest(name, known, most=len(known))
    if len(names) <= SHOWN_KEYS:
        return f"unknown key `{name[:60]}`; expected {one_of(names)}"
    shown = all_of(names[:SHOWN_KEYS])
    return f"unknown key `{name[:60]}`; the nearest of the {len(names)} known keys are {shown}"


def _sentence(items: list[ErrorDetails], node: NodePath, value: Any) -> str:
    item, what, prefix = items[0], subject(node), _label(node)
    kind, context = item["type"], item.get("ctx") or {}
    if kind in _KINDS:
        expected = " or ".join(dict.fromkeys(_KINDS[each["type"]] for each in items if each["type"] in _KINDS))
        expected += _EXAMPLES.get(context.get("class_name", ""), "")
    elif kind == "literal_error":
        choices = _quoted(context["expected"])
        expected = one_of(choices)
        if isinstance(value, str):
            return f"{what} must be {expected}, got {show(value)}{did_you_mean(value, choices)}"
    elif kind == "union_tag_invalid":
        choices, tag = _quoted(context["expected_tags"]), str(context["tag"])
        kinds = f"must be {one_of(choices)}, got {show(tag)}{did_you_mean(tag, choices)}"
        return f"{prefix}`{_quoted(context['discriminator'])[0]}` {kinds}"
    elif kind == "union_tag_not_found":
        return f"{prefix}`{_quoted(context['discriminator'])[0]}` {IS_MISSING}"
    elif kind in _BOUNDS:
        bound = next(context[name] for name in ("ge", "gt", "le", "lt") if name in context)
        expected = f"a number {_BOUNDS[kind]} {int(bound) if bound == int(bound) else bound}"
    elif kind in ("string_too_short", "too_short"):
        return f"{what} must not be empty"
    elif kind in ("value_error", "assertion_error"):
        reason = str(item["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if reason.startswith("must "):
            return f"{what} {reason}"
        return reason if prefix and reason.startswith(prefix[:-2]) else f"{prefix}{reason}"
    else:
        return f"{prefix}{item['msg'][:1].lower()}{item['msg'][1:]}, got {show(value)}"
    hint = ""
    if kind == "bool_type" and isinstance(value, str) and value.lower() in _YAML_BOOLEANS:
        hint = f"; write `{_YAML_BOOLEANS[value.lower()]}`"
    return f"{what} must be {expected}, got {show(value)}{hint}"


def _quoted(words: Any) -> list[str]:
    """The words of a list in the format of pydantic: `'a', 'b' or 'c'`."""
    listed = (word.strip().strip("'") for word in str(words).replace(" or ", ", ").split(","))
    return [word for word in listed if word]


def subject(node: NodePath) -> str:
    """The subject of a message about a node: its key, or the item of a list."""
    names = [step for step in node if isinstance(step, str)]
    if not names:
        return "the value"
    return f"an item of `{names[-1]}`" if isinstance(node[-1], int) else f"`{names[-1]}`"


def _label(node: NodePath) -> str:
    names = [step for step in node if isinstance(step, str)]
    return f"`{names[-1]}`: " if names else ""


def _node_path(data: Any, loc: tuple[int | str, ...]) -> NodePath:
    """A location from pydantic without the steps that are not in the data (union tags, validators)."""
    node: list[str | int] = []
    for step in loc:
        inside = (isinstance(data, Mapping) and step in data) or (
            isinstance(data, list | tuple) and isinstance(step, int) and step < len(data)
        )
        if inside:
            node.append(step)
            data = data[step]
    return tuple(node)


def _get(data: Any, node: NodePath) -> Any:
    for step in node:
        data = data[step]
    return data


def _with(data: Any, node: NodePath, value: Any) -> Any:
    """A copy of the data with one node replaced. Parts shared by aliases are never changed in place."""
    if not node:
        return value
    step, *rest = node
    copy = dict(data) if isinstance(data, Mapping) else list(data)
    copy[step] = _with(data[step], tuple(rest), value)  # type: ignore[index]
    return copy


def _without(data: Any, node: NodePath) -> Any:
    """A copy of the data without the entry that contains a node. Lists are removed as a whole: indexes stay valid."""
    steps = next((node[:i] for i, step in enumerate(node) if isinstance(step, int)), node)
    *parents, last = steps
    try:
        holder = _get(data, tuple(parents))
    except KeyError:
        return data
    return _with(data, tuple(parents), {key: value for key, value in holder.items() if key != last})


def known_keys(model: type[BaseModel], node: NodePath, data: Any = None) -> list[str]:
    """The keys allowed at a node: those of its model, which its `type` selects if there are several."""
    current: Any = model
    for index, step in enumerate(node):
        if isinstance(step, int):
            continue
        field = _field(current, step)
        inside = _models_inside(field.annotation) if field is not None else []
        if not inside:
            return []
        current = next((each for each in inside if _is_meant(each, _get(data, node[: index + 1]))), inside[0])
    return [*(field.alias or name for name, field in current.model_fields.items()), *getattr(current, "ALIASES", ())]


def _field(model: type[BaseModel], key: str) -> Any:
    for name, field in model.model_fields.items():
        if key in (field.alias or name, name):
            return field
    return None


def _models_inside(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in _models_inside(argument)]


def _is_meant(model: type[BaseModel], value: Any) -> bool:
    kind = model.model_fields.get("type")
    name = value.get("type") if isinstance(value, Mapping) else None
    return kind is not None and name is not None and name in getattr(kind.annotation, "__args__", ())
