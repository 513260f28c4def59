"""Imports without the work that most runs never need: a third of the time until a command runs.

Python and its libraries compile code while they are imported: six methods of every dataclass, every regular expression
that is a constant, every annotation of a `TypedDict`. Between `begin` and `end` each of these is compiled by its first
use instead. The garbage collector is off, because nothing that is imported is garbage. And pydantic, which would read
the metadata of all installed packages to find plugins, finds none.

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
_compile_pattern = re.compile


def begin() -> None:
    """Compile nothing while modules are imported."""
    gc.disable()
    if _METHODS_ONE_BY_ONE:
        dataclasses._create_fn = _late_method  # type: ignore[attr-defined]  # noqa: SLF001
    re.compile = LatePattern  # type: ignore[assignment]
    typing.compile = _source  # type: ignore[attr-defined]
    loader = ModuleType(_PLUGIN_LOADER)
    loader.get_plugins = tuple  # type: ignore[attr-defined]
    sys.modules.setdefault(_PLUGIN_LOADER, loader)


def end() -> None:
    """From now on Python works as usual; nothing happens if it already does."""
    if _METHODS_ONE_BY_ONE:
        dataclasses._create_fn = _compile_method  # type: ignore[attr-defined]  # noqa: SLF001
    re.compile = _compile_pattern
    vars(typing).pop("compile", None)
    gc.freeze()  # what was imported stays; the collector need not look at it again
    gc.enable()


def _late_method(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    """A method of a dataclass. Its first call compiles it and puts the compiled method into the class."""
    compiled: FunctionType | None = None

    def method(self: Any, /, *values: Any, **named: Any) -> Any:
        nonlocal compiled
        if compiled is None:
            compiled = _compile_method(name, *arguments, **options)
            compiled.__qualname__ = method.__qualname__
            for owner in type(self).__mro__:
                if owner.__dict__.get(name) is method:
                    setattr(owner, name, compiled)
        return compiled(self, *values, **named)

    method.__name__ = name
    return method


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
