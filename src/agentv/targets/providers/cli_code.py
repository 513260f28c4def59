"""Rejects placeholders in text that a program would run as code: `sh -c`, `python -c`, `eval`, `ssh`, and the like.

The values of placeholders reach a program unchanged. If the program parses them again, they run as code. Not every
such program can be known; this module knows the common ones, and its errors show how to pass a value instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

VALUE = "\0"
"""In the text of a word: a placeholder."""
RESERVED = frozenset(
    {"!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "time", "esac"}
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_NOT_A_COMMAND = frozenset({"case", "for", "select"})
"""The words after these are data."""


class Word(NamedTuple):
    """A word of a command, without its quotes."""

    text: str
    filled: bool
    """Whether it contains a placeholder."""
    expanded: bool = False
    """Whether it contains something else that a shell expands."""

    @property
    def name(self) -> str:
        """As a program: its name without the directory."""
        return PurePosixPath(self.text).name

    @property
    def installed(self) -> str:
        """The same for a program of the system; empty for `./make`, which is the user's own."""
        return self.name if "/" not in self.text or self.text.startswith("/") else ""


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """A program that runs code from its command line."""

    code: re.Pattern[str]
    """Options that are followed by code."""
    flags: re.Pattern[str]
    """Options without a value."""
    values: Mapping[str, int] = field(default_factory=dict)
    """Options with values -> how many."""
    takes_values: bool = False
    """Whether those values may contain placeholders."""
    program_first: bool = False
    """Whether the first operand is code, not the name of a file."""
    code_ends_options: bool = False
    """Whether everything after the code is an argument of the code."""
    example: str = ""


def _table(*rows: tuple[str, _Interpreter]) -> dict[str, _Interpreter]:
    return {name: interpreter for names, interpreter in rows for name in names.split()}


_SHELL = _Interpreter(
    re.compile(r"-[a-zA-Z]*c[a-zA-Z]*|--command|--init-command"),
    re.compile(r"[-+][abefhiklmnpruvxBCEHPT]+|--(?:login|norc|noprofile|posix|restricted|verbose|noediting)"),
    {"-o": 1, "+o": 1, "-O": 1, "+O": 1, "-eo": 1, "-euo": 1, "-ueo": 1, "-euxo": 1, "--rcfile": 1, "--init-file": 1},
    code_ends_options=True,
    example="{program} -c 'tool \"$1\"' {program} {placeholder}",
)
_PYTHON = _Interpreter(
    re.compile(r"-[a-zA-Z]*c"),
    re.compile(r"-[bBdEhiIOPqsSuvVx]+"),
    {"-W": 1, "-X": 1},
    code_ends_options=True,
    example="{program} -c 'import sys; print(sys.argv[1])' {placeholder}",
)
_PERL = _Interpreter(
    re.compile(r"-[a-zA-Z0-9]*[eE]"),
    re.compile(r"-[aclnpsSTuUvwWX0-9]+|-[MmIrCFi]\S+|--[a-z-]+"),
    {"-I": 1, "-r": 1},
    example="{program} -e 'print $ARGV[0]' {placeholder}",
)
_NODE = _Interpreter(
    re.compile(r"-e|-p|-pe|--eval|--print|eval"),
    re.compile(r"--[a-z0-9-]+=\S*|--(?:no-|experimental-|enable-|harmony|trace-)[a-z0-9-]+|-[AEWNRSq]"),
    {"-r": 1, "--require": 1, "--import": 1, "--loader": 1, "-C": 1},
    example="{program} -e 'console.log(process.argv[1])' {placeholder}",
)
_AWK = _Interpreter(
    re.compile(r"-e|--source"),
    re.compile(r"--[a-z-]+(?:=\S*)?"),
    {"-v": 1, "--assign": 1, "-F": 1, "-f": 1},
    takes_values=True,
    program_first=True,
    example="{program} -v q={placeholder} '{{ print q }}'",
)
_SED = _Interpreter(
    re.compile(r"-[nrEsuz]*e|--expression"),
    re.compile(r"-[nrEsuz]+|-i\S*|--[a-z-]+"),
    {"-l": 1},
    program_first=True,
    example="{program} 's/a/b/' {placeholder}",
)
_JQ = _Interpreter(
    re.compile(r"(?!)"),
    re.compile(r"-[acCehjMnrRsSV]+|--[a-z-]+"),
    {"--arg": 2, "--argjson": 2, "--slurpfile": 2, "--rawfile": 2, "--indent": 1, "-L": 1, "-f": 1, "--from-file": 1},
    takes_values=True,
    program_first=True,
    example="{program} -n --arg q {placeholder} '$q'",
)
_INTERPRETERS = _table(
    ("sh ash bash dash fish ksh lksh mksh pdksh rbash yash zsh", _SHELL),
    ("python pypy", _PYTHON),
    ("perl ruby", _PERL),
    ("node nodejs bun deno tsx ts-node", _NODE),
    ("awk gawk mawk nawk", _AWK),
    ("sed gsed", _SED),
    ("jq gojq", _JQ),
)
_OTHER_CODE = re.compile(r"-[ceErRBx]|-ex|--?(?:eval|exec|execute|command|expression|Command|run)")
_OTHERS = frozenset(
    {
        *("php", "lua", "luajit", "Rscript", "julia", "osascript", "pwsh", "powershell", "gdb", "emacs", "vim", "nvim"),
        *("psql", "mysql", "mariadb", "elixir", "scala", "groovy", "racket", "guile", "expect", "nix-shell", "script"),
    }
)
"""Programs with one of these options for code; their other arguments are not checked."""
_VERSION = re.compile(r"(python|pypy|perl|ruby|lua|php|bash|ksh|node)[0-9.]+")
_PARSE_AGAIN = frozenset(
    {"ssh", "rsh", "mosh", "su", "runuser", "sg", "watch", "parallel", "tmux", "screen", "make", "gmake"}
)
"""Programs that run their arguments as a command line, or expand them."""
_RUN_STDIN = frozenset({"parallel", "at", "batch", "dc", "m4", "ed"})
"""Programs that run what they read from stdin."""
_REPLACES = re.compile(r"-[iI].*|--replace(?:=.*)?|-J")
"""Options of `xargs` that insert what it reads into its arguments."""
_BUILTINS = frozenset(
    {"eval", ".", "source", "trap", "alias", "let", "declare", "typeset", "unset", "read", "mapfile", "[["}
)
"""Commands of a shell that parse their arguments again, or evaluate them as an expression."""
_ASSIGNING = frozenset({"export", "readonly", "local"})
_WRAPPERS = frozenset(
    {
        *("env", "sudo", "doas", "nohup", "nice", "ionice", "timeout", "time", "exec", "command", "builtin", "setsid"),
        *(
            "stdbuf",
            "unbuffer",
            "xargs",
            "chroot",
            "flock",
            "docker",
            "podman",
            "kubectl",
            "uv",
            "uvx",
            "poetry",
            "pipenv",
        ),
        *(
            "npx",
            "pnpm",
            "yarn",
            "npm",
            "bunx",
            "conda",
            "busybox",
            "toybox",
            "caffeinate",
            "strace",
            "find",
            "unshare",
        ),
        *("nsenter", "taskset", "chrt", "systemd-run"),
    }
)
"""Programs that run the command in their arguments."""


