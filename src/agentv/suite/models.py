"""The format of a suite file: the models behind validation and `agentv schema`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class FileModel(BaseModel):
    """Base of the models of file formats. Strict: no unknown keys, no silent conversions."""

    # Built on first use: most files need only a few of the models.
    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


Tag = Annotated[str, Field(min_length=1)]
Tags = Tag | list[Tag]


class ToolCallModel(FileModel):
    """One tool call of an assistant message."""

    tool: str = Field(min_length=1)
    input: Any = None
    output: Any = None
    id: str | None = None
    timestamp: str | None = None


class MessageModel(FileModel):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Any = Field(
        None, description="A string, a list of parts (`{type: text, value}`, `{type: file, value}`), or an object."
    )
    name: str | None = None
    tool_calls: list[ToolCallModel] | None = None
    timestamp: str | None = None
    metadata: dict[str, Any] | None = None


def read_aliases(data: Any, aliases: Mapping[str, str]) -> Any:
    """The data with our names of keys. ValueError if two names of one key are there."""
    if not isinstance(data, dict) or aliases.keys().isdisjoint(data):
        return data
    seen: dict[str, str] = {}
    for key in data:
        ours = aliases.get(key, key)
        if ours in seen:
            raise ValueError(f"`{key}` and `{seen[ours]}` mean the same: keep one")
        seen[ours] = key
    return {ours: data[key] for ours, key in seen.items()}


class ScoreRangeModel(FileModel):
    """What an answer with a score in this range is like."""

    ALIASES: ClassVar[Mapping[str, str]] = {"expected_outcome": "outcome"}

    score_range: list[Annotated[int, Field(ge=0, le=10)]] = Field(
        min_length=2, max_length=2, description="First and last whole number of the range."
    )
    outcome: str = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _read_aliases(cls, data: Any) -> Any:
        return read_aliases(data, cls.ALIASES)


MOST_POINTS = 10
"""The best score of a criterion with score ranges."""


class RubricModel(FileModel):
    """One criterion of a rubric."""

    ALIASES: ClassVar[Mapping[str, str]] = dict.fromkeys(("outcome", "criteria", "expected_outcome"), "description")
    """Names of AgentV for our keys."""

    id: str | None = None
    description: str | None = Field(None, min_length=1)
    weight: float = Field(1.0, ge=0)
    required: bool = False
    operator: Literal["correctness", "contradiction"] | None = Field(
        None,
        description="`correctness`: satisfied only by clear support in the answer; `contradiction`: satisfied unless "
        "the answer says something incompatible.",
    )
    score_ranges: list[ScoreRangeModel] | dict[str, str] | None = Field(
        None,
        description="What each score from 0 to 10 means: `[{score_range: [0, 4], outcome: ...}, ...]`, or the lowest "
        "score of each range, like `{0: wrong, 5: incomplete, 8: correct}`. All criteria are then scored.",
    )
    min_score: float | None = Field(
        None, gt=0, le=1, description="Score 0 if this criterion gets less (0 to 1); with `score_ranges` only."
    )
    required_min_score: int | None = Field(
        None, ge=0, le=MOST_POINTS, description="The same from 0 to 10, as in older suites of AgentV."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_aliases(cls, data: Any) -> Any:
        return read_aliases(data, cls.ALIASES)

    @field_validator("score_ranges")
    @classmethod
    def _cover_all_scores(cls, ranges: Any) -> Any:
        if ranges is not None:
            points_of(ranges)
        return ranges

    @model_validator(mode="after")
    def _says_what_is_expected(self) -> Self:
        if self.description is None and self.score_ranges is None:
            raise ValueError("`description` is missing")
        if self.min_score is not None and self.required_min_score is not None:
            raise ValueError("`min_score` and `required_min_score` mean the same: keep one")
        return self


def points_of(ranges: list[ScoreRangeModel] | dict[str, str]) -> tuple[tuple[int, int, str], ...]:
    """The ranges as first score, last score and outcome. ValueError unless they cover 0 to 10 once."""
    if isinstance(ranges, dict):
        if not all(key.isdecimal() and int(key) <= MOST_POINTS for key in ranges):
            raise ValueError("must have whole numbers from 0 to 10 as keys, the lowest score of each range")
        starts = sorted((int(key), outcome) for key, outcome in ranges.items())
        ends = [*(start - 1 for start, _ in starts[1:]), MOST_POINTS]
        points = [(start, end, outcome) for (start, outcome), end in zip(starts, ends, strict=True)]
    else:
        points = sorted((each.score_range[0], each.score_range[1], each.outcome) for each in ranges)
    covered = [score for first, last, _ in points for score in range(first, last + 1)]
    if covered != list(range(MOST_POINTS + 1)):
        raise ValueError("must cover every score from 0 to 10 once")
    return tuple(points)


_STRATEGIES = {
    "pass_at_k": "`pass_if: any` with `stop_early: true`",
    "mean": "`pass_if: mean`",
    "confidence_interval": "`pass_if: mean` or `pass_if: all`: a lower bound is not supported",
}


class TrialsModel(FileModel):
    """Several attempts per case, which give one verdict."""

    count: int | None = Field(
        None, ge=1, description="Attempts per case and target; `--repeat` overrides it. Default: 1."
    )
    pass_if: Literal["any", "all", "majority", "mean"] | None = Field(
        None,
        description="The case passes if any attempt passes, all of them, more than half of them (`majority`), or if "
        "their mean score reaches the threshold (`mean`). Default: `majority`.",
    )
    stop_early: bool | None = Field(
        None, description="Do not run attempts that cannot change the verdict. Default: false."
    )

    @model_validator(mode="before")
    @classmethod
    def _explain_agentv(cls, data: Any) -> Any:
        """Explain the keys of the npm package AgentV."""
        if isinstance(data, dict) and "strategy" in data:
            written = data["strategy"] if isinstance(data["strategy"], str) else ""
            meaning = _STRATEGIES.get(written, f"`pass_if`, for example {_STRATEGIES['pass_at_k']} for `pass_at_k`")
            raise ValueError(f"unknown key `strategy`, which AgentV uses; write {meaning}")
        if isinstance(data, dict) and ("cost_limit_usd" in data or "costLimitUsd" in data):
            raise ValueError("unknown key `cost_limit_usd`, which AgentV uses; limit the cost of a run with --max-cost")
        return data


class CaseExecutionModel(FileModel):
    """Settings of this case that override those of the suite."""

    target: str | None = Field(None, min_length=1, description="Target of this case; `--target` overrides it.")
    evaluators: list[Any] | None = Field(None, description="Evaluators to use instead of the suite's.")
    evaluators_add: list[Any] | None = Field(
        None, alias="evaluators+", description="Evaluators to use in addition to the suite's."
    )
    threshold: float | None = Field(None, ge=0, le=1)
    trials: TrialsModel | None = Field(None, description="Overrides those keys of the suite's `trials` that it sets.")


class TurnModel(FileModel):
    """One turn of a conversation."""

    input: str | list[MessageModel] = Field(description="What the user writes: a string, or a list of messages.")
    expected_outcome: str | None = Field(None, description="What a good answer to this turn achieves.")
    reference_answer: str | None = Field(None, description="Example of a good answer to this turn.")
    evaluators: list[Any] | None = Field(None, description="Evaluators of the answer to this turn.")


class UserModel(FileModel):
    """A model that plays the user of a conversation."""

    target: str = Field(min_length=1, description="Target that writes the user's messages.")
    persona: str = Field(min_length=1, description="Who the user is, and what the user wants.")
    max_turns: int = Field(5, ge=1, le=100, description="Turns after which the conversation ends.")
    stop_when: str | None = Field(None, min_length=1, description="When the user ends the conversation.")


class CaseModel(FileModel):
    """One eval case."""

    id: str = Field(min_length=1, description="Unique id within the suite, kept as written.")
    input: str | list[MessageModel] | None = Field(
        None, description="One user message as a string, or a list of messages."
    )
    input_messages: list[MessageModel] | None = None
    turns: list[TurnModel] | None = Field(
        None, min_length=1, description="A conversation in place of `input`: the target answers each turn."
    )
    user: UserModel | None = Field(
        None, description="A model that plays the user. `input`, if set, is the first message of the user."
    )
    aggregation: Literal["mean", "min", "last"] | None = Field(
        None, description="How the scores of `turns` become one. Default: `mean`."
    )
    expected_outcome: str | None = Field(None, description="Description of what a good answer achieves.")
    outcome: str | None = Field(None, description="Alias of `expected_outcome`.")
    expected_messages: list[MessageModel] | None = None
    reference_answer: str | None = Field(
        None, description="Example of a good answer. Default: the last expected message."
    )
    rubrics: list[Annotated[str, Field(min_length=1)] | RubricModel] | None = None
    evaluator: str | None = Field(None, description="Type of the evaluator to use if there is no list.")
    evaluators: list[Any] | None = Field(None, description="Evaluators to use instead of the suite's.")
    evaluators_add: list[Any] | None = Field(
        None, alias="evaluators+", description="Evaluators to use in addition to the suite's."
    )
    execution: CaseExecutionModel | None = None
    threshold: float | None = Field(None, ge=0, le=1, description="Minimum score for this case to pass.")
    metadata: dict[str, Any] | None = Field(None, description="Arbitrary data, copied to the row.")
    vars: dict[str, Any] | None = Field(
        None, description="Variables for `{{ name }}` in the case, its evaluators and the prompts of the suite."
    )
    tags: Tags | None = Field(None, description="Names to select cases by (`--tag`): a string or a list of strings.")
    conversation_id: str | None = None
    question: Any = Field(
        None, description="The input as a string, if neither `input` nor `input_messages` is set; otherwise ignored."
    )
    note: Any = Field(None, description="Ignored.")
    description: Any = Field(None, description="Ignored.")


class SuiteExecutionModel(FileModel):
    """Settings for all cases of the suite."""

    target: str | None = Field(
        None, min_length=1, description="Target of all cases; `--target` and the target of a case override it."
    )
    judge_target: str | None = Field(None, min_length=1, description="Judge target; `none` disables judging.")
    evaluators: list[Any] | None = Field(None, description="Evaluators of every case without its own list.")
    threshold: float | None = Field(None, ge=0, le=1, description="Minimum score for a case to pass. Default: 0.8.")
    trials: TrialsModel | None = Field(None, description="Attempts per case, and when the case passes.")
    targets: list[Annotated[str, Field(min_length=1)]] | None = Field(
        None,
        min_length=1,
        description="Targets that every case is sent to; `--target` and the target of a case override.",
    )
    workers: int | None = Field(None, ge=1, description="Cases judged at a time per target; `--workers` overrides it.")
    max_cost: float | None = Field(
        None, gt=0, description="Stop the run before spending more than this (USD); `--max-cost` overrides it."
    )
    allow_outside_files: bool = Field(False, description="Allow file references outside the suite's repository.")
    warm: bool = Field(False, description="Default of `warm` for every `code_judge`.")
    python: str | list[str] | None = Field(
        None, description="Default of `python` for every `code_judge` whose script starts with `python`."
    )

    @field_validator("python")
    @classmethod
    def _is_an_interpreter_or_requirements(cls, python: str | list[str] | None) -> str | list[str] | None:
        if python is not None:
            from agentv.interpreters.requirements import check_python  # noqa: PLC0415 - most suites have none

            check_python(python)
        return python


class SuiteModel(FileModel):
    """The head of a suite file: everything except the cases."""

    schema_: str | None = Field(None, alias="$schema")
    description: str | None = None
    dataset: str | None = Field(
        None, min_length=1, description="Name of the suite in rows. Default: the file name without its suffix."
    )
    tags: Tags | None = Field(None, description="Tags of every case of the suite, in addition to its own.")
    execution: SuiteExecutionModel | None = None
    target: str | None = Field(None, min_length=1, description="Alias of `execution.target`.")
    evaluator: str | None = Field(None, description="Type of the evaluator for cases that have none.")
    vars: dict[str, Any] | str | None = Field(
        None, description="Variables of every case, which its own override: a mapping, or a YAML or JSON file."
    )
    prompts: list[Any] | None = Field(
        None,
        description="Prompts to compare, each sent for every case: strings, lists of messages, or mappings with `id` "
        "and `template`, `messages` or `file`.",
    )
