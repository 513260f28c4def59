"""Prompts that a script prints, in place of a text with variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from agentv.command import split_command
from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext
from agentv.evaluators.scripted import payload_of
from agentv.scripts import ScriptSpec, run_for_text
from agentv.suite.files import FileReferenceError
from agentv.suite.models import FileModel, read_aliases
from agentv.suite.search import ProgramSearch


class PromptScript(FileModel):
    """A script that reads the payload of a judge script and prints a prompt."""

    ALIASES: ClassVar[Mapping[str, str]] = {"script": "command"}

    command: list[str] = Field(
        min_length=1, description="Command to run. Its last word may be a file, which is then found like other files."
    )
    config: dict[str, Any] | None = Field(None, description="Mapping passed to the script unchanged.")
    timeout_seconds: float = Field(60.0, gt=0, description="Timeout of the script.")

    @model_validator(mode="before")
    @classmethod
    def _read_aliases(cls, data: Any) -> Any:
        return read_aliases(data, cls.ALIASES)

    @field_validator("command", mode="before")
    @classmethod
    def _as_words(cls, command: Any) -> Any:
        if isinstance(command, str):
            return split_command(command)
        return command

    def located(self, find_file: Callable[[str], Path]) -> PromptScript:
        """The script with the path of its file, if its last word is one."""
        try:
            path = find_file(self.command[-1])
        except FileReferenceError:
            return self
        return self.model_copy(update={"command": [*self.command[:-1], str(path)]})

    def spec(self, name: str, directory: Path) -> ScriptSpec:
        """The script of the evaluator `name`. It runs in the directory of its file."""
        path = Path(self.command[-1])
        cwd = path.parent if path.is_absolute() else directory
        return ScriptSpec(name=name, argv=self.command, cwd=cwd, timeout=self.timeout_seconds)

    def not_found(self, name: str, directory: Path, search: ProgramSearch) -> Mapping[tuple[str | int, ...], str]:
        """The program or the file that does not exist, if the script certainly cannot run without it."""
        spec = self.spec(name, directory)
        problem = search.problem(spec.argv, spec.cwd, {})
        if problem is None:
            return {}
        return {("prompt", "command") if problem.word is None else ("prompt", "command", problem.word): problem.message}

    async def prompt(self, name: str, context: EvaluationContext) -> str:
        """The prompt for an answer."""
        if context.runtime is None:
            raise EvaluatorError(f"the evaluator '{name}' cannot start its script outside of a run")
        spec = self.spec(name, context.directory or Path.cwd())
        payload = {**payload_of(context, self.config), "answer": context.candidate.answer}
        return await run_for_text(spec, payload, context.runtime)
