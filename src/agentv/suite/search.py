"""Searches for the programs and scripts of evaluators and targets when a run is planned."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentv.processes.programs import CommandProblem


class ProgramSearch:
    """Searches for what commands need, with the variables of a run. Equal commands are searched for once."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._problems: dict[tuple[tuple[str, ...], Path, str | None], CommandProblem | None] = {}

    def program(self, name: str) -> str:
        """The path of a program on PATH; its name if it is not found."""
        return shutil.which(name, path=self._variables.get("PATH", os.defpath)) or name

    def problem(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> CommandProblem | None:
        """Why the command certainly cannot run in this directory, with `env` added to the variables, or None."""
        from agentv.processes.programs import command_problem  # noqa: PLC0415 - most suites have no commands

        key = (tuple(argv), cwd, env.get("PATH"))
        if key not in self._problems:
            self._problems[key] = command_problem(argv, cwd, {**self._variables, **env})
        return self._problems[key]
