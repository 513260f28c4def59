"""Find the suite files of the paths on the command line."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentv.errors import UsageError
from agentv.suite.sniff import CASES, JSON_LINES, YAML, is_yaml_suite
from agentv.targets.config import FILE_NAMES
from agentv.text import all_of, did_you_mean, short_path

DEFAULT = "evals"
"""The directory that is run if no path is given."""
NEXT_STEP = "Pass suite files, directories or globs; paths are relative to the working directory."
_CONFIGS = {Path(name).name for name in FILE_NAMES}


def suite_paths(paths: Sequence[str], cwd: Path, *, command: str) -> tuple[str, ...]:
    """The given paths, or `evals` if there are none. UsageError if there is no such directory."""
    if paths:
        return tuple(paths)
    if (cwd / DEFAULT).is_dir():
        return (DEFAULT,)
    here = [path.name for path in _visible(cwd) if _is_suite(path, cwd)]
    found = f"Suites in this directory: {all_of(here[:3])}. " if here else ""
    raise UsageError(
        f"No suite was given, and there is no directory `{DEFAULT}` here.",
        next_step=f"{found}Pass a suite file, a directory or a glob: agentv {command} {here[0] if here else 'PATH'}\n"
        "`agentv init` creates example suites.",
    )


def find_suites(paths: Sequence[str], cwd: Path) -> list[Path]:
    """The suite files of these paths (files, directories and globs), without duplicates, in the order given."""
    if not paths:
        raise UsageError("No suite was given.", next_step=NEXT_STEP)
    if missing := [path for path in paths if not glob.has_magic(path) and not _exists(cwd / path)]:
        raise UsageError("\n".join(missing_path(path, cwd, _may_be_suite) for path in missing), next_step=NEXT_STEP)
    suites: dict[Path, None] = {}
    for pattern in paths:
        before = len(suites)
        for path in _expand(pattern, cwd):
            suites.setdefault(path)
        if len(suites) == before and not any(True for _ in _expand(pattern, cwd)):
            raise UsageError(
                f"No suite file matches '{pattern}'.", next_step="A suite is a .yaml file with `evalcases:`."
            )
    return list(suites)


def _exists(path: Path) -> bool:
    """Whether there is something to read. A path that cannot be looked at is reported where the suite is loaded."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):  # no permission, or a name with a null byte
        return True
    return True


def missing_path(given: str, cwd: Path, fits: Callable[[Path], bool]) -> str:
    """Which part of a path does not exist, with the nearest directory or fitting file that does."""
    path = cwd / given
    while not _exists(path.parent):
        path = path.parent
    is_last = path == cwd / given
    names = [entry.name for entry in _visible(path.parent) if entry.is_dir() or (is_last and fits(entry))]
    near = did_you_mean(path.name, names, any_case=True)
    shown = short_path(path, cwd)
    if shown.parent != Path():
        near = near.replace("mean `", f"mean `{shown.parent}/")
    what = "There is no file or directory" if is_last else f"There is no directory '{shown}' for"
    return f"{what} '{given}'{near}."


def _visible(directory: Path) -> list[Path]:
    try:
        return sorted(entry for entry in directory.iterdir() if not entry.name.startswith("."))
    except OSError:
        return []


def _may_be_suite(path: Path) -> bool:
    return path.suffix in (*YAML, JSON_LINES) and path.name not in _CONFIGS


def _expand(pattern: str, cwd: Path) -> Iterator[Path]:
    path = cwd / pattern
    if path.is_dir():
        yield from (_shown(file, cwd) for file in sorted(path.rglob("*")) if _is_suite(file, path))
    elif glob.has_magic(pattern) and not path.exists():
        for match in sorted(glob.glob(pattern, root_dir=cwd, recursive=True)):  # noqa: PTH207 - patterns may be absolute
            if (cwd / match).is_file() and Path(match).name not in _CONFIGS:
                yield _shown(cwd / match, cwd)
    else:
        yield _shown(path, cwd)


def _shown(path: Path, cwd: Path) -> Path:
    """The path relative to `cwd`, if that is the working directory of the process."""
    return short_path(path, cwd) if cwd == Path.cwd() else path


def _is_suite(path: Path, top: Path) -> bool:
    inner = path.relative_to(top)
    if path.suffix not in YAML or path.name in _CONFIGS or not path.is_file():
        return False
    if any(part.startswith(".") or part == "node_modules" for part in inner.parts):
        return False
    return mentions_cases(path)


def mentions_cases(path: Path) -> bool:
    """Whether a file may be a suite. A file that cannot be read is reported where the suite is loaded."""
    try:
        with path.open("rb") as lines:
            return any(CASES.encode() in line for line in lines) or is_yaml_suite(path)
    except OSError:
        return True
