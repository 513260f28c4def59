"""Compile JSON Schemas and validate answers: checked once, without network access, with bounded time.

A schema of a few lines can take longer than the age of the universe, because references multiply. So each keyword that
is evaluated is counted: a small number of them in the event loop, and the rest in a worker that can be killed.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any

from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import Draft202012Validator, extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from agentv import patterns
from agentv.errors import EvaluatorError
from agentv.evaluators.strict_json import TIMEOUT_SECONDS, read_json, too_large
from agentv.text import quoted

LONGEST_MESSAGE = 300
IN_LINE_LENGTH = 10_000
"""Longer answers are parsed and validated in a worker."""
IN_LINE_SCHEMA = 32_000
"""Answers are validated against longer schemas in a worker."""
IN_LINE_CHECKS = 2_000
"""Keywords evaluated in the event loop, for an answer of up to `CHECKED_LENGTH` characters."""
CHECKED_LENGTH = 500
"""An answer of N times this length gets an N-th of the checks: a violation quotes what it is about."""
SHORT_SCHEMA = 16_000
SHORT_LIST = 500
"""Longer schemas, and schemas that can have longer lists, are checked in a worker."""
CHECK_SECONDS = 2.0
CHECKED_PER_SECOND = 10_000
"""The worker gets one more second for this number of characters."""
MAX_CHECKS = 50_000
"""Most keywords that one value may need in a schema without references; one more for every character of the schema."""
DEEP_STACK_BYTES = 256 * 2**20
DEEP_CALLS = 30_000

Violations = Iterator[Any]


class BeyondLimitError(Exception):
    """A validation needs more time than it may take in the event loop."""


class _Limits(threading.local):
    """What the validation that runs in this thread may still use."""

    checks: float = float("inf")
    in_line: bool = False
    """Whether it runs in the event loop."""
    pattern_seconds: float = patterns.TIMEOUT_SECONDS
    """Time for one search of a pattern in a worker."""


_limits = _Limits()


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A valid schema, ready to use."""

    validator: Any
    text: str

    def violations(self, value: Any, most: int) -> tuple[str, ...]:
        """Return at most `most` violations, each with its JSON path. An answer that breaks a keyword violates it."""
        violations: list[str] = []
        try:
            violations.extend(_in_words(error) for error in islice(self.validator.iter_errors(value), most))
        except Unresolvable as error:
            raise EvaluatorError(_no_reference(error.ref)) from None
        except (EvaluatorError, BeyondLimitError, RecursionError, MemoryError):
            raise
        except Exception as error:
            violations.append(f"$: cannot be compared with the schema ({type(error).__name__})")
        return tuple(violations)


_slow: set[str] = set()
"""Schemas that have exceeded the limits of the event loop."""


