"""The `replay` provider: returns recorded answers from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from agentv.errors import ProviderError, TargetUnavailableError, UsageError
from agentv.messages import whole_text
from agentv.suite.search import ProgramSearch
from agentv.suite.yaml import NodePath
from agentv.targets.answers import Answer, load_answers
from agentv.targets.provider import Provider, Reply, Request, TargetScope, TargetSettings
from agentv.text import first_difference, plural


class ReplaySettings(TargetSettings):
    """Settings of a `replay` target."""

    file: str = Field(
        min_length=1,
        description="JSON Lines file with `eval_id` and `candidate_answer` or `output_messages`.",
    )
    from_target: str | None = Field(None, description="Replay only answers of this target.")

    def path(self, directory: Path) -> Path:
        """The file, relative to the directory of the configuration."""
        return directory / Path(self.file).expanduser()

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        del search
        path = self.path(directory)
        return {} if path.exists() else {("file",): f"there is no file '{self.file}' in {directory}"}


class ReplayProvider(Provider):
    """Answers from a file. A case without an answer in the file is an error."""

    Settings: ClassVar[type[TargetSettings]] = ReplaySettings
    cacheable = False  # free, and the file may change

    def __init__(self, settings: ReplaySettings, scope: TargetScope) -> None:
        self._target, self._from = scope.name, settings.from_target
        self._redactor = scope.redactor
        try:
            self._answers = load_answers(settings.path(scope.directory))
        except UsageError as error:
            raise TargetUnavailableError(scope.name, str(error)) from error
        targets = self._answers.targets
        if self._from is not None and targets and self._from not in targets:
            raise TargetUnavailableError(
                scope.name,
                f"{self._answers.path} contains no answers of target '{self._from}' (`from_target`), "
                f"only of {', '.join(sorted(targets))}",
            )

    async def invoke(self, request: Request) -> Reply:
        answer = self._answers.find(request.eval_id, self._from, request.attempt, prompt=request.prompt)
        if answer is None:
            raise self._miss(request)
        if request.turn:
            return self._turn(answer, request)
        return Reply(
            answer.output_messages,
            token_usage=answer.token_usage,
            cost_usd=answer.cost_usd,
            duration_ms=answer.duration_ms,
            finish_reason=answer.finish_reason,
            model=answer.model,
            recorded=True,
        )

    def _turn(self, answer: Answer, request: Request) -> Reply:
        """The recorded answer to one turn of a conversation. Other messages than the recorded ones are an error."""
        number = request.turn
        if number > len(answer.turns):
            raise ProviderError(
                f"target '{self._target}': the answer in line {answer.line} of {self._answers.path} has "
                f"{plural(len(answer.turns), 'turn')}, not {number}",
                next_step="Record the conversation again with the real target.",
            )
        turn = answer.turns[number - 1]
        recorded = [whole_text(message) for message in turn.input_messages if message.role != "system"]
        asked = [self._redactor.text(whole_text(message)) for message in request.turns[-len(recorded) :]]
        if recorded and asked != recorded:
            raise ProviderError(
                f"target '{self._target}': the answer in line {answer.line} of {self._answers.path} was given to other "
                f"messages: turn {number} {first_difference(chr(10).join(recorded), chr(10).join(asked))}",
                next_step="Record the conversation again with the real target.",
            )
        return Reply(
            turn.output_messages,
            token_usage=turn.token_usage,
            cost_usd=turn.cost_usd,
            duration_ms=turn.duration_ms,
            finish_reason=turn.finish_reason,
            model=turn.model,
            recorded=True,
        )

    def _miss(self, request: Request) -> ProviderError:
        source = f" from target '{self._from}'" if self._from else ""
        missing = (
            f"target '{self._target}': {self._answers.path} contains no answer{source} "
            f"to '{request.eval_id}', attempt {request.attempt}"
        )
        failed = self._answers.failure(request.eval_id, self._from, request.attempt, prompt=request.prompt)
        if failed is not None:
            return ProviderError(
                f"{missing}: the recorded call had failed (line {failed.line}: {failed.failure})",
                next_step="Record the answer again with the real target.",
            )
        if request.eval_id in self._answers.ids:
            return ProviderError(
                missing,
                next_step="The file has this id with another target or attempt: see `from_target` and `--repeat`.",
            )
        return ProviderError(
            missing, next_step="Record an answer with the real target, or select other cases with `--case`."
        )
