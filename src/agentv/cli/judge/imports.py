"""Libraries that send data elsewhere, or read keys from `.env` files, when a judge script imports them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agentv.metrics.libraries import LIBRARIES, Unwanted
from agentv.text import all_of

LONGEST_SCRIPT = 1 << 20
MOST_MODULES = 50


_LITELLM = Unwanted(
    "downloads a list of prices and reads `.env` files",
    {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"},
)
UNWANTED: Mapping[str, Unwanted] = {
    **{library.module: library.unwanted for library in LIBRARIES.values() if library.unwanted is not None},
    "litellm": _LITELLM,
    "dspy": _LITELLM,
}
"""Top-level modules. Libraries with an adapter are in `agentv.metrics.libraries`; add a line for any other here."""


def warnings_of(files: Iterable[Path], variables: Iterable[str]) -> Iterator[str]:
    """A warning for each library that one of these scripts, or a module next to it, imports without the variables that
    it needs."""
    known = set(variables)
    for script in sorted(files):
        sources = _with_modules(script)
        # The script may set the variables itself, before its imports.
        text = "\n".join(sources.values())
        for path, source in sources.items():
            for name in sorted(UNWANTED.keys() & _imported(source)):
                what, needed = UNWANTED[name]
                missing = {key: value for key, value in needed.items() if key not in known and key not in text}
                if missing:
                    settings = ", ".join(f'{key}: "{value}"' for key, value in missing.items())
                    yield (
                        f"{path.name} imports {name}, which {what}; to stop this, add `env: {{{settings}}}` to the "
                        f"evaluator, or set {all_of(list(missing))} before the import"
                    )


def _with_modules(script: Path) -> dict[Path, str]:
    """The source of a script, and those of the modules in its directory that it imports, also through others."""
    sources: dict[Path, str] = {}
    waiting = [script]
    while waiting and len(sources) < MOST_MODULES:
        path = waiting.pop(0)
        source = None if path in sources else _source(path)
        if source is not None:
            sources[path] = source
            for name in sorted(_imported(source) - UNWANTED.keys()):
                places = (script.parent / f"{name}.py", script.parent / name / "__init__.py")
                waiting += [place for place in places if place.is_file()]
    return sources


def _source(path: Path) -> str | None:
    if path.suffix != ".py":
        return None
    try:
        return path.read_text("utf-8") if path.stat().st_size <= LONGEST_SCRIPT else None
    except (OSError, UnicodeDecodeError):
        return None


def _imported(source: str) -> set[str]:
    """The top-level modules that a script imports anywhere."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the script itself reports this
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
