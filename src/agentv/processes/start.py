"""Start a program, or say which of the many reasons kept it from starting."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentv.errors import AgentVError


class ProcessStartError(AgentVError):
    """A program that could not be started, and why."""

    exit_code = 3


def refuse_unstartable(argv: Sequence[str]) -> None:
    """Raise for what can be known to fail before anything is opened."""
    if os.name == "nt":
        raise ProcessStartError(
            "commands cannot be run on Windows itself",
            next_step="Run agentv inside WSL, or on Linux or macOS.",
        )
    if not argv or not argv[0]:
        raise ProcessStartError("there is no program to start: the command is empty", next_step="Name a program.")


def start_process(
    argv: Sequence[str], pipes: Sequence[int], cwd: Path | str, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """The program, leading its own session, with `pipes` as its stdin, stdout and stderr."""
    stdin, stdout, stderr = pipes
    try:
        return subprocess.Popen(
            list(argv), stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=dict(env), start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise start_error(argv[0], Path(cwd), env, error) from error


def start_error(program: str, cwd: Path, env: Mapping[str, str], error: OSError | ValueError) -> ProcessStartError:
    """Say which of the many reasons it was: the system reports most of them as "no such file"."""
    what = f"could not start `{program}`"
    if not isinstance(error, OSError):
        return ProcessStartError(
            f"{what}: an argument or a variable of its environment cannot be passed to a program ({error})",
            next_step="Pass text with NUL characters or broken Unicode through a file or stdin instead.",
        )
    for reason in (_directory_problem, _limit_problem, _program_problem):
        problem = reason(program, cwd, env, error)
        if problem is not None:
            return ProcessStartError(f"{what}: {problem[0]}", next_step=problem[1])
    return ProcessStartError(f"{what}: {error.strerror or error}", next_step="Try the command in a terminal.")


_Problem = tuple[str, str] | None


def _directory_problem(program: str, cwd: Path, env: Mapping[str, str], error: OSError) -> _Problem:
    del program, env, error
    if not cwd.exists():
        return f"its directory {cwd} does not exist", "Create the directory, or correct `cwd`."
    if not cwd.is_dir():
        return f"its directory {cwd} is not a directory", "Correct `cwd`."
    if not os.access(cwd, os.X_OK):
        return f"its directory {cwd} may not be entered", "Change the directory's permissions, or `cwd`."
    return None


def _limit_problem(program: str, cwd: Path, env: Mapping[str, str], error: OSError) -> _Problem:
    del program, cwd, env
    if error.errno == errno.E2BIG:
        return (
            "its arguments and environment are longer than the system allows",
            "Pass long text through a file (`{PROMPT_FILE}`) or stdin instead of an argument.",
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return (
            "too many files are open",
            "Lower `--workers` or `max_concurrency`, or raise the limit (`ulimit -n`).",
        )
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return f"the system has no room for another process ({error.strerror})", "Lower `--workers`."
    return None


def _program_problem(program: str, cwd: Path, env: Mapping[str, str], error: OSError) -> _Problem:
    if "/" in program:
        path = cwd / program
    else:
        found = shutil.which(program, mode=os.F_OK, path=env.get("PATH", os.defpath))
        if found is None:
            return "there is no such program on PATH", "Install it, correct the name, or give its path."
        path = Path(found)
    if not path.exists():
        return f"there is no file {path}", "Correct the path: a relative one starts at `cwd`."
    if path.is_dir():
        return f"{path} is a directory", "Name a program."
    if not os.access(path, os.X_OK):
        return f"{path} is not executable", f"Run `chmod +x {path}`, or put its interpreter in front."
    interpreter = _interpreter(path)
    if interpreter is None and error.errno == errno.ENOEXEC:
        return f"{path} is no program and has no `#!` line", "Put its interpreter in front, or add the line."
    if interpreter is not None and not os.access(cwd / interpreter, os.X_OK):
        return (
            f"the interpreter of its `#!` line, {interpreter}, is missing or not executable",
            f"Correct the first line of {path}, or put the interpreter in front of the command.",
        )
    return None


def _interpreter(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            line = file.readline(1024)
    except OSError:
        return None
    words = line[2:].decode("utf-8", "backslashreplace").split() if line.startswith(b"#!") else []
    return words[0] if words else None
