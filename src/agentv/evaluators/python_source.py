"""Finds errors in the Python code of a suite without running it: its syntax, and whether a function exists."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from agentv.regular_files import FileUnusableError, read_regular
from agentv.text import did_you_mean, quoted
from agentv_eval.inline_source import compiled

MAX_BYTES = 4 * 1024 * 1024
_TOO_DEEP = "the code is nested too deeply; move it to a file"


def check_code(source: str) -> None:
    """Raises ValueError with line and column if an expression or a function body is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape sequence
            compiled(source)
    except SyntaxError as error:
        place = f"line {error.lineno}, column {error.offset}: " if error.lineno else ""
        raise ValueError(f"{place}{error.msg}") from None
    except (RecursionError, MemoryError):
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        raise ValueError(f"is not valid Python: {error}") from None


def check_function(path: Path, function: str, *, shown: str) -> None:
    """Raises ValueError if the file is not valid Python or does not define the function at its top level."""
    status = path.stat()
    names, has_star = _names_in(path, status.st_mtime_ns, status.st_size)
    name = function.partition(".")[0]
    if name not in names and not has_star:
        near = did_you_mean(name, sorted(names))
        raise ValueError(f"{shown} has no function {quoted(name)}{near}")


@lru_cache(maxsize=256)
def _names_in(path: Path, modified: int, size: int) -> tuple[frozenset[str], bool]:
    """The names that a file defines at its top level, and whether it imports more with `*`."""
    del modified, size  # a changed file is read again
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(read_regular(path, MAX_BYTES), path.name)
    except FileUnusableError as error:
        raise ValueError(f"{path} {error}") from None
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}:{error.offset}: {error.msg}") from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise ValueError(f"{path} is not valid Python: {str(error) or _TOO_DEEP}") from None
    names = frozenset(_defined(tree.body))
    return names - {"*"}, "*" in names


def _defined(statements: list[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            stores = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            yield from (node.id for node in stores if isinstance(node.ctx, ast.Store))
            for block in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(statement, block, []))
            for handler in getattr(statement, "handlers", []):
                yield from _defined(handler.body)


def module_file(name: str, directory: Path) -> Path | None:
    """The source file of a module, found from this directory without importing anything.

    None for modules without a source file. Raises LookupError if there is no such module.
    """
    where: list[str] | None = None
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = _find(".".join(parts[:count]), [str(directory)] if where is None else where, top=where is None)
        if spec is None:
            raise LookupError(name)
        where = list(spec.submodule_search_locations or [])
    origin = spec.origin if spec is not None else None
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def _find(name: str, where: list[str], *, top: bool) -> ModuleSpec | None:
    spec = PathFinder.find_spec(name, where)
    if spec is None and top:
        finders = (finder.find_spec(name, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((found for found in finders if found is not None), None)
    return spec
