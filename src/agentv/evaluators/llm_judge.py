"""`llm_judge`: a model grades the answer, with or without rubrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Need
from agentv.evaluators.llm.ask import Question, ask_judge
from agentv.evaluators.llm.prompt import (
    VARIABLES,
    VERDICT_SCHEMA,
    WHOLE_PROMPT,
    check_prompt,
    doubts,
    own_variables,
    question_for,
    system_prompt,
)
from agentv.evaluators.llm.render import rendered
from agentv.evaluators.llm.reply import JudgeVerdict, read_verdict
from agentv.evaluators.prompt_script import PromptScript
from agentv.evaluators.rubric import AsksJudge, RubricList, checked, judge_by_rubrics, named
from agentv.regular_files import FileUnusableError, as_text, read_regular
from agentv.results import Score
from agentv.suite.files import FileMissingError
from agentv.suite.search import ProgramSearch
from agentv.suite.suite import Rubric
from agentv.suite.yaml import NodePath
from agentv.text import quoted

MAX_PROMPT_BYTES = 1024 * 1024
LONGEST_PATH = 4_096
_SUFFIX = re.compile(r"\.(?:md|markdown|txt|text|j2|jinja2?|prompt|prompty|tmpl|mustache|hbs|liquid|rst|ya?ml|json)$")


class LlmJudge(AsksJudge):
    """A judge model grades the answer from 0 to 1: by your prompt, your rubrics or the expected outcome of the case."""

    FILES = ("prompt",)
    TEMPLATES = ("prompt",)

    type: Literal["llm_judge"] = "llm_judge"
    prompt: str | PromptScript | None = Field(
        None,
        description="Custom prompt with variables: inline text or a file path; or `{command: [...], config: {...}}`, a "
        "script that prints the whole prompt. Default: the built-in prompt.",
    )
    rubrics: RubricList | None = Field(
        None,
        description="Criteria as for `rubric`: strings or `{id, description, weight, required}`.",
    )
    _ready: str | None = PrivateAttr(default=None)
    """The text of the prompt after it was loaded and checked."""

    @field_validator("prompt")
    @classmethod
    def _says_something(cls, prompt: str | PromptScript | None) -> str | PromptScript | None:
        if isinstance(prompt, str) and not prompt.strip():
            raise ValueError("must not be empty; remove it to use the default prompt")
        return prompt

    @field_validator("rubrics")
    @classmethod
    def _are_distinct(cls, rubrics: RubricList | None) -> RubricList | None:
        return None if rubrics is None else checked(rubrics)

    def variables_used(self) -> frozenset[str]:
        return own_variables(self.prompt) if isinstance(self.prompt, str) else frozenset()

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | ({Need.SCRIPTS} if isinstance(self.prompt, PromptScript) else frozenset())

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        return self.prompt.not_found(self.name, directory, search) if isinstance(self.prompt, PromptScript) else {}

    def depends_on(self, directory: Path) -> list[Path]:
        del directory
        return [Path(self.prompt.command[-1])] if isinstance(self.prompt, PromptScript) else []

    def criteria(self) -> tuple[Rubric, ...]:
        return () if self.rubrics is None else named(self.rubrics)

    def load_files(self, find_file: Callable[[str], Path]) -> LlmJudge:
        """Return this evaluator with the path of a prompt file replaced by its text."""
        if self.prompt is None:
            return self
        if isinstance(self.prompt, PromptScript):
            return self.model_copy(update={"prompt": self.prompt.located(find_file)})
        text = prompt_text(self.prompt, find_file)
        loaded = self.model_copy(update={"prompt": text})
        loaded._ready = text  # noqa: SLF001 - its own copy
        return loaded

    async def evaluate(self, context: EvaluationContext) -> Score:
        printed = await self.prompt.prompt(self.name, context) if isinstance(self.prompt, PromptScript) else None
        prompt = WHOLE_PROMPT if printed is not None else self._checked_prompt()
        if self.rubrics is not None:
            score = await judge_by_rubrics(self, self.criteria(), context, prompt, printed=printed)
            return replace(score, warnings=(*score.warnings, *doubts(prompt, (*VARIABLES, *context.case.vars))))
        question: Question[JudgeVerdict] = Question(
            await rendered(question_for, context, prompt) if printed is None else printed,
            system_prompt(prompt=prompt),
            VERDICT_SCHEMA,
            read_verdict,
        )
        verdict, ledger = await ask_judge(
            self.name, question, context, judge_target=self.judge_target, timeout_seconds=self.timeout_seconds
        )
        judge = {**ledger, "repaired": verdict.repaired}
        return Score(
            verdict.score,
            verdict.hits,
            verdict.misses,
            verdict.reasoning,
            warnings=doubts(prompt, (*VARIABLES, *context.case.vars)),
            judge=judge,
        )

    def _checked_prompt(self) -> str | None:
        if not isinstance(self.prompt, str) or self._ready is not None:
            return self._ready
        # This evaluator was created in Python, not by a suite, so a path cannot be resolved.
        try:
            _refuse_path(self.prompt)
            check_prompt(self.prompt)
        except ValueError as error:
            raise EvaluatorError(
                f"invalid prompt of the evaluator '{self.name}': {error}",
                next_step="To use a file, call `load_files(find_file)` first, or pass the text of the file.",
            ) from None
        return self.prompt


def prompt_text(prompt: str, find_file: Callable[[str], Path], variables: Sequence[str] = VARIABLES) -> str:
    """Return the text of a suite's prompt, which may be the path of a file. Raises ValueError if it is invalid."""
    path = _file(prompt, find_file)
    if path is None:
        check_prompt(prompt, variables)
        return prompt
    try:
        text = _read(path)
        check_prompt(text, variables)
    except ValueError as error:
        raise ValueError(f"{quoted(prompt)}: {error}") from None
    return text


def _file(prompt: str, find_file: Callable[[str], Path]) -> Path | None:
    """Return the file if the prompt is the path of one. A line that looks like a path must be an existing file."""
    line = prompt.strip()
    if "\n" in line:
        return None
    try:
        return find_file(line)
    except FileMissingError:
        if _looks_like_a_path(line):
            raise
        return None


def _looks_like_a_path(line: str) -> bool:
    if len(line) > LONGEST_PATH:
        return False
    if line.startswith(("./", "../", "/", "~/")):
        return True
    return not re.search(r"\s", re.sub(r"\{\{.*?\}\}", "", line)) and (
        "/" in line or bool(_SUFFIX.search(line.lower()))
    )


def _refuse_path(prompt: str) -> None:
    if "\n" not in prompt.strip() and _looks_like_a_path(prompt.strip()):
        raise ValueError(f"{quoted(prompt)} looks like a path, but the directory to search is not known")


def _read(path: Path) -> str:
    try:
        text = as_text(read_regular(path, MAX_PROMPT_BYTES))
    except FileUnusableError as error:
        raise ValueError(f"{path} {error}") from None
    if not text.strip():
        raise ValueError(f"{path} is empty")
    return text
