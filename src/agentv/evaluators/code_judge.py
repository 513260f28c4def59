"""`code_judge`: runs a judge script, written in any language.

The script reads JSON from stdin and writes JSON to stdout. With judge access it can call the judge target through a
local proxy, without ever seeing a credential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator

from agentv.command import runs_python, split_command
from agentv.errors import EvaluatorError
from agentv.evaluators.base import Complain
from agentv.evaluators.scripted import Scripted, judge_as_written
from agentv.interpreters.interpreter import Interpreter, NoInterpreterError, locate
from agentv.interpreters.requirements import Packages, as_list, check_python, file_of, packages_of
from agentv.judge.access import read_access
from agentv.scripts import ScriptSpec, working_directories, working_directory
from agentv.suite.search import ProgramSearch
from agentv.suite.yaml import NodePath
from agentv.text import is_typo

_OPTIONS = (
    "script",
    "cwd",
    "timeout_seconds",
    "judge",
    "use_judge_provider",
    "judge_provider",
    "target",
    "env",
    "config",
    "warm",
    "protocol",
    "on",
    "python",
    "score_from_exit_code",
)
_COMMON = ("name", "type", "weight", "required", "threshold", "negate")


def as_written(schema: dict[str, Any]) -> None:
    """Extend the JSON Schema for editors: a suite can use more forms than the fields accept."""
    options = schema["properties"]
    words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    options["script"] = {"anyOf": [{"type": "string"}, words], "description": options["script"]["description"]}
    judge_as_written(schema)
    options["use_judge_provider"] = {"type": "boolean", "description": "Alias: `true` is the same as `judge: {}`."}
    schema["additionalProperties"] = True


class ScriptEvaluator(Scripted):
    """Base of evaluators whose options name a script."""

    INHERITS: ClassVar[tuple[str, ...]] = ("warm", "python")
    FILES: ClassVar[tuple[str, ...]] = ("python",)

    script: list[str] = Field(
        description="Command to run: a list, or a string that is split like in a POSIX shell (no shell is started)."
    )
    cwd: str | None = Field(
        None,
        description="Working directory, relative to the suite's directory or one of its parents in the repository.",
    )
    warm: bool = Field(
        default=False,
        description="Python only: fork each execution from a process that has already imported the modules.",
    )

    protocol: Literal["json", "jsonl"] = Field(
        "json",
        description="`jsonl`: one long-running process reads one payload per line and prints one result per line.",
    )

    python: str | list[str] | None = Field(
        None,
        description="Python for a script that starts with `python`: an interpreter (a path, or a program on PATH), a "
        "list of requirements that agentv installs once, or a requirements file (`.txt`). Default: that of agentv.",
    )
    score_from_exit_code: bool = Field(
        default=False,
        description="Accept a script that prints no JSON: its score is 1 if it exits with code 0, and 0 if it exits "
        "with another code and an empty stderr.",
    )
    _packages: Packages | None = PrivateAttr(default=None)

    @field_validator("python")
    @classmethod
    def _is_an_interpreter_or_requirements(cls, python: str | list[str] | None) -> str | list[str] | None:
        if python is not None:
            check_python(python)
        return python

    @model_validator(mode="after")
    def _can_use_the_python(self) -> Self:
        if self.python is not None and (problem := python_problem(self.script, self.on)) is not None:
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _can_be_combined(self) -> Self:
        if self.warm and self.protocol == "jsonl":
            raise ValueError("`warm` and `protocol: jsonl` cannot be combined; use only one of them")
        if self.score_from_exit_code and self.protocol == "jsonl":
            raise ValueError("`score_from_exit_code` and `protocol: jsonl` cannot be combined; use only one of them")
        return self

    @field_validator("script")
    @classmethod
    def _has_a_program(cls, script: list[str]) -> list[str]:
        if not script or not script[0].strip():
            raise ValueError("must name a program, like `[python, judges/precision.py]`")
        if any("\0" in word for word in script):
            raise ValueError("must not contain NUL characters")
        return script

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """Return the options with judge access under `judge` and every unknown key under `config`."""
        options = dict(raw)
        if isinstance(options.get("script"), str):
            try:
                options["script"] = split_command(options["script"])
            except ValueError as error:
                complain("script", f"`script`: {error}; to use a shell, write `[sh, -c, '...']`")
                options |= {"script": ["-"], "python": None}
        access = read_access(options, complain)
        if access is not None:
            options["judge"] = dict(access)
        _gather_config(options, complain)
        return options

    @classmethod
    def inherited(cls, defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults of the suite: `python` only for scripts that start with `python`."""
        own = super().inherited(defaults, options)
        if not runs_python(options.get("script")):
            own.pop("python", None)
        return own

    def load_files(self, find_file: Callable[[str], Path]) -> Self:
        """Return this evaluator with the contents of its requirement files."""
        listed = None if self.python is None else as_list(self.python)
        if listed is None:
            return self
        loaded = self.model_copy()
        loaded._packages = packages_of(listed, find_file)  # noqa: SLF001 - its own copy
        return loaded

    def depends_on(self, directory: Path) -> list[Path]:
        """Files named in the command, such as the script itself."""
        cwd = working_directory(directory, self.cwd)
        sources = () if self._packages is None else self._packages.sources
        return [*(path for path in (cwd / word for word in self.script) if _is_file(path)), *map(Path, sources)]

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        """The directory, the program or the script file, if the command certainly cannot run without it."""
        try:
            own = self.interpreter(directory)
        except NoInterpreterError as error:
            return {("python",): f"`python`: {error}"}
        # An environment of agentv is installed when the suite is run.
        argv = self.script if own is None or own.packages is not None else [own.executable, *self.script[1:]]
        env = self.env if isinstance(self.env, Mapping) else {}
        problem = search.problem(argv, working_directory(directory, self.cwd), env)
        if problem is None:
            return {}
        return {("cwd",) if problem.word is None else ("script", problem.word): problem.message}

    def interpreter(self, directory: Path) -> Interpreter | None:
        """The interpreter that `python` names; None for that of agentv. Raises NoInterpreterError if there is none."""
        if self.python is None or not runs_python(self.script):
            return None
        listed = as_list(self.python)
        if listed is None:
            path = self.env.get("PATH") if isinstance(self.env, dict) else None
            return Interpreter(locate(str(self.python), working_directories(directory, self.cwd), path))
        from agentv.interpreters.cache import executable_of  # noqa: PLC0415 - few suites list requirements

        packages = self._packages
        if packages is None:
            if any(map(file_of, listed)):
                raise EvaluatorError(
                    "the requirements file of `python` has not been loaded",
                    next_step="Call `load_files(find_file)` first.",
                )
            packages = packages_of(listed, Path)
        return Interpreter(executable_of(packages), packages)

    def interpreters(self, directory: Path) -> list[tuple[str, Interpreter]]:
        try:
            own = self.interpreter(directory)
        except NoInterpreterError as error:
            own = Interpreter(str(self.python), problem=error.message)
        return [] if own is None else [(self.name, own)]

    def spec(self, directory: Path) -> ScriptSpec:
        """The script to run for a suite in this directory."""
        own = self.interpreter(directory)
        return ScriptSpec(
            name=self.name,
            argv=self.script if own is None else [own.executable, *self.script[1:]],
            interpreter=own,
            cwd=working_directory(directory, self.cwd),
            env=self.env,
            timeout=self.timeout_seconds,
            protocol=self.protocol,
            warm=self.warm,
            score_from_exit_code=self.score_from_exit_code,
        )


