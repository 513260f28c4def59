"""`llm_judge`: a model grades the answer, in its own words or by rubrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext
from agentv.evaluators.llm.ask import Question, ask_judge
from agentv.evaluators.llm.prompt import (
    VARIABLES,
    VERDICT_SCHEMA,
    check_prompt,
    doubts,
    question_for,
    system_prompt,
)
from agentv.evaluators.llm.reply import JudgeVerdict, read_verdict
from agentv.evaluators.rubric import AsksJudge, RubricList, checked, judge_by_rubrics, named
from agentv.evaluators.text import quoted
from agentv.results import Score

MAX_PROMPT_BYTES = 1024 * 1024
_SUFFIX = re.compile(r"\.(?:md|markdown|txt|text|j2|jinja2?|prompt|prompty|tmpl|mustache|hbs|liquid|rst|ya?ml|json)$")


class LlmJudge(AsksJudge):
    """A judge grades the answer from 0 to 1, by your prompt, by your rubrics, or by what the case expects."""

    FILES = ("prompt",)

    type: Literal["llm_judge"] = "llm_judge"
    prompt: str | None = Field(
        None, description="What to ask instead of the default prompt: text with variables, or the path of its file."
    )
    rubrics: RubricList | None = Field(
        None,
        description="Criteria to check one by one, as for `rubric`: texts, or `{id, description, weight, required}`.",
    )
    _ready: str | None = PrivateAttr(default=None)
    """The text of the prompt, once it was found and checked."""

    @field_validator("prompt")
    @classmethod
    def _says_something(cls, prompt: str | None) -> str | None:
        if prompt is not None and not prompt.strip():
            raise ValueError("an empty prompt asks nothing; leave it out to use the default prompt")
        return prompt

    @field_validator("rubrics")
    @classmethod
    def _can_be_told_apart(cls, rubrics: RubricList | None) -> RubricList | None:
        return None if rubrics is None else checked(rubrics)

    def load_files(self, find_file: Callable[[str], Path]) -> LlmJudge:
        """The same with the text of its prompt, read from its file when it is the path of one."""
        if self.prompt is None:
            return self
        text = prompt_text(self.prompt, find_file)
        loaded = self.model_copy(update={"prompt": text})
        loaded._ready = text  # noqa: SLF001 - its own copy
        return loaded

    async def evaluate(self, context: EvaluationContext) -> Score:
        prompt = self._checked_prompt()
        if self.rubrics is not None:
            score = await judge_by_rubrics(self, named(self.rubrics), context, prompt)
            return replace(score, warnings=(*score.warnings, *doubts(prompt)))
        question: Question[JudgeVerdict] = Question(
            question_for(context, prompt),
            system_prompt(prompt=prompt),
            VERDICT_SCHEMA,
            read_verdict,
        )
        said, ledger = await ask_judge(
            self.name, question, context, judge_target=self.judge_target, timeout_seconds=self.timeout_seconds
        )
        judge = {**ledger, "repaired": said.repaired}
        return Score(said.score, said.hits, said.misses, said.reasoning, warnings=doubts(prompt), judge=judge)

    def _checked_prompt(self) -> str | None:
        if self.prompt is None or self._ready is not None:
            return self._ready
        # Made in Python and never part of a suite: there are no files to look for.
        try:
            _refuse_path(self.prompt)
            check_prompt(self.prompt)
        except ValueError as error:
            raise EvaluatorError(
                f"the prompt of the evaluator '{self.name}' cannot be used: {error}",
                next_step="To use a file, call `load_files(find_file)` first, or give its text.",
            ) from None
        return self.prompt


def prompt_text(prompt: str, find_file: Callable[[str], Path], variables: Sequence[str] = VARIABLES) -> str:
    """The text that a prompt of a suite means: that of a file, or its own. ValueError says what is wrong with it."""
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
    """One line that leads to a file is that file; one that looks like a path must lead to one."""
    line = prompt.strip()
    if "\n" in line:
        return None
    try:
        return find_file(line)
    except ValueError as error:
        if _looks_like_a_path(line) or not str(error).startswith("there is no file"):
            raise
        return None


def _looks_like_a_path(line: str) -> bool:
    if line.startswith(("./", "../", "/", "~/")):
        return True
    return not re.search(r"\s", re.sub(r"\{\{.*?\}\}", "", line)) and (
        "/" in line or bool(_SUFFIX.search(line.lower()))
    )


def _refuse_path(prompt: str) -> None:
    if "\n" not in prompt.strip() and _looks_like_a_path(prompt.strip()):
        raise ValueError(f"{quoted(prompt)} looks like a path, and nothing says where to look for it")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_PROMPT_BYTES:
        raise ValueError(f"{path} is larger than {MAX_PROMPT_BYTES // 2**20} MiB, too much for a prompt")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if not text.strip():
        raise ValueError(f"{path} is empty")
    return text
