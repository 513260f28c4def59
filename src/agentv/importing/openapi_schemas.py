"""Schemas of an OpenAPI document: example values, the field of the question, and the field of the answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

PROMPT = "{{ prompt }}"
_MOST_DEPTH = 6
_MOST_FIELDS = 2_000
"""Fields that are looked at: a schema can contain itself."""
_QUESTIONS = ("prompt", "question", "query", "input", "message", "text", "content", "instruction", "q", "messages")
_ANSWERS = (
    *("answer", "output", "response", "reply", "text", "content", "message", "result", "completion"),
    *("generated_text", "output_text", "data", "choices", "outputs", "results", "messages"),
)
_ORDINARY: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


class Schemas:
    """The schemas of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._resolved: dict[str, Mapping[str, Any]] = {}
        """By reference. A reference that is being resolved is empty, so that schemas can contain themselves."""

    def resolve(self, part: Any) -> Mapping[str, Any]:
        """A part of the document, without references to other parts and with `allOf` merged. Empty if it is missing."""
        if not isinstance(part, Mapping):
            return {}
        value: Mapping[str, Any] = part
        reference = value.get("$ref")
        if isinstance(reference, str):
            if reference not in self._resolved:
                self._resolved[reference] = {}
                self._resolved[reference] = self.resolve(self._referenced(reference))
            return self._resolved[reference]
        for key in ("allOf", "anyOf", "oneOf"):
            parts = value.get(key)
            if isinstance(parts, list) and parts:
                chosen = [self.resolve(each) for each in parts[: None if key == "allOf" else 1]]
                value = _merged([*chosen, {name: each for name, each in value.items() if name != key}])
        return value

    def _referenced(self, reference: str) -> Any:
        value: Any = self._document
        for part in reference.removeprefix("#/").split("/") if reference.startswith("#/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if value is not self._document else None

    def properties(self, schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        properties = schema.get("properties")
        return (
            {str(name): self.resolve(each) for name, each in properties.items()}
            if isinstance(properties, Mapping)
            else {}
        )

    def example(self, described: Mapping[str, Any], depth: int = 0) -> Any:
        """A value that a schema or a parameter accepts: its example or default, else the simplest value of its type."""
        schema = self.resolve(described.get("schema")) if "schema" in described else described
        for source in (described, schema):
            for key in ("example", "default", "const"):
                if key in source:
                    return _harmless(source[key])
            for key in ("examples", "enum"):
                if isinstance(source.get(key), list) and source[key]:
                    return _harmless(source[key][0])
        if self.properties(schema) and depth < _MOST_DEPTH:
            required = schema.get("required")
            names = [str(name) for name in required] if isinstance(required, list) else []
            return {
                name: self.example(each, depth + 1) for name, each in self.properties(schema).items() if name in names
            }
        ordinary = _ORDINARY.get(str(type_of(schema)), "")
        return type(ordinary)(ordinary)


def type_of(schema: Mapping[str, Any]) -> str | None:
    """The type of a schema; the first that is not null of a list."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), None)
    if kind is None:
        return "object" if "properties" in schema else "array" if "items" in schema else None
    return str(kind)


def body_with_prompt(schema: Mapping[str, Any], example: Any, schemas: Schemas) -> tuple[Any, bool]:
    """A body for a request, with the question in its likeliest text field, and whether there is such a field."""
    body = _harmless(example) if isinstance(example, Mapping) else schemas.example(schema)
    path = _likeliest(schema, schemas, _QUESTIONS)
    if path is None:
        return body, False
    if not isinstance(body, dict):
        body = {}
    return _with_prompt(body, path), True


def _with_prompt(value: Any, path: tuple[str | int, ...]) -> Any:
    """The value with the question at a path. A message in a list also gets the role of the user."""
    if not path:
        return PROMPT
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        item = value[0] if isinstance(value, list) and value else {}
        item = _with_prompt(item, rest)
        return [{"role": "user", **item} if isinstance(item, dict) and rest == ("content",) else item]
    known = dict(value) if isinstance(value, dict) else {}
    return {**known, key: _with_prompt(known.get(key), rest)}


def answer_expression(schema: Mapping[str, Any], schemas: Schemas) -> str | None:
    """The JMESPath expression of the likeliest text field of a reply; None if there is none."""
    if type_of(schema) == "string":
        return "@"
    path = _likeliest(schema, schemas, _ANSWERS)
    if path is None:
        return None
    steps = [f"[{step}]" if isinstance(step, int) else f".{_identifier(step)}" for step in path]
    return "".join(steps).removeprefix(".")


def _identifier(name: str) -> str:
    is_plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if is_plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _likeliest(schema: Mapping[str, Any], schemas: Schemas, names: tuple[str, ...]) -> tuple[str | int, ...] | None:
    """The path of the text field whose name is the likeliest: fields near the top first, then in the order of names."""

    def rank(path: tuple[str | int, ...]) -> tuple[int, int]:
        last = next((step for step in reversed(path) if isinstance(step, str)), "")
        return len(path), names.index(last.lower()) if last.lower() in names else len(names)

    paths = list(_text_fields(schema, schemas))
    known = [path for path in paths if all(_is_likely(step, names) for step in path)]
    return min(known or paths, key=rank, default=None)


def _is_likely(step: str | int, names: tuple[str, ...]) -> bool:
    return isinstance(step, int) or step.lower() in names


def _text_fields(schema: Mapping[str, Any], schemas: Schemas) -> Iterator[tuple[str | int, ...]]:
    """The paths of fields that take any text, the nearest first. Fields with a fixed choice of values do not."""
    waiting: deque[tuple[Mapping[str, Any], tuple[str | int, ...]]] = deque([(schema, ())])
    for _ in range(_MOST_FIELDS):
        if not waiting:
            return
        schema, at = waiting.popleft()
        kind = type_of(schema)
        if kind == "string" and at and not {"enum", "const", "format"} & schema.keys():
            yield at
        if len(at) >= _MOST_DEPTH:
            continue
        if kind == "array":
            waiting.append((schemas.resolve(schema.get("items")), (*at, 0)))
        waiting.extend((each, (*at, name)) for name, each in schemas.properties(schema).items())


def _merged(parts: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key == "properties" and isinstance(value, Mapping):
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required" and isinstance(value, list):
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged[key] = value
    return merged


def _harmless(value: Any) -> Any:
    """An example without templates, which agentv would fill in."""
    if isinstance(value, str):
        return "" if "{{" in value or "{%" in value else value
    if isinstance(value, Mapping):
        return {str(key): _harmless(each) for key, each in value.items()}
    return [_harmless(each) for each in value] if isinstance(value, list) else value
