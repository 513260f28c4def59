"""Find the line in the stderr of a failed program that names the cause, which is rarely the first one."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import PurePath

LONGEST = 300
LONGEST_LINE = 1000
TYPESCRIPT_SINCE = (22, 18)

_TRACEBACK = "Traceback (most recent call last):"
_GROUP = re.compile(r"^\s*(?:[+|] |\+-[+-]*(?: \d+ -*)?$)")
"""What Python puts before the lines of an exception group."""
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LIBRARY = re.compile(
    r"[/\\](?:lib[/\\]python[\d.]+|site-packages|agentv_eval|node_modules|sdk[/\\]typescript[/\\]dist)[/\\]"
    r"|^<frozen |^node:|[/\\]src[/\\]agentv[/\\]"
)
_SDK = re.compile(r"^(?:agentv_eval|@agentv/eval): the judge failed: ")
_CARETS = re.compile(r"^\s*\^+$")
_STACK = re.compile(r"^\s+at (?:.*\()?(?:file://)?(?P<file>[^():]*[^():\s]):(?P<line>\d+):\d+\)?(?: \{|,)?$")
_THROWN = re.compile(r"^\W?(?:error: )?(?:Uncaught )?(?:\(in promise\) )?(?P<error>[\w$.]*(?:Error|Exception)\b.*)$")
_HEAD = re.compile(r"^(?:file://)?(?P<file>/[^:]+):(?P<line>\d+)$")
_NODE_VERSION = re.compile(r"^Node\.js v(\d+)\.(\d+)\.\d+", re.MULTILINE)
_NO_TYPESCRIPT = re.compile(r"ERR_UNKNOWN_FILE_EXTENSION|^SyntaxError", re.MULTILINE)
_OTHERS = (
    re.compile(r'^Exception in thread "[^"]*" (?P<error>.+)$'),  # Java
    re.compile(r"^(?P<error>(?:panic|fatal error): .+)$"),  # Go
    re.compile(r"^(?:PHP )?(?:Fatal|Parse) error: +(?:Uncaught )?(?P<error>.+)$"),
    re.compile(  # Rust
        r"^thread '[^']*'(?: \(\d+\))? panicked at (?:'(?P<error>.+)', )?(?P<file>[^':]+):(?P<line>\d+):\d+:?$"
    ),
)
_NOT_A_CAUSE = re.compile(
    r"^(?:Node\.js|Bun|Deno) v\d|^\(Use `node |^note: run with|^exit status \d+$|^Execution halted$|^Calls: |^[\W_]+$"
)


def cause_of(stderr: str) -> str:
    """The cause of a failure in one line, like `KeyError: 'chunks' at judge.py:4`; empty if stderr is empty."""
    lines = [line[:LONGEST_LINE].rstrip() for line in stderr.splitlines() if line.strip()]
    return _in_python(lines) or _in_javascript(lines) or _in_others(lines) or _last(lines)


def raised(error: BaseException) -> str:
    """An exception in one line, with the last place outside of libraries and agentv."""
    frames = [(frame.filename, str(frame.lineno)) for frame in traceback.extract_tb(error.__traceback__)]
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    text = str(error).strip()
    return _at([f"{type(error).__name__}: {text}" if text else type(error).__name__], own[-1] if own else None)


def _in_python(lines: Sequence[str]) -> str:
    lines = [_GROUP.sub("", line) for line in lines]
    start = max((at for at, line in enumerate(lines) if line.endswith(_TRACEBACK)), default=-1)
    matches = [(at, match) for at in range(start + 1, len(lines)) if (match := _FRAME.match(lines[at]))]
    frames = [(match["file"], match["line"]) for _, match in matches]
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    if start >= 0:
        own = own or frames
    elif matches:  # the beginning of a long traceback is cut off, or it is a SyntaxError
        start = matches[-1][0]
    error = next((at for at in range(start + 1, len(lines)) if lines[at][:1].strip()), -1)
    if error < 0 or not frames:
        return ""
    return _at(lines[error:], own[-1] if own else None)


def _in_javascript(lines: Sequence[str]) -> str:
    """The error of Node, Deno or Bun: after the quoted source, else before the stack."""
    stack = [at for at, line in enumerate(lines) if _STACK.match(line)]
    carets = next((at for at, line in enumerate(lines[:-1]) if _CARETS.match(line)), -1)
    is_node = any(_NODE_VERSION.match(line) for line in lines)
    if carets >= 0 and is_node:
        error = carets + 1
    elif stack:
        before = range(stack[0] - 1, -1, -1)
        error = next((at for at in before if _THROWN.match(lines[at])), stack[0] - 1)
    else:
        return ""
    if error < 0:
        return ""
    frames = [(match["file"], match["line"]) for at in stack if at > error and (match := _STACK.match(lines[at]))]
    frames += [(match["file"], match["line"]) for line in lines[:error] if (match := _HEAD.match(line))]
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    thrown = _THROWN.match(lines[error])
    first = (thrown["error"] if thrown else lines[error]).removesuffix(" {").removesuffix("]")
    rest = lines[error + 1 : stack[0]] if stack and stack[0] > error else []
    return _at([first, *rest], own[0] if own else None)


def _in_others(lines: Sequence[str]) -> str:
    for at, line in enumerate(lines):
        for form in _OTHERS:
            if match := form.match(line):
                found = match.groupdict()
                place = (found["file"], found["line"]) if "file" in found else None
                return _at([found["error"] or "", *lines[at + 1 : at + 2]], place)
    return ""


def _last(lines: Sequence[str]) -> str:
    """The last line that is not indented, like the continuation of an earlier one, and not a closing remark."""
    useful = [line for line in lines if not _NOT_A_CAUSE.match(line)] or lines
    line = next((line for line in reversed(useful) if line[:1].strip()), useful[-1] if useful else "")
    return _SDK.sub("", line.strip())[:LONGEST]


def _at(lines: Sequence[str], place: tuple[str, str] | None) -> str:
    """The first line, or the first two if the first is only an introduction, and the place."""
    error = lines[0].strip()
    if (not error or error.endswith(":")) and len(lines) > 1:
        error = f"{error} {lines[1].strip()}".strip()
    return error[:LONGEST] + (f" at {PurePath(place[0]).name}:{place[1]}" if place else "")


def node_without_typescript(stderr: str) -> str | None:
    """The version of Node that failed because it cannot run TypeScript; None if that is not the cause."""
    version = _NODE_VERSION.search(stderr)
    if version is None or not _NO_TYPESCRIPT.search(stderr):
        return None
    number = (int(version[1]), int(version[2]))
    return f"{number[0]}.{number[1]}" if number < TYPESCRIPT_SINCE else None
