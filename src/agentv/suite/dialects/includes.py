"""Lists of assertions in other files: `{include: name}`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentv.suite.files import FileReferenceError, SuiteFiles, upward
from agentv.suite.yaml import YamlProblem, YamlWalk

DEEPEST = 3
TEMPLATES = ".agentv/templates"


class IncludeError(ValueError):
    """An included list cannot be used."""


def included(name: Any, files: SuiteFiles, seen: tuple[Path, ...] = ()) -> Iterator[Any]:
    """The entries of an included list, with those that it includes."""
    if not isinstance(name, str) or not name.strip():
        raise IncludeError("`include` must be the name of a template, or a path")
    if len(seen) > DEEPEST:
        raise IncludeError(f"'{name}': more than {DEEPEST} templates include each other")
    path = _found(name, files, seen[-1].parent if seen else None)
    if path in seen:
        raise IncludeError(f"'{name}' includes itself")
    files.fingerprints.note_once(path)
    try:
        data = YamlWalk(files.read_text(path)).document()
    except YamlProblem as problem:
        raise IncludeError(f"{path.name}:{problem.line}:{problem.column}: {problem.message}") from None
    entries = data.get("assertions", data.get("assert")) if isinstance(data, dict) else data
    if not isinstance(entries, list):
        raise IncludeError(f"'{name}': {path.name} must contain a list under `assertions`")
    for entry in entries:
        if isinstance(entry, dict) and entry.keys() == {"include"}:
            yield from included(entry["include"], files, (*seen, path))
        else:
            yield entry


def _found(name: str, files: SuiteFiles, beside: Path | None) -> Path:
    is_path = "/" in name or name.startswith(".")
    try:
        if is_path and beside is not None and (beside / name).is_file():
            return files.resolve(str((beside / name).resolve()))
        if is_path:
            return files.resolve(name)
        for folder in upward(files.directory, files.root):
            for suffix in (".yaml", ".yml"):
                if (folder / TEMPLATES / f"{name}{suffix}").is_file():
                    return files.resolve(str(folder / TEMPLATES / f"{name}{suffix}"))
    except FileReferenceError as error:
        raise IncludeError(str(error)) from None
    raise IncludeError(f"there is no template '{name}' in {TEMPLATES} of {files.directory} or a directory above it")
