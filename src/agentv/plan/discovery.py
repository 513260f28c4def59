"""Paths of a command line -> suite files."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentv.errors import UsageError
from agentv.targets.config import FILE_NAMES
from agentv.text import short_path

SUFFIXES = (".yaml", ".yml")
_CONFIGS = {Path(name).name for name in FILE_NAMES}


def find_suites(paths: Sequence[str], cwd: Path, *, command: str = "eval") -> list[Path]:
    """Files as they are, directories searched for suites, globs expanded; each suite once, in the order given."""
    if not paths:
        raise UsageError(
            "No suite was given.", next_step=f"Name a suite file, a directory or a glob: agentv {command} evals/"
        )
    found: dict[Path, None] = {}
    for given in paths:
        before = len(found)
        for path in _expand(given, cwd):
            found.setdefault(path)
        if len(found) == before and not any(True for _ in _expand(given, cwd)):
            raise UsageError(
                f"No suite file matches '{given}'.", next_step="A suite is a .yaml file with `evalcases:`."
            )
    return list(found)


def _expand(given: str, cwd: Path) -> Iterator[Path]:
    path = cwd / given
    if path.is_dir():
        yield from (_shown(file, cwd) for file in sorted(path.rglob("*")) if _is_suite(file, path))
    elif glob.has_magic(given) and not path.exists():
        for match in sorted(glob.glob(given, root_dir=cwd, recursive=True)):  # noqa: PTH207 - patterns may be absolute
            if (cwd / match).is_file() and Path(match).name not in _CONFIGS:
                yield _shown(cwd / match, cwd)
    else:
        yield _shown(path, cwd)


def _shown(path: Path, cwd: Path) -> Path:
    """Relative to the working directory, if the process is there."""
    return short_path(path, cwd) if cwd == Path.cwd() else path


def _is_suite(path: Path, top: Path) -> bool:
    inner = path.relative_to(top)
    if path.suffix not in SUFFIXES or path.name in _CONFIGS or not path.is_file():
        return False
    if any(part.startswith(".") or part == "node_modules" for part in inner.parts):
        return False
    try:
        with path.open("rb") as lines:
            return any(b"evalcases" in line for line in lines)
    except OSError:
        return True
