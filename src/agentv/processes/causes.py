"""Find the line in the stderr of a failed program that names the cause, which is rarely the first one."""

from __future__ import annotations

import re
from pathlib import PurePath

LONGEST = 300
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_LIBRARY = re.compile(r"[/\\](?:lib[/\\]python[\d.]+|site-packages|agentv_eval)[/\\]|^<frozen ")
_NODE_ERROR = re.compile(r"^(?:Uncaught )?(?P<error>[A-Z]\w*(?:Error|Exception)(?: \[\w+\])?: .+)$", re.MULTILINE)
_NODE_PLACE = re.compile(r"^(?:file://)?(?P<file>/[^\n:]+):(?P<line>\d+)$", re.MULTILINE)
_NODE_VERSION = re.compile(r"^Node\.js v(\d+)\.(\d+)\.\d+", re.MULTILINE)
_NO_TYPESCRIPT = re.compile(r"ERR_UNKNOWN_FILE_EXTENSION|^SyntaxError", re.MULTILINE)
TYPESCRIPT_SINCE = (22, 18)


def cause_of(stderr: str) -> str:
    """The cause of a failure in one line, like `KeyError: 'chunks' at judge.py:4`; empty if stderr is empty."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    if not lines:
        return ""
    if _TRACEBACK in stderr:
        text = stderr[stderr.rindex(_TRACEBACK) :]
        error = next((line for line in reversed(text.splitlines()) if line[:1].strip() and line != _TRACEBACK), "")
        return _at(error or lines[-1], list(_FRAME.finditer(text)))
    if node := _NODE_ERROR.search(stderr):
        return _at(node["error"], list(_NODE_PLACE.finditer(stderr))[:1])
    return lines[-1].strip()[:LONGEST]


def _at(error: str, frames: list[re.Match[str]]) -> str:
    """The error with the last place in the program itself, not in a library."""
    own = [frame for frame in frames if not _LIBRARY.search(frame["file"])] or frames
    place = f" at {PurePath(own[-1]['file']).name}:{own[-1]['line']}" if own else ""
    return error.strip()[:LONGEST] + place


def node_without_typescript(stderr: str) -> str | None:
    """The version of Node that failed because it cannot run TypeScript; None if that is not the cause."""
    version = _NODE_VERSION.search(stderr)
    if version is None or not _NO_TYPESCRIPT.search(stderr):
        return None
    number = (int(version[1]), int(version[2]))
    return f"{number[0]}.{number[1]}" if number < TYPESCRIPT_SINCE else None
