"""What an eval suite file may say: the models behind validation and `agentv schema`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class FileModel(BaseModel):
    """Strict: no unknown keys, no silent conversions."""

    # Built on first use: most models of a file format are not needed by most files.
    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


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
        None, description="Text, a list of parts (`{type: text, value}`, `{type: file, value}`), or one object."
    )
    name: str | None = None
    tool_calls: list[ToolCallModel] | None = None
    timestamp: str | None = None
    metadata: dict[str, Any] | None = None


class RubricModel(FileModel):
    """One criterion."""

    id: str | None = None
    description: str = Field(min_length=1)
    weight: float = Field(1.0, ge=0)
    required: bool = False


class CaseExecutionModel(FileModel):
    """How this case runs, where it differs from the suite."""

    target: str | None = Field(None, min_length=1, description="The target of this case; `--target` wins over it.")
    evaluators: list[Any] | None = Field(None, description="Replaces the suite's evaluators.")
    evaluators_add: list[Any] | None = Field(None, alias="evaluators+", description="Adds to the suite's evaluators.")
    threshold: float | None = Field(None, ge=0, le=1)


class CaseModel(FileModel):
    """One eval case."""

    id: str = Field(min_length=1, description="Unique in the suite, kept as written.")
    input: str | list[MessageModel] | None = Field(
        None, description="Shorthand for one user message, or a list of messages."
    )
    input_messages: list[MessageModel] | None = None
    expected_outcome: str | None = Field(None, description="What a good answer achieves, in words.")
    outcome: str | None = Field(None, description="Another spelling of `expected_outcome`.")
    expected_messages: list[MessageModel] | None = None
    reference_answer: str | None = Field(None, description="A good answer; default: the last expected message.")
    rubrics: list[Annotated[str, Field(min_length=1)] | RubricModel] | None = None
    evaluator: str | None = Field(None, description="The type of evaluator when there is no list.")
    evaluators: list[Any] | None = Field(None, description="Replaces the suite's evaluators.")
    evaluators_add: list[Any] | None = Field(None, alias="evaluators+", description="Adds to the suite's evaluators.")
    execution: CaseExecutionModel | None = None
    threshold: float | None = Field(None, ge=0, le=1, description="The pass line of this case.")
    metadata: dict[str, Any] | None = Field(None, description="Any mapping; copied to the row.")
    conversation_id: str | None = None
    question: Any = Field(None, description="Ignored; a note to the reader.")
    note: Any = Field(None, description="Ignored.")
    description: Any = Field(None, description="Ignored.")


class SuiteExecutionModel(FileModel):
    """How the cases run."""

    target: str | None = Field(None, min_length=1, description="The target; `--target` and a case's own win over it.")
    judge_target: str | None = Field(None, min_length=1, description="Who judges, or `none`.")
    evaluators: list[Any] | None = Field(None, description="The evaluators of every case without its own list.")
    threshold: float | None = Field(None, ge=0, le=1, description="The pass line of cases. Default 0.8.")
    allow_outside_files: bool = Field(False, description="Lets file references leave the suite's repository.")
    warm: bool = Field(False, description="Sets `warm` for every `code_judge` that does not say otherwise.")


class SuiteModel(FileModel):
    """The head of a suite file: everything but the cases."""

    schema_: str | None = Field(None, alias="$schema")
    description: str | None = None
    dataset: str | None = Field(None, min_length=1, description="The suite's name in rows; default: the file's name.")
    execution: SuiteExecutionModel | None = None
    target: str | None = Field(None, min_length=1, description="Another spelling of `execution.target`.")
    evaluator: str | None = Field(None, description="The type of evaluator for cases without any.")