async def violations_of(schema: CompiledSchema, answer: str, most: int) -> tuple[str, ...]:
    """Validate an answer. Raises `NotJsonError` if it is not JSON, and EvaluatorError if it takes too long."""
    if len(answer) <= IN_LINE_LENGTH and len(schema.text) <= IN_LINE_SCHEMA and schema.text not in _slow:
        _limits.checks = IN_LINE_CHECKS / (1 + len(answer) // CHECKED_LENGTH)
        _limits.in_line = True
        try:
            return schema.violations(read_json(answer), most)
        except BeyondLimitError:
            _slow.add(schema.text)
        except RecursionError:
            pass  # a worker has a larger stack
        finally:
            _limits.checks, _limits.in_line = float("inf"), False
    from agentv import workers  # noqa: PLC0415 - few schemas need it

    seconds = patterns.TIMEOUT_SECONDS
    try:
        return await workers.call(violations_here, schema.text, answer, most, seconds, seconds=TIMEOUT_SECONDS + 1)
    except workers.TookTooLongError:
        raise EvaluatorError(
            f"validating the answer of {len(answer):,} characters took longer than {TIMEOUT_SECONDS:g} s",
            next_step="Simplify the schema: look for references to schemas that contain several references themselves.",
        ) from None
    except workers.WorkerError as error:
        raise too_large(answer, error) from None


def violations_here(text: str, answer: str, most: int, pattern_seconds: float) -> tuple[str, ...]:
    """Do the same in this process, blocking it. For workers: it needs a large stack."""
    outcome: list[Callable[[], tuple[str, ...]]] = []

    def validate() -> None:
        _limits.pattern_seconds = pattern_seconds
        try:
            violations = built(text).violations(read_json(answer), most)
        except BaseException as error:
            outcome.append(lambda error=error: _raise(error))  # type: ignore[misc]
        else:
            outcome.append(lambda: violations)

    stack, calls = threading.stack_size(DEEP_STACK_BYTES), sys.getrecursionlimit()
    sys.setrecursionlimit(DEEP_CALLS)
    try:
        thread = threading.Thread(target=validate)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(calls)
        threading.stack_size(stack)
    try:
        return outcome[0]()
    except RecursionError:
        raise EvaluatorError(
            "the answer could not be validated: it is nested too deeply for this schema, "
            "or the schema refers to itself endlessly",
            next_step="Look for a `$ref` that refers back to itself.",
        ) from None


def _raise(error: BaseException) -> Any:
    raise error


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


_checked: set[str] = set()
"""Schemas that have been checked. Compiling them again takes little time."""


@lru_cache(maxsize=256)
def compiled(text: str) -> CompiledSchema:
    """Compile the schema in the JSON text. Raises ValueError if it is invalid, or would take too long to use."""
    if text not in _checked:
        if len(text) <= SHORT_SCHEMA and text.count(",") <= SHORT_LIST:
            check(text)
        else:
            _check_elsewhere(text)
        _checked.add(text)
    return built(text)


@lru_cache(maxsize=256)
def built(text: str) -> CompiledSchema:
    """Compile a schema that has been checked."""
    schema = json.loads(text)
    dialect = _dialect(schema)
    # With `$schema`, the library would switch back to its own validator class wherever a reference points to the root.
    schema.pop("$schema", None)
    return CompiledSchema(_bounded(dialect)(schema, registry=REGISTRY, _resolver=_resolver(dialect, schema)), text)


def _resolver(dialect: Any, schema: dict[str, Any]) -> Any:
    """Resolves references in the schema. Its anchors are collected once, not for each reference."""
    resource = specification_with(dialect.ID_OF(dialect.META_SCHEMA)).create_resource(schema)
    uri = resource.id() or ""
    return REGISTRY.with_resource(uri, resource).crawl().resolver(uri)


def _check_elsewhere(text: str) -> None:
    """Check a long schema in a worker."""
    from agentv import workers  # noqa: PLC0415 - few schemas need it

    try:
        workers.call_blocking(check, text, seconds=CHECK_SECONDS + len(text) / CHECKED_PER_SECOND)
    except workers.WorkerError as error:
        raise ValueError(f"the schema of {len(text):,} characters could not be checked: {error}; split it") from None


def check(text: str) -> None:
    """Raise ValueError if a schema is invalid, or would take too long to use."""
    schema = json.loads(text)
    dialect = _dialect(schema)
    try:
        dialect.check_schema(schema)
        _check_inside(dialect, schema, MAX_CHECKS + len(text))
    except SchemaError as error:
        branches = f" ({_branches(error)})" if error.context else ""
        raise ValueError(f"not a valid JSON Schema: {_place(error)}{branches}") from None
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    _limits.checks = 2 * (MAX_CHECKS + len(text))
    try:
        deque(built(text).validator.iter_errors(None), maxlen=0)
    except RecursionError:
        raise ValueError(
            "the schema refers to itself endlessly; look for a `$ref` that refers back to itself"
        ) from None
    except BeyondLimitError:
        raise ValueError(TOO_MANY_CHECKS) from None
    finally:
        _limits.checks = float("inf")


TOO_MANY_CHECKS = (
    "the schema takes too long: its references multiply to more checks of a value than can be made; "
    "look for references to schemas that contain several references themselves"
)


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


_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "extends")
"""Keywords whose schemas apply to the same value."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def _check_inside(dialect: Any, schema: dict[str, Any], most: int) -> None:
    """Check that references point into the schema or to a bundled JSON Schema draft, and that patterns compile.

    Also check that no value needs more than `most` checks, however the references multiply.
    """
    specification = specification_with(dialect.ID_OF(dialect.META_SCHEMA))
    pending: list[tuple[Any, Any]] = [(schema, _resolver(dialect, schema))]
    referring: list[tuple[dict[str, Any], Any]] = []
    seen: set[int] = set()
    targets: dict[int, list[Any]] = {}
    while pending or referring:
        if not pending:  # all schemas below those that have been checked are known; now follow their references
            contents, resolver = referring.pop()
            for target in _targets(contents, resolver):
                targets.setdefault(id(contents), []).append(target.contents)
                if id(target.contents) not in seen:
                    dialect.check_schema(target.contents)
                    pending.append((target.contents, target.resolver))
            continue
        contents, resolver = pending.pop()
        if not isinstance(contents, dict) or id(contents) in seen:
            continue
        seen.add(id(contents))
        for pattern in (contents.get("pattern"), *contents.get("patternProperties", ())):
            if isinstance(pattern, str):
                patterns.compiled(pattern, "")
        if any(keyword in contents for keyword in _REFERENCES):
            referring.append((contents, resolver))
        resource = specification.create_resource(contents)
        if resource.id() is not None:
            resolver = resolver.in_subresource(resource)
        pending.extend((part.contents, resolver.in_subresource(part)) for part in resource.subresources())
    _refuse_multiplying(schema, targets, most)


def _targets(contents: Mapping[str, Any], resolver: Any) -> Iterator[Any]:
    for keyword in _REFERENCES:
        if isinstance(reference := contents.get(keyword), str):
            try:
                yield resolver.lookup(reference)
            except Unresolvable:
                raise ValueError(_no_reference(reference)) from None


def _refuse_multiplying(root: Any, targets: Mapping[int, list[Any]], most: int) -> None:
    """Raise ValueError if checking one value against any schema inside `root` takes more than `most` steps."""
    steps: dict[int, int] = {}
    opened: set[int] = set()
    pending: list[Any] = [root, *(target for found in targets.values() for target in found)]
    while pending:
        schema = pending[-1]
        if id(schema) in steps or not isinstance(schema, dict | list):
            pending.pop()
            continue
        here = _in_place(schema, targets)
        if id(schema) not in opened:
            opened.add(id(schema))
            pending.extend(item for item in (*here, *_below(schema)) if id(item) not in opened)
            continue
        pending.pop()
        # A schema that refers back to itself is not finished yet and counts as one step.
        steps[id(schema)] = 1 + sum(steps.get(id(item), 1) for item in here)
        if steps[id(schema)] > most:
            raise ValueError(TOO_MANY_CHECKS)


def _in_place(schema: Any, targets: Mapping[int, list[Any]]) -> list[Any]:
    """The schemas, and lists of schemas, that apply to the same value."""
    if isinstance(schema, list):
        return [item for item in schema if isinstance(item, dict | list)]
    found = [schema[keyword] for keyword in _IN_PLACE if isinstance(schema.get(keyword), dict | list)]
    groups = [list(schema[name].values()) for name in ("dependentSchemas", "dependencies") if name in schema]
    return [*found, *(item for group in groups for item in group), *targets.get(id(schema), ())]


def _below(schema: Any) -> list[Any]:
    return [item for item in (schema if isinstance(schema, list) else schema.values()) if isinstance(item, dict | list)]


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
    """Extend a dialect: keywords are counted, patterns time out, numbers are exact, `uniqueItems` takes linear time."""
    keywords: dict[str, Callable[[Any, Any, Any, Any], Violations]] = {
        **dialect.VALIDATORS,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    for name in {"multipleOf", "divisibleBy"} & dialect.VALIDATORS.keys():
        keywords[name] = _multiple_of
    return extend(dialect, {name: _counted(name, keyword) for name, keyword in keywords.items()})  # type: ignore[no-untyped-call]


def _counted(name: str, keyword: Callable[[Any, Any, Any, Any], Violations]) -> Callable[..., Violations]:
    follows = name.startswith("unevaluated")  # the library follows references there without evaluating keywords

    def evaluate(validator: Any, wanted: Any, value: Any, schema: Any) -> Violations:
        checks = 1
        if isinstance(wanted, list | dict):
            checks += len(wanted)
        if isinstance(value, list | dict):
            checks += len(value)
        _limits.checks -= checks
        if _limits.checks < 0 or (follows and _limits.in_line):
            raise BeyondLimitError
        return keyword(validator, wanted, value, schema)

    return evaluate


def _found(pattern: str, text: str) -> bool:
    seconds = patterns.IN_LINE_SECONDS if _limits.in_line else _limits.pattern_seconds
    try:
        return patterns.search_here(pattern, "", text, seconds) is not None
    except TimeoutError:
        if _limits.in_line:
            raise BeyondLimitError from None
        raise EvaluatorError(
            f"the schema's pattern {quoted(pattern)} timed out after {seconds:g} s "
            f"on a string of {len(text):,} characters",
            next_step=patterns.BACKTRACK_LESS,
        ) from None


def _multiple_of(validator: Any, divisor: Any, value: Any, _schema: Any) -> Violations:
    """Compare exactly, in decimals: 0.3 is a multiple of 0.1, and no number is too large."""
    if validator.is_type(value, "number") and not _divides(divisor, value):
        yield ValidationError(f"{value!r} is not a multiple of {divisor}")


def _divides(divisor: float, value: float) -> bool:
    if isinstance(divisor, int) and isinstance(value, int):
        return value % divisor == 0
    finite = (isinstance(number, int) or isfinite(number) for number in (divisor, value))
    return all(finite) and (_exact(value) / _exact(divisor)).denominator == 1


def _exact(number: float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(float(number)))


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
