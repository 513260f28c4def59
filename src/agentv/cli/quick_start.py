"""Faster start-up: skip import-time work that most runs never need, a third of the time until a command runs.

Python and its libraries compile code during import: six methods of every dataclass, every constant regular expression,
every annotation of a `TypedDict`. Between `begin` and `end`, such code is compiled on first use, and dataclass methods
only once they are called often. The garbage collector is disabled, because imported modules are never garbage. pydantic
is given an empty list of plugins, so that it does not read the metadata of all installed packages.

Only the `agentv` command does this, while it imports its own modules. Programs that import agentv are not affected, and
neither are modules that are imported later.
"""

from __future__ import annotations

import dataclasses
import gc
import re
import sys
import typing
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

_PLUGIN_LOADER = "pydantic.plugin._loader"
_METHODS_ONE_BY_ONE = hasattr(dataclasses, "_create_fn")
"""True up to Python 3.12. Later versions compile all methods of a class together, which is fast enough."""
_compile_method: Callable[..., FunctionType] = vars(dataclasses).get("_create_fn", FunctionType)
_parse_type: Callable[..., bool] = vars(dataclasses).get("_is_type", bool)
_compile_pattern = re.compile


def begin() -> None:
    """Defer compilation while modules are imported."""
    gc.disable()
    if _METHODS_ONE_BY_ONE:
        dataclasses._create_fn = _late_method  # type: ignore[attr-defined]  # noqa: SLF001
        dataclasses._is_type = _is_type  # type: ignore[attr-defined]  # noqa: SLF001
    re.compile = LatePattern  # type: ignore[assignment]
    typing.compile = _source  # type: ignore[attr-defined]
    loader = ModuleType(_PLUGIN_LOADER)
    loader.get_plugins = tuple  # type: ignore[attr-defined]
    sys.modules.setdefault(_PLUGIN_LOADER, loader)


def end() -> None:
    """Restore Python's normal behavior. Calling it again has no effect."""
    if _METHODS_ONE_BY_ONE:
        dataclasses._create_fn = _compile_method  # type: ignore[attr-defined]  # noqa: SLF001
        dataclasses._is_type = _parse_type  # type: ignore[attr-defined]  # noqa: SLF001
    re.compile = _compile_pattern
    vars(typing).pop("compile", None)
    gc.freeze()  # imported modules stay alive, so the collector can skip them
    gc.enable()


def _late_method(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    """A dataclass method that is compiled, and replaced by the compiled one, once it has been called often."""
    compiled: FunctionType | None = None
    calls = 0

    def method(self: Any, /, *values: Any, **named: Any) -> Any:
        nonlocal compiled, calls
        calls += 1
        owner = next((item for item in type(self).__mro__ if item.__dict__.get(name) is method), None)
        if name in _UNCOMPILED and owner is not None and calls < CALLS_WORTH_COMPILING:
            result = _UNCOMPILED[name](self, owner, values, named)
            if result is not _SPECIAL:
                return result
        if compiled is None:
            compiled = _compile_method(name, *arguments, **options)
            compiled.__qualname__ = method.__qualname__
        if owner is not None:
            setattr(owner, name, compiled)
        return compiled(self, *values, **named)

    method.__name__ = name
    return method


def _is_type(annotation: str, *others: Any) -> bool:
    """Whether an annotation is `ClassVar`, `InitVar` or `KW_ONLY`. Others are recognized without parsing."""
    return ("Var" in annotation or "KW_ONLY" in annotation) and _parse_type(annotation, *others)


def _initialize(self: Any, owner: Any, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """`__init__` of a dataclass; returns `_SPECIAL` if the call or the class needs the compiled one."""
    fields = _fields(owner)
    positional = [item.name for item in fields if item.init and not item.kw_only]
    field_values = dict(zip(positional, values, strict=False))
    kind: Any = type(self)
    missing = dataclasses.MISSING
    required = {item.name for item in fields if item.init and item.default is missing is item.default_factory}
    if (
        len(values) > len(positional)
        or field_values.keys() & named.keys()
        or not required
        <= (field_values := {**field_values, **named}).keys()
        <= {item.name for item in fields if item.init}
        or any(item._field_type is _INIT_VARIABLE for item in fields)  # noqa: SLF001
        or not (owner.__dataclass_params__.frozen or kind.__setattr__ is object.__setattr__)
    ):
        return _SPECIAL
    for item in fields:
        if item.name in field_values:
            object.__setattr__(self, item.name, field_values[item.name])
        elif item.default_factory is not missing:
            object.__setattr__(self, item.name, item.default_factory())
        elif item.default is not missing:
            object.__setattr__(self, item.name, item.default)
    if hasattr(owner, "__post_init__"):
        self.__post_init__()
    return None


def _hash(self: Any, owner: Any, *_: Any) -> Any:
    """`__hash__` of a dataclass."""
    hashed = (item for item in _fields(owner) if (item.compare if item.hash is None else item.hash))
    return hash(tuple(getattr(self, item.name) for item in hashed))


def _fields(owner: Any) -> list[Any]:
    return [item for item in owner.__dataclass_fields__.values() if item._field_type is not _CLASS_VARIABLE]  # noqa: SLF001


_UNCOMPILED: dict[str, Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    "__init__": _initialize,
    "__hash__": _hash,
}
"""Methods that a run calls only a few times for most classes, where reading the fields is cheaper than compiling."""
_SPECIAL = object()
_CLASS_VARIABLE, _INIT_VARIABLE = vars(dataclasses)["_FIELD_CLASSVAR"], vars(dataclasses)["_FIELD_INITVAR"]
CALLS_WORTH_COMPILING = 30


class LatePattern:
    """A regular expression that is compiled on first use."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(_compile_pattern(*self._source), name)
        setattr(self, name, value)  # next time, `__getattr__` is not called
        return value

    @property  # type: ignore[misc]
    def __class__(self) -> type[re.Pattern[Any]]:  # type: ignore[override]
        return re.Pattern


def _source(source: str, *_: Any) -> str:
    """Replaces `compile` in `typing.ForwardRef`: `eval` accepts source as well as compiled code."""
    return source
