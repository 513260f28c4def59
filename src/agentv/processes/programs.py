"""Find out before a run what a command needs on this machine and does not find: its directory, program or script.

Only what is certain to fail is reported. A command such as `[sh, -c, '...']`, `[npx, tsx, x.ts]` or `[uv, run, x.py]`
can find its files in its own way, so only its program is checked.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agentv.command import INTERPRETERS, with_own_python
from agentv.processes.run import directory_problem, program_problem, shebang
from agentv.text import did_you_mean

_NOT_FOUND = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_NODE_FLAGS = frozenset({"--no-warnings", "--enable-source-maps", "--experimental-strip-types", "--no-deprecation"})
_SUFFIXES = frozenset(INTERPRETERS)


class CommandProblem(NamedTuple):
    """Why a command cannot run. `word` is the index of the word at fault; None if it is the working directory."""

    word: int | None
    message: str


def command_problem(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> CommandProblem | None:
    """Why the command certainly cannot run in this directory with these variables, or None."""
    if os.name == "nt" or not argv:
        return None
    if problem := directory_problem(argv[0], cwd, env, _NOT_FOUND):
        return CommandProblem(None, _sentence(f"could not start `{argv[0]}`: {problem[0]}", problem[1]))
    program = with_own_python(argv)[0]
    try:
        if message := _program(program, cwd, env):
            return CommandProblem(0, message)
        index = script_index(argv)
        if index is not None and not (cwd / argv[index]).exists():
            return CommandProblem(index, _no_file(argv[index], cwd))
    except (OSError, ValueError):  # an unreadable directory, a path that is too long: reported when it is started
        return None
    return None


def script_index(argv: Sequence[str]) -> int | None:
    """The index of the script file that an interpreter is given, or None if that is not certain."""
    name = Path(argv[0]).name
    if re.fullmatch(r"python(\d(\.\d+)?)?", name):
        return _first_argument(argv, stops="cm", with_value=("-W", "-X"), long_flags=())
    if name in _SHELLS:
        index = _first_argument(argv, stops="cs", with_value=("-o", "+o", "-O", "+O"), long_flags=())
        # A shell also searches PATH for a plain name.
        return index if index is not None and ("/" in argv[index] or _is_script(argv[index])) else None
    if name == "node":
        index = _first_argument(argv, stops=None, long_flags=_NODE_FLAGS)
        return index if index is not None and _is_script(argv[index]) else None
    if name in ("bun", "deno"):
        index = 2 if argv[1:2] == ["run"] else 1
        return index if len(argv) > index and _is_script(argv[index]) else None
    return None


def _first_argument(
    argv: Sequence[str],
    *,
    stops: str | None,
    with_value: Sequence[str] = (),
    long_flags: Sequence[str] | frozenset[str],
) -> int | None:
    """The index of the first argument that is not an option.

    None at an option that may replace the script: short options with a letter of `stops` (None: all short options),
    and long options other than `long_flags`.
    """
    index = 1
    while index < len(argv):
        word = argv[index]
        if word in with_value:
            index += 2
            continue
        if not word.startswith(("-", "+")):
            return index
        if word in ("-", "--"):
            return None
        if word.startswith("--"):
            if word not in long_flags and "=" not in word:
                return None
        elif stops is None or any(letter in word for letter in stops):
            return None
        index += 1
    return None


def _is_script(word: str) -> bool:
    return Path(word).suffix in _SUFFIXES and "://" not in word


def _program(program: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    problem = program_problem(program, cwd, env, _NOT_FOUND)
    if problem is not None:
        if "/" not in program and (cwd / program).is_file():
            runner = INTERPRETERS.get(Path(program).suffix)
            command = f"[{runner}, {program}]" if runner else f"./{program}"
            problem = problem[0], f"To run the file {cwd / program}, write `{command}`"
        return _sentence(f"could not start `{program}`: {problem[0]}{_near_program(program, cwd, env)}", problem[1])
    words = shebang(_located(program, cwd, env))
    if len(words) == 2 and Path(words[0]).name == "env" and not _on_path(words[1], env):
        return (
            f"could not start `{program}`: the interpreter in its `#!` line, {words[1]}, is not on PATH; "
            "install it, or put another interpreter first in the command"
        )
    return None


def _located(program: str, cwd: Path, env: Mapping[str, str]) -> Path:
    return cwd / program if "/" in program else Path(_on_path(program, env) or program)


def _on_path(program: str, env: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=env.get("PATH", os.defpath))


def _near_program(program: str, cwd: Path, env: Mapping[str, str]) -> str:
    if "/" in program:
        return "" if (cwd / program).exists() else _near_file(program, cwd)
    names: set[str] = set()
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        try:
            names.update(path.name for path in Path(folder).iterdir())
        except OSError:
            continue
    return did_you_mean(program, sorted(names))


def _no_file(word: str, cwd: Path) -> str:
    return f"there is no file '{word}' in {cwd}{_near_file(word, cwd)}; relative paths start at `cwd`"


def _near_file(word: str, cwd: Path) -> str:
    folder = (cwd / word).parent
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return ""
    hint = did_you_mean(Path(word).name, names)
    return hint.replace("`", f"`{word[: -len(Path(word).name)]}", 1) if hint else ""


def _sentence(problem: str, next_step: str) -> str:
    return f"{problem}; {next_step[0].lower()}{next_step[1:].rstrip('.')}"