def check_commands(commands: Sequence[Sequence[Word]], placeholder: str, *, by_shell: bool) -> None:
    """Raise `ValueError` if the value of a placeholder would run as code.

    `commands` are the words of each simple command; `placeholder` is one of the placeholders, for messages.
    """
    check = _Check(placeholder, by_shell)
    for words in commands:
        check.command(words)


@dataclass(frozen=True, slots=True)
class _Check:
    placeholder: str
    by_shell: bool

    def command(self, words: Sequence[Word]) -> None:
        start = 0
        while start < len(words) and (words[start].text in RESERVED or _ASSIGNMENT.match(words[start].text)):
            start += 1
        words = words[start:]
        if not words or (self.by_shell and words[0].text in _NOT_A_COMMAND):
            return
        if words[0].filled:
            raise self._as_program()
        self._run(words)

    def _run(self, words: Sequence[Word]) -> None:
        program, arguments = words[0], words[1:]
        if self.by_shell:
            self._builtin(program.text, arguments)
        if program.installed in _PARSE_AGAIN and any(word.filled for word in arguments):
            raise ValueError(
                f"a placeholder is an argument of `{program.installed}`, which parses it again, so its value could run "
                f"as a command; use stdin: a command without {{PROMPT}} and {{PROMPT_FILE}} gets the prompt there"
            )
        if program.installed in _RUN_STDIN:
            raise ValueError(f"`{program.installed}` cannot be used together with placeholders: it runs what it reads")
        if interpreter := _interpreter(program.name):
            self._code(program.name, interpreter, arguments)
        elif program.installed in _WRAPPERS:
            self._wrapped(program.installed, arguments)
        else:
            self._hidden(program, arguments)

    def _builtin(self, name: str, arguments: Sequence[Word]) -> None:
        if name in ("eval", "alias"):
            raise ValueError(f"`{name}` cannot be used together with placeholders: values could run as code")
        if name in _BUILTINS and any(word.filled for word in arguments):
            raise ValueError(
                f"a placeholder is an argument of `{name}`, which evaluates it, so its value could run as code"
            )
        if name in _ASSIGNING and any(word.filled and not _ASSIGNMENT.match(word.text) for word in arguments):
            raise ValueError(
                f"a placeholder is the name of a variable after `{name}`; write `{name} NAME={self.placeholder}`"
            )
        if name == "printf" and any(word.filled for word in arguments[: 2 if _is(arguments, "-v") else 1]):
            raise ValueError(f"a placeholder is the format of `printf`; write `printf '%s' {self.placeholder}`")
        if name in ("test", "["):
            for before, word in pairwise(arguments):
                if word.filled and (before.filled or before.text in ("-v", "-R")):
                    raise ValueError(
                        f"`{name}` could take the value of a placeholder for an operator; compare it with `=`"
                    )

    def _wrapped(self, wrapper: str, arguments: Sequence[Word]) -> None:
        """The command that `env`, `timeout` and the like run: it begins at the first word that is a known program."""
        known = _PARSE_AGAIN | _RUN_STDIN | _WRAPPERS | _OTHERS | ({"eval"} if self.by_shell else set())
        for index, word in enumerate(arguments):
            if _interpreter(word.name) or word.installed in known:
                if wrapper == "xargs" and any(_REPLACES.fullmatch(earlier.text) for earlier in arguments[:index]):
                    raise ValueError(
                        f"`xargs -I` inserts what it reads into the arguments of `{word.name}`, where it could run as "
                        f"code; leave out -I, so that it is an argument of its own"
                    )
                self._run(arguments[index:])
                return
        operand = next((w for w in arguments if not w.text.startswith("-") and not _ASSIGNMENT.match(w.text)), None)
        split = any(word.text.startswith(("-S", "--split-string")) for word in arguments)
        if (operand is not None and operand.filled) or (split and any(word.filled for word in arguments)):
            raise self._as_program()

    def _hidden(self, program: Word, arguments: Sequence[Word]) -> None:
        """Code for an interpreter behind a program that is not known, or whose name the shell expands."""
        kinds = [_OTHER_CODE] if program.expanded or program.installed in _OTHERS else []
        for word, following in pairwise((*arguments, Word("", filled=False))):
            option, attached, _ = word.text.partition("=")
            for kind in kinds:
                if kind.fullmatch(option) and (word.filled if attached else following.filled):
                    raise self._as_code(option if program.expanded else f"{program.name} {option}", _SHELL, "sh")
            if interpreter := _interpreter(word.name):
                kinds.append(interpreter.code)

    def _code(self, program: str, interpreter: _Interpreter, arguments: Sequence[Word]) -> None:
        """The arguments of an interpreter. Only those after its script or its code may contain placeholders."""
        index, has_code = 0, False
        while index < len(arguments):
            word, following = arguments[index], arguments[index + 1 : index + 2]
            values = interpreter.values.get(word.text, 0)
            if interpreter.code.fullmatch(word.text):
                if following and (following[0].filled or following[0].expanded):
                    raise self._as_code(f"{program} {word.text}", interpreter, program)
                if interpreter.code_ends_options:
                    return
                has_code = True
                index += 2
            elif values:
                if not interpreter.takes_values and any(w.filled for w in arguments[index : index + values + 1]):
                    raise self._unclear(program, interpreter)
                has_code = has_code or word.text in ("-f", "--from-file")
                index += values + 1
            elif word.text[:1] in ("-", "+") and len(word.text) > 1 and not word.filled:
                if word.text == "-m" and interpreter is _PYTHON and following and not following[0].filled:
                    return
                known = word.text == "--" or interpreter.flags.fullmatch(word.text)
                if not known and any(w.filled for w in arguments[index:]):
                    raise self._unclear(program, interpreter)
                index += 1
            else:
                self._operand(program, interpreter, word, has_code=has_code)
                return
        if not has_code and not interpreter.program_first:
            raise ValueError(
                f"`{program}` reads its code from stdin, where the value of a placeholder could be part of it; "
                f"put the code into a file: `{program} FILE {self.placeholder}`"
            )

    def _operand(self, program: str, interpreter: _Interpreter, word: Word, *, has_code: bool) -> None:
        """The first operand of an interpreter: its code or its script, unless an option has given that."""
        if has_code:
            return
        if interpreter.program_first and word.filled:
            raise self._as_code(program, interpreter, program)
        if not interpreter.program_first and (word.filled or word.text == "-"):
            raise self._unclear(program, interpreter)

    def _as_program(self) -> ValueError:
        return ValueError(f"{self.placeholder} is where the program is named, so its value would choose what runs")

    def _as_code(self, what: str, interpreter: _Interpreter, program: str) -> ValueError:
        example = interpreter.example.format(program=program, placeholder=self.placeholder)
        variable = f"$AGENTV_{self.placeholder.strip('{}')}"
        return ValueError(
            f"a value would be part of the code of `{what}` and could run; use constant code in single quotes, and "
            f"pass the value as an argument, like `{example}`, or read the variable `{variable}`"
        )

    def _unclear(self, program: str, interpreter: _Interpreter) -> ValueError:
        example = interpreter.example.format(program=program, placeholder=self.placeholder)
        return ValueError(
            f"agentv cannot tell which argument of `{program}` is code; put placeholders after the script or the code, "
            f"like `{example}`"
        )


def _is(arguments: Sequence[Word], option: str) -> bool:
    return bool(arguments) and arguments[0].text == option


def _interpreter(name: str) -> _Interpreter | None:
    match = _VERSION.fullmatch(name)
    return _INTERPRETERS.get(match[1] if match else name)