def python_problem(script: list[str], on: str | None) -> str | None:
    """Why the `python` of an evaluator cannot be used with its other options; None if it can."""
    if not runs_python(script):
        return (
            f"`python` replaces the first word of a script that starts with `python`, but `script` starts with "
            f"`{script[0]}`; remove one of them, or write `script: [python, ...]`"
        )
    if on == "nodes":
        return (
            "`python` and `on: nodes` cannot be combined: nodes have their own Python; remove `on: nodes` to run the "
            "script on this machine, or install the packages for the Python that runs agentv on the nodes"
        )
    return None


class CodeJudge(ScriptEvaluator):
    """Judges the answer with a script."""

    model_config = ConfigDict(json_schema_extra=as_written)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # for example, too long for a file name, or in an unreadable directory
        return False


def _gather_config(options: dict[str, Any], complain: Complain) -> None:
    """Move unknown keys to `config`, for the script. Keys that look like a typo of an option are reported."""
    config = options.get("config")
    for key in [key for key in options if key not in _OPTIONS and key not in _COMMON]:
        value = options.pop(key)
        near = next((option for option in (*_OPTIONS, *_COMMON) if is_typo(key, option)), None)
        if near is not None:
            complain(key, f"unknown key `{key}` (did you mean `{near}`?); to pass it to the script, put it in `config`")
        elif isinstance(config, dict) and key in config:
            complain(key, f"`{key}` is set here and in `config`; keep only one of them")
        elif config is None or isinstance(config, dict):
            config = {**(config or {}), key: value}
            options["config"] = config
