"""Copies of scripts that a suite cannot refer to, because they are outside its repository."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agentv.importing.prompts import free
from agentv.importing.source import UnreadableError, read_text

_MODULE = re.compile(r"^\s*(?:import|export)\b", re.MULTILINE)
_IMPORTED = re.compile(r"""(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["'`]([^"'`]*)["'`]""")
_PLACE = re.compile(r"\b(?:__dirname|__filename|import\.meta|require\.resolve)\b")
_BUILT_IN = {
    *("assert", "buffer", "child_process", "crypto", "events", "fs", "fs/promises", "http", "https", "os", "path"),
    *("querystring", "stream", "string_decoder", "url", "util", "vm", "zlib"),
}


@dataclass(slots=True)
class CopiedFiles:
    """The scripts to write next to a suite."""

    contents: dict[str, str] = field(default_factory=dict)
    """Name in the directory of the suite -> content."""
    _names: dict[Path, str] = field(default_factory=dict)

    def add(self, path: Path) -> str | None:
        """The name of the copy; None if the script needs other files, so that a copy would not work."""
        source = path.resolve()
        if source in self._names:
            return self._names[source]
        try:
            text = read_text(source)
        except UnreadableError:
            return None
        if not (_is_alone_python(text, source.parent) if source.suffix == ".py" else _is_alone_javascript(text)):
            return None
        suffix = source.suffix
        if suffix == ".js":  # its package.json, which says what it is, stays behind
            suffix = ".mjs" if _MODULE.search(text) else ".cjs"
        stem, taken = source.stem, {PurePosixPath(name).stem for name in self.contents}
        name = free(stem, taken) + suffix
        self.contents[name] = text
        self._names[source] = name
        return name


def _is_alone_python(text: str, directory: Path) -> bool:
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    if any(isinstance(node, ast.Name) and node.id == "__file__" for node in nodes):
        return False
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                return False
            modules.append(node.module)
    starts = {name.partition(".")[0] for name in modules}
    return not any((directory / f"{start}.py").exists() or (directory / start).is_dir() for start in starts)


def _is_alone_javascript(text: str) -> bool:
    names = _IMPORTED.findall(text)
    return not _PLACE.search(text) and all(name.startswith("node:") or name in _BUILT_IN for name in names)
