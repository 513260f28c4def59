"""`json_schema`: validates the answer against a JSON Schema.

The schema is checked when the suite is loaded. It is never fetched from the network.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.schemas import CompiledSchema, as_text, compiled, violations_of
from agentv.evaluators.strict_json import NotJsonError, read_json
from agentv.regular_files import FileUnusableError, read_regular
from agentv.results import Score
from agentv.suite.yaml import YamlProblem, YamlWalk
from agentv.text import quoted

MAX_VIOLATIONS = 20
MAX_SCHEMA_BYTES = 4 * 1024 * 1024


class JsonSchema(Evaluator):
    """Checks that the whole answer is JSON that matches the schema. Violations are listed with their paths."""

    model_config = ConfigDict(serialize_by_alias=True)
    FILES = ("schema",)

    type: Literal["json_schema"] = "json_schema"
    schema_: str | dict[str, Any] = Field(
        alias="schema",
        description="JSON Schema (draft 2020-12 unless `$schema` names another), or the path of a schema file.",
    )
    _compiled: CompiledSchema | None = PrivateAttr(default=None)

    @field_validator("schema_")
    @classmethod
    def _is_a_schema(cls, schema: str | dict[str, Any]) -> str | dict[str, Any]:
        if isinstance(schema, str):
            if not schema.strip():
                raise ValueError("must not be empty; write a schema or the path of a schema file")
            return schema
        text = as_text(schema)
        compiled(text)
        return dict(json.loads(text))

    def load_files(self, find_file: Callable[[str], Path]) -> JsonSchema:
        """Return this evaluator with the path of a schema file replaced by the schema."""
        if not isinstance(self.schema_, str):
            return self
        schema = read_schema(find_file(self.schema_))
        try:
            text = as_text(schema)
            ready = compiled(text)
        except ValueError as error:
            raise ValueError(f"{self.schema_}: {error}") from None
        loaded = self.model_copy(update={"schema_": json.loads(text)})
        loaded._compiled = ready  # noqa: SLF001 - its own copy
        return loaded

    async def evaluate(self, context: EvaluationContext) -> Score:
        try:
            violations = await violations_of(self._ready(), context.candidate.answer, MAX_VIOLATIONS + 1)
        except NotJsonError as error:
            return Score(0.0, (), (f"is not JSON: {error}",), f"the answer is not JSON: {error}")
        if not violations:
            return Score(1.0, ("matches the schema",), (), "the answer is JSON that matches the schema")
        if len(violations) > MAX_VIOLATIONS:
            count, violations = f"more than {MAX_VIOLATIONS} violations", (*violations[:MAX_VIOLATIONS], "... and more")
        else:
            count = "1 violation" if len(violations) == 1 else f"{len(violations)} violations"
        return Score(0.0, (), violations, f"the answer is JSON with {count} of the schema")

    def _ready(self) -> CompiledSchema:
        if self._compiled is None:
            if isinstance(self.schema_, str):
                raise EvaluatorError(
                    f"the schema file {quoted(self.schema_)} has not been loaded",
                    next_step="Call `load_files(find_file)` first, or pass the schema itself.",
                )
            self._compiled = compiled(as_text(self.schema_))
        return self._compiled


def read_schema(path: Path) -> dict[str, Any]:
    """Read the mapping in a JSON or YAML file. Raises ValueError if that fails."""
    try:
        data = read_regular(path, MAX_SCHEMA_BYTES)
    except FileUnusableError as error:
        raise ValueError(f"{path} {error}") from None
    schema = _read_json(data, path) if path.suffix.lower() == ".json" else _read_yaml(data, path)
    if not isinstance(schema, dict):
        raise ValueError(  # noqa: TRY004 - an error in a user's file
            f"{path} does not contain a mapping; a schema must be a mapping such as `type: object`"
        )
    return schema


def _read_json(data: bytes, path: Path) -> Any:
    try:
        return read_json(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except NotJsonError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


def _read_yaml(data: bytes, path: Path) -> Any:
    walk = YamlWalk(data)
    try:
        schema = walk.document()
    except YamlProblem as problem:
        raise ValueError(f"{path}:{problem.line}:{problem.column}: {problem.message}") from None
    for key, line, column, first in walk.duplicates:
        raise ValueError(f"{path}:{line}:{column}: the key `{key}` is already on line {first}")
    return schema
