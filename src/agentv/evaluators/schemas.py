"""Compile JSON Schemas: checked once, without network access, with bounded validation time."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import Draft202012Validator, extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from agentv import patterns
from agentv.errors import EvaluatorError
from agentv.text import quoted

LONGEST_MESSAGE = 300

Violations = Iterator[Any]


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A valid schema, ready to use."""

    validator: Any
    slow: bool
    """Whether it uses regular expressions, which can take until their timeout."""

    def violations(self, value: Any, most: int) -> tuple[str, ...]:
        """Return at most `most` violations, each with its JSON path."""
        try:
            return tuple(_in_words(error) for error in islice(self.validator.iter_errors(value), most))
        except Unresolvable as error:
            raise EvaluatorError(_no_reference(error.ref)) from None
        except RecursionError:
            raise EvaluatorError(
                "the answer could not be validated: it is nested too deeply for this schema, "
                "or the schema refers to itself endlessly",
                next_step="Look for a `$ref` that refers back to itself.",
            ) from None


def as_text(schema: Mapping[str, Any]) -> str:
    """Return a schema as JSON text. Raises ValueError if it contains something that is not JSON."""
    try:
        return json.dumps(schema, allow_nan=False)
    except TypeError as error:
        raise ValueError(f"the schema is not JSON: {error}") from None
    except ValueError:
        raise ValueError("the schema contains NaN, infinity or itself, which JSON cannot represent") from None
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None


@lru_cache(maxsize=256)
def compiled(text: str) -> CompiledSchema:
    """Compile the schema in the JSON text. Raises ValueError if it is invalid."""
    schema = json.loads(text)
    dialect = _dialect(schema)
    try:
        dialect.check_schema(schema)
        _check_inside(dialect, schema)
    except SchemaError as error:
        branches = f" ({_branches(error)})" if error.context else ""
        raise ValueError(f"not a valid JSON Schema: {_place(error)}{branches}") from None
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    # With `$schema`, the library would switch back to its own validator class wherever a reference points to the root.
    schema.pop("$schema", None)
    validator = _bounded(dialect)(schema, registry=REGISTRY)
    try:
        deque(validator.iter_errors(None), maxlen=0)
    except RecursionError:
        raise ValueError(
            "the schema refers to itself endlessly; look for a `$ref` that refers back to itself"
        ) from None
    return CompiledSchema(validator, slow='"pattern' in text)


def _dialect(schema: Mapping[str, Any]) -> Any:
    if "$schema" not in schema:
        return Draft202012Validator
    named = schema["$schema"]
    unknown: Any = None
    dialect = validator_for(schema, default=unknown) if isinstance(named, str) else None
    if dialect is None:
        raise ValueError(
            f"`$schema: {named}` is not a known draft; use https://json-schema.org/draft/2020-12/schema "
            "(or 2019-09, or http://json-schema.org/draft-07/schema and older), or remove it"
        )
    return dialect


def _check_inside(dialect: Any, schema: dict[str, Any]) -> None:
    """Check that references point into the schema or to a bundled JSON Schema draft, and that patterns compile."""
    specification = specification_with(dialect.ID_OF(dialect.META_SCHEMA))
    pending: list[tuple[Any, Any]] = [(schema, REGISTRY.resolver_with_root(specification.create_resource(schema)))]
    seen: set[int] = set()
    while pending:
        contents, resolver = pending.pop()
        if not isinstance(contents, dict) or id(contents) in seen:
            continue
        seen.add(id(contents))
        for pattern in (contents.get("pattern"), *contents.get("patternProperties", ())):
            if isinstance(pattern, str):
                patterns.compiled(pattern, "")
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if not isinstance(reference := contents.get(keyword), str):
                continue
            try:
                target = resolver.lookup(reference)
            except Unresolvable:
                raise ValueError(_no_reference(reference)) from None
            if id(target.contents) not in seen:
                dialect.check_schema(target.contents)
                pending.append((target.contents, target.resolver))
        parts = specification.create_resource(contents).subresources()
        pending.extend((part.contents, resolver.in_subresource(part)) for part in parts)


def _no_reference(reference: str) -> str:
    if reference.startswith("#"):
        return f"`$ref: {reference}` does not exist in the schema; check the spelling"
    return (
        f"`$ref: {reference}` points outside the schema; agentv does not load schemas from the network or other files. "
        "Put the definition in `$defs` and refer to it as `#/$defs/...`"
    )


def _in_words(error: Any) -> str:
    if not error.context:
        return _place(error)
    closest = best_match([error])
    if closest is None or closest is error:
        return f"{_place(error)} ({_branches(error)})"
    return f"{_place(error)} (closest: {_place(closest)})"


def _place(error: Any) -> str:
    return f"{error.json_path}: {_message(error)}"


def _branches(error: Any) -> str:
    return "; ".join(_message(branch) for branch in error.context[:3])


def _message(error: Any) -> str:
    """Return the library's message. A long one quotes the answer and is replaced, to mask secrets."""
    message = str(error.message)
    return message if len(message) <= LONGEST_MESSAGE else f"does not satisfy `{error.validator}`"


# -- keywords that an answer could make very slow


@lru_cache(maxsize=16)
def _bounded(dialect: Any) -> Any:
    """Extend a dialect with timeouts for patterns, and with a `uniqueItems` in linear instead of quadratic time."""
    keywords: dict[str, Callable[[Any, Any, Any, Any], Violations]] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    return extend(dialect, keywords)  # type: ignore[no-untyped-call]


def _found(pattern: str, text: str) -> bool:
    expression = patterns.compiled(pattern, "")
    try:
        return expression.search(text, concurrent=True, timeout=patterns.TIMEOUT_SECONDS) is not None
    except TimeoutError:
        raise EvaluatorError(
            f"the schema's pattern {quoted(pattern)} timed out after {patterns.TIMEOUT_SECONDS:g} s "
            f"on a string of {len(text):,} characters",
            next_step=patterns.BACKTRACK_LESS,
        ) from None


def _pattern(validator: Any, pattern: str, value: Any, _schema: Any) -> Violations:
    if validator.is_type(value, "string") and not _found(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, by_pattern: Mapping[str, Any], value: Any, _schema: Any) -> Violations:
    if not validator.is_type(value, "object"):
        return
    for pattern, subschema in by_pattern.items():
        for key, item in value.items():
            if _found(pattern, key):
                yield from validator.descend(item, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, value: Any, schema: Mapping[str, Any]) -> Violations:
    if not validator.is_type(value, "object"):
        return
    known, by_pattern = schema.get("properties", {}), schema.get("patternProperties", {})
    extra = [key for key in value if key not in known and not any(_found(pattern, key) for pattern in by_pattern)]
    if isinstance(wanted, dict):
        for key in extra:
            yield from validator.descend(value[key], wanted, path=key)
    elif not wanted and extra:
        names = ", ".join(repr(key) for key in extra)
        yield ValidationError(f"additional properties are not allowed ({names})")


def _unique_items(validator: Any, wanted: bool, value: Any, _schema: Any) -> Violations:
    if not (wanted and validator.is_type(value, "array")):
        return
    first: dict[Any, int] = {}
    for index, item in enumerate(value):
        if (earlier := first.setdefault(_identity(item), index)) != index:
            yield ValidationError(f"items must be unique, but items {earlier} and {index} are equal")
            return


def _identity(value: Any) -> Any:
    """Return a key that is equal for equal JSON values (1 equals 1.0, true is not 1)."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(map(_identity, value)))
    if isinstance(value, dict):
        return ("dict", frozenset((key, _identity(item)) for key, item in value.items()))
    return value
