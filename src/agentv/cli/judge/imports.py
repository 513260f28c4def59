"""Libraries that send data elsewhere, or read keys from `.env` files, when a judge script imports them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from agentv.text import all_of

LONGEST_SCRIPT = 1 << 20
MOST_MODULES = 50


class Unwanted(NamedTuple):
    """What importing a library does, and the variables that stop it."""

    what: str
    variables: Mapping[str, str]


_LITELLM = Unwanted(
    "downloads a list of prices and reads `.env` files",
    {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"},
)
LIBRARIES: Mapping[str, Unwanted] = {
    "deepeval": Unwanted(
        "sends telemetry and reads `.env` files", {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "DEEPEVAL_DISABLE_DOTENV": "1"}
    ),
    "ragas": Unwanted("sends telemetry", {"RAGAS_DO_NOT_TRACK": "true"}),
    "litellm": _LITELLM,
    "dspy": _LITELLM,
}
"""Top-level modules. To add a library, add a line, and its page in docs/libraries."""


def warnings_of(files: Iterable[Path], variables: Iterable[str]) -> Iterator[str]:
    """A warning for each library that one of these scripts, or a module next to it, imports without the variables that
    it needs."""
    known = set(variables)
    for script in sorted(files):
        sources = _with_modules(script)
        # The script may set the variables itself, before its imports.
        text = "\n".join(sources.values())
        for path, source in sources.items():
            for name in sorted(LIBRARIES.keys() & _imported(source)):
                what, needed = LIBRARIES[name]
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
            for name in sorted(_imported(source) - LIBRARIES.keys()):
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
