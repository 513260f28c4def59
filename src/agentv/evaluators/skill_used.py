"""`skill_used`: checks which skills of an agent were used, from its tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.json_values import WholeNumber
from agentv.messages import ToolCall
from agentv.results import Score
from agentv.suite.guidelines import glob_pattern
from agentv.suite.models import FileModel
from agentv.text import quoted

_IN_PATH = re.compile(r"(?<![\w-])skills[\\/]([^\\/\s\"']+)[\\/]")
_PATHS = ("file_path", "path")
LONGEST_OUTPUT = 1_000_000


class SkillCount(FileModel):
    """How often a skill must be used."""

    name: str | None = Field(None, min_length=1, description="Name of the skill.")
    pattern: str | None = Field(None, min_length=1, description="Names of skills, with `*` and `?`.")
    min: WholeNumber | None = Field(None, ge=0, description="Default: 1; 0 if `max` is set.")
    max: WholeNumber | None = Field(None, ge=0, description="Default: any number.")

    @model_validator(mode="after")
    def _names_skills(self) -> SkillCount:
        if (self.name is None) == (self.pattern is None):
            raise ValueError("needs one of `name` and `pattern`")
        return self

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            glob_pattern(pattern)
        return pattern

    @property
    def shown(self) -> str:
        return quoted(self.name or self.pattern or "")

    @property
    def least(self) -> int:
        return self.min if self.min is not None else int(self.max is None)

    def count(self, used: list[str]) -> int:
        """How many of these uses are of the skill."""
        if self.name is not None:
            return used.count(self.name)
        pattern = glob_pattern(self.pattern or "")
        return sum(pattern.fullmatch(name) is not None for name in used)


Skills = Annotated[str, Field(min_length=1)] | Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class SkillUsed(Evaluator):
    """Checks that skills were used: by a call of the tool `Skill`, or by reading a file in `skills/NAME/`."""

    WAITS = False

    type: Literal["skill_used"] = "skill_used"
    value: Skills | SkillCount = Field(
        description="The skill, a list of skills (all must be used), or `{name or pattern, min, max}`."
    )

    async def evaluate(self, context: EvaluationContext) -> Score:
        candidate = context.candidate
        calls = [call for message in candidate.output_messages for call in message.tool_calls]
        used = [name for call in calls for name in skills_of(call)]
        wanted = [self.value] if isinstance(self.value, SkillCount) else _each(self.value)
        hits, misses = [], []
        for each in wanted:
            count = each.count(used)
            words = f"{each.shown} was used {count} times" if count != 1 else f"{each.shown} was used once"
            if count < each.least:
                misses.append(f"{words}; expected at least {each.least}")
            elif each.max is not None and count > each.max:
                misses.append(f"{words}; expected at most {each.max}")
            else:
                hits.append(words)
        others = sorted(set(used))
        reasoning = f"skills used: {', '.join(others[:20])}" if others else "no skills were used"
        return Score(float(not misses), tuple(hits), tuple(misses), reasoning)


def _each(value: str | list[str]) -> list[SkillCount]:
    return [SkillCount(name=name) for name in ([value] if isinstance(value, str) else value)]


def skills_of(call: ToolCall) -> Iterator[str]:
    """The skills that a call uses, by whole names. Each name once."""
    names: dict[str, None] = {}
    arguments = call.input if isinstance(call.input, Mapping) else {}
    tool = call.tool.lower()
    if tool == "skill" and isinstance(named := arguments.get("skill"), str):
        names[named.rpartition(":")[2]] = None
        names[named] = None
    if tool == "read":
        for key in _PATHS:
            if isinstance(path := arguments.get(key), str):
                names.update(dict.fromkeys(_IN_PATH.findall(path)))
    if call.output is not None:
        names.update(dict.fromkeys(_IN_PATH.findall(_text(call.output)[:LONGEST_OUTPUT])))
    yield from names


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    try:
        return json.dumps(output, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""
