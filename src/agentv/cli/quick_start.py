"""Imports without the work that most runs never need: a third of the time until a command runs.

Python and its libraries compile code while they are imported: six methods of every dataclass, every regular expression
that is a constant, every annotation of a `TypedDict`. Between `begin` and `end` nothing is compiled before it is used,
and the methods of dataclasses only when they are used often. The garbage collector is off, because nothing that is
imported is garbage. And pydantic, which would read the metadata of all installed packages to find plugins, finds none.

Only the `agentv` command does this, while it imports itself: a program that imports agentv is not affected, nor is any
module that is imported later.
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
"""Up to Python 3.12. Later versions compile the methods of a class together, which is quick enough."""
_compile_method: Callable[..., FunctionType] = vars(dataclasses).get("_create_fn", FunctionType)
_parse_type: Callable[..., bool] = vars(dataclasses).get("_is_type", bool)
_compile_pattern = re.compile


def begin() -> None:
    """Compile nothing while modules are imported."""
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
    """From now on Python works as usual; nothing happens if it already does."""
    if _METHODS_ONE_BY_ONE:
        dataclasses._create_fn = _compile_method  # type: ignore[attr-defined]  # noqa: SLF001
        dataclasses._is_type = _parse_type  # type: ignore[attr-defined]  # noqa: SLF001
    re.compile = _compile_pattern
    vars(typing).pop("compile", None)
    gc.freeze()  # what was imported stays; the collector need not look at it again
    gc.enable()


def _late_method(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    """A method of a dataclass. It is compiled when it has been called often; the compiled method replaces it."""
    compiled: FunctionType | None = None
    calls = 0

    def method(self: Any, /, *values: Any, **named: Any) -> Any:
        nonlocal compiled, calls
        calls += 1
        owner = next((each for each in type(self).__mro__ if each.__dict__.get(name) is method), None)
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
    """Whether an annotation is `ClassVar`, `InitVar` or `KW_ONLY`: parsed only if it might be."""
    return ("Var" in annotation or "KW_ONLY" in annotation) and _parse_type(annotation, *others)


def _initialize(self: Any, owner: Any, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """`__init__` of a dataclass, unless the call or the class is special."""
    fields = _fields(owner)
    positional = [each.name for each in fields if each.init and not each.kw_only]
    given = dict(zip(positional, values, strict=False))
    kind: Any = type(self)
    missing = dataclasses.MISSING
    required = {each.name for each in fields if each.init and each.default is missing is each.default_factory}
    if (
        len(values) > len(positional)
        or given.keys() & named.keys()
        or not required <= (given := {**given, **named}).keys() <= {each.name for each in fields if each.init}
        or any(each._field_type is _INIT_VARIABLE for each in fields)  # noqa: SLF001
        or not (owner.__dataclass_params__.frozen or kind.__setattr__ is object.__setattr__)
    ):
        return _SPECIAL
    for each in fields:
        if each.name in given:
            object.__setattr__(self, each.name, given[each.name])
        elif each.default_factory is not missing:
            object.__setattr__(self, each.name, each.default_factory())
        elif each.default is not missing:
            object.__setattr__(self, each.name, each.default)
    if hasattr(owner, "__post_init__"):
        self.__post_init__()
    return None


def _hash(self: Any, owner: Any, *_: Any) -> Any:
    """`__hash__` of a dataclass."""
    hashed = (each for each in _fields(owner) if (each.compare if each.hash is None else each.hash))
    return hash(tuple(getattr(self, each.name) for each in hashed))


def _fields(owner: Any) -> list[Any]:
    return [each for each in owner.__dataclass_fields__.values() if each._field_type is not _CLASS_VARIABLE]  # noqa: SLF001


_UNCOMPILED: dict[str, Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    "__init__": _initialize,
    "__hash__": _hash,
}
"""Methods that a run calls a few times for most classes: reading the fields is cheaper than compiling."""
_SPECIAL = object()
_CLASS_VARIABLE, _INIT_VARIABLE = vars(dataclasses)["_FIELD_CLASSVAR"], vars(dataclasses)["_FIELD_INITVAR"]
CALLS_WORTH_COMPILING = 30


class LatePattern:
    """A regular expression, compiled when something of it is first used."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(_compile_pattern(*self._source), name)
        setattr(self, name, value)  # found without this method next time
        return value

    @property  # type: ignore[misc]
    def __class__(self) -> type[re.Pattern[Any]]:  # type: ignore[override]
        return re.Pattern


def _source(source: str, *_: Any) -> str:
    """What `typing.ForwardRef` keeps of an annotation: `eval` takes the source as well as compiled code."""
    return source
