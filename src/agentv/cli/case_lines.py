"""Find the lines of suite files on which the cases of a recorded run are defined."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentv.regular_files import FileUnusableError, open_regular
from agentv.report.annotations import Place
from agentv.results import RowKey
from agentv.suite.json_lines import iterate_lines
from agentv.suite.sniff import CASE_KEYS, JSON_LINES
from agentv.suite.yaml import YamlProblem, YamlWalk
from agentv.text import short_path


class CaseLines:
    """Map a case to its current file and line; None if the suite is missing or unreadable."""

    def __init__(self, manifest: Mapping[str, Any], cwd: Path, root: Path | None = None) -> None:
        self._suites = dict(_suites(manifest, cwd))
        self._root = (root or cwd).resolve()
        self._places: dict[str, dict[str, Place]] = {}

    def __call__(self, key: RowKey) -> Place | None:
        if key.suite not in self._suites:
            return None
        if key.suite not in self._places:
            self._places[key.suite] = {}
            with suppress(OSError, FileUnusableError, YamlProblem):
                for eval_id, path, line in _cases(self._suites[key.suite]):
                    self._places[key.suite].setdefault(
                        eval_id, Place(str(short_path(path.resolve(), self._root)), line)
                    )
        return self._places[key.suite].get(key.eval_id)


def repository_root() -> Path | None:
    """The directory that paths in GitHub annotations are relative to; None outside GitHub Actions."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    return Path(workspace) if workspace else None


def _suites(manifest: Mapping[str, Any], cwd: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of each suite of a run. Paths recorded in another directory are mapped to `cwd`."""
    recorded_cwd = manifest.get("cwd")
    suites = manifest.get("suites")
    for suite in suites if isinstance(suites, list) else ():
        if not isinstance(suite, dict) or not all(isinstance(suite.get(key), str) for key in ("path", "name")):
            continue
        path = Path(suite["path"])
        if not path.is_file() and isinstance(recorded_cwd, str) and path.is_relative_to(recorded_cwd):
            path = cwd / path.relative_to(recorded_cwd)
        yield suite["name"], path


def _cases(suite: Path) -> Iterator[tuple[str, Path, int]]:
    if suite.suffix == JSON_LINES:
        yield from _json_lines(suite)
        return
    with open_regular(suite) as stream:
        for entry in YamlWalk(stream).entries(*CASE_KEYS):
            if entry.key not in CASE_KEYS:
                continue
            value = entry.value
            if entry.index is None:
                reference = value
            elif isinstance(value, dict) and set(value) == {"file"}:
                reference = value["file"]
            else:
                if isinstance(value, dict) and "id" in value:
                    yield str(value["id"]), suite, entry.line
                continue
            if isinstance(reference, str) and reference.endswith(JSON_LINES):
                yield from _json_lines(suite.parent / reference)


def _json_lines(path: Path) -> Iterator[tuple[str, Path, int]]:
    with suppress(FileUnusableError), open_regular(path) as stream:
        for number, value, _ in iterate_lines(stream):
            if isinstance(value, dict) and "id" in value:
                yield str(value["id"]), path, number
