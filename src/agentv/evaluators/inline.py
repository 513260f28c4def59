"""Base of `python` and `javascript`: checks whose code is in the suite, or a function in a file next to it.

A runner process serves many checks as a JSON Lines script, so it is supervised, limited and given judge access exactly
like a judge script. agentv itself never runs the code.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import ConfigDict, Field, PrivateAttr, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import Complain, EvaluationContext
from agentv.evaluators.scripted import Scripted, judge_as_written
from agentv.judge.access import read_access
from agentv.scripts import ScriptSpec
from agentv.text import quoted

LONGEST_LABEL = 80
MAX_CHARACTERS = 20_000
PREFIX = "file://"
_QUOTED_FIELD = re.compile(
    r"""(["'`])\{\{ *(?P<name>input|question|answer|output|reference_answer|expected_outcome) *\}\}\1"""
)
"""A string in the code that would be a value elsewhere in the suite. Here, it would only be these characters."""


class Reference(NamedTuple):
    """A function in a file or in a module, as named by `value`."""

    function: str
    file: str | None = None
    module: str | None = None


class InlineCheck(Scripted):
    """A check in one line of code, a function body, or a function in a file."""

    model_config = ConfigDict(json_schema_extra=judge_as_written)
    FILES = ("value",)
    TEMPLATES = ("value",)  # code: values are never part of it

    value: str = Field(
        description="An expression, a function body with `return`, or a function in a file (`checks.py:function`)."
    )
    timeout_seconds: float = Field(30.0, gt=0, description="Timeout for the check of one answer.")
    _file: Path | None = PrivateAttr(default=None)

    @classmethod
    @abstractmethod
    def reference_in(cls, value: str) -> Reference | None:
        """The function that `value` names; None if it is code."""

    @classmethod
    def in_code(cls, name: str) -> str:
        """The name in the code of a field of the case."""
        return name

    @classmethod
    def check_source(cls, source: str) -> None:
        """Raises ValueError if the code is invalid. Default: it is checked elsewhere."""
        del source

    @abstractmethod
    def check_file(self, path: Path, reference: Reference) -> None:
        """Raises ValueError if the file certainly has no such function."""

    @abstractmethod
    def runner(self) -> list[str]:
        """The command of the process that runs checks."""

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """Return the options with judge access under `judge`."""
        options = dict(raw)
        access = read_access(options, complain)
        if access is not None:
            options["judge"] = dict(access)
        return options

    @field_validator("value")
    @classmethod
    def _is_code_or_a_function(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be empty; write an expression like `len(answer) < 400`")
        if len(value) > MAX_CHARACTERS:
            raise ValueError(
                f"must have at most {MAX_CHARACTERS:,} characters, got {len(value):,}; move the code to a file"
            )
        if "\0" in value:
            raise ValueError("must not contain NUL characters")
        if cls.reference_in(value) is None:
            if (quoted_field := _QUOTED_FIELD.search(value)) is not None:
                name = cls.in_code(quoted_field["name"])
                raise ValueError(
                    f"values are not inserted into code: use the name `{name}` instead of {quoted_field[0]}"
                )
            cls.check_source(value)
        return value

    def load_files(self, find_file: Callable[[str], Path]) -> Self:
        """Return this evaluator with the path of its file, which must contain the function."""
        reference = self.reference_in(self.value)
        if reference is None or reference.file is None:
            return self
        path = find_file(reference.file)
        self.check_file(path, reference)
        loaded = self.model_copy()
        loaded._file = path  # noqa: SLF001 - its own copy
        return loaded

    def spec(self, directory: Path) -> ScriptSpec:
        """The runner, one per file, so that a changed file gets a new process."""
        return ScriptSpec(
            name=self.name,
            argv=[*self.runner(), *([] if self._file is None else [str(self._file)])],
            cwd=directory,
            env=self.env,
            timeout=self.timeout_seconds,
            protocol="jsonl",
            inline=True,
        )

    def _check(self) -> dict[str, Any]:
        """What the runner needs to know about the check."""
        reference = self.reference_in(self.value)
        label = " ".join(self.value.split()).removeprefix(PREFIX if reference else "")
        shown = quoted(label, LONGEST_LABEL)[1:-1]
        check: dict[str, Any] = {"label": f"`{shown}`", "threshold": self.threshold}
        if reference is None:
            return {**check, "source": self.value}
        if reference.module is not None:
            return {**check, "module": reference.module, "function": reference.function}
        if self._file is None:
            raise EvaluatorError(
                f"the file {quoted(reference.file or '')} has not been loaded",
                next_step="Call `load_files(find_file)` first.",
            )
        return {**check, "file": str(self._file), "function": reference.function}

    @property
    def shown(self) -> str:
        return f"{self.type}: {' '.join(self.value.split())}"

    def depends_on(self, directory: Path) -> list[Path]:
        """The file with the function."""
        del directory
        return [] if self._file is None else [self._file]

    def payload(self, context: EvaluationContext) -> dict[str, Any]:
        return {**super().payload(context), "check": self._check()}
