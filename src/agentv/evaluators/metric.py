"""`metric`: runs a ready metric, or one of another library. Both are judge scripts in `agentv.metrics`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators import library_metric
from agentv.evaluators.base import Complain, EvaluationContext
from agentv.evaluators.code_judge import CodeJudge, as_written
from agentv.evaluators.expected_calls import ExpectedCall
from agentv.evaluators.library_metric import AN_EXAMPLE, library_options, names_library_metric
from agentv.judge.access import read_access
from agentv.metrics import ALIASES, METRICS, SHARED_FILE, metric_name, script_of
from agentv.metrics.libraries import LIBRARIES
from agentv.metrics.support import MAX_CLAIMS, MAX_QUESTIONS
from agentv.redact import MASK
from agentv.results import Score
from agentv.scripts import ScriptError, ScriptObserver, ScriptSpec
from agentv.suite.validation import show
from agentv.targets.config import holds_secret
from agentv.text import all_of, did_you_mean
from agentv_eval.material import CONTEXT_PLACES

FIXED = ("script", "cwd", "protocol", "config")
"""Options of scripts that a metric sets itself."""
LIBRARY_ONLY = ("env", "parameters")
"""Options that only metrics of libraries have."""
_JUDGE_KEYS = ("judge", "target", "use_judge_provider", "judge_provider")
_OPTIONS = frozenset(option for metric in METRICS.values() for option in metric.options)


def _as_written(schema: dict[str, Any]) -> None:
    """Extend the JSON Schema for editors: a suite names the metric with `name` or `metric`."""
    as_written(schema)
    options = schema["properties"]
    for option in FIXED:
        del options[option]
    options["config"] = {"type": "object", "description": "The options of the metric, if not written directly."}
    libraries = {"type": "string", "pattern": f"^({'|'.join(LIBRARIES)}):."}
    options["metric"] |= {"anyOf": [{"enum": [*METRICS, *ALIASES]}, libraries]}
    schema["required"] = [option for option in schema["required"] if option not in ("metric", *FIXED)]
    schema["additionalProperties"] = False


class MetricEvaluator(CodeJudge):
    """Measures a ready metric, such as faithfulness or contextual precision, or a metric of another library."""

    model_config = ConfigDict(json_schema_extra=_as_written, serialize_by_alias=True)
    FILES: ClassVar[tuple[str, ...]] = (*CodeJudge.FILES, "schema")

    type: Literal["metric"] = "metric"
    metric: str = Field(
        description="The metric, or `LIBRARY:METRIC` for one of another library. Default: the `name` of the evaluator."
    )
    parameters: dict[str, Any] | None = Field(
        None, description="Metrics of other libraries: the parameters of the metric, by the names of the library."
    )
    warm: bool = Field(
        default=True, description="Fork each execution from a process that has already imported the modules."
    )
    context: str | None = Field(
        None,
        min_length=1,
        description="Where the retrieved passages are: a path such as `metadata.documents`, or `tools.search` for the "
        f"outputs of a tool. Default: the first of {', '.join(f'`{place}`' for place in CONTEXT_PLACES)} that has any.",
    )
    max_claims: int | None = Field(
        None,
        ge=1,
        description=f"Most claims, statements, opinions or goals that are judged. Default: {MAX_CLAIMS}.",
    )
    allow_unmentioned: bool | None = Field(
        None, description="Count claims that the passages do not mention like supported ones. Default: `false`."
    )
    source: str | None = Field(
        None, min_length=1, description="Path of the text that was summarized. Default: `question`."
    )
    questions: list[str] | None = Field(
        None, min_length=1, description="Questions that the summary must answer with yes. Default: the judge's."
    )
    max_questions: int | None = Field(
        None, ge=1, description=f"Most questions that the judge asks. Default: {MAX_QUESTIONS}."
    )
    goals: list[str] | None = Field(
        None, min_length=1, description="What must be achieved. Default: what the judge finds in the question."
    )
    expected: list[ExpectedCall] | None = Field(
        None, min_length=1, description="Expected tool calls: `tool` and optional `args`. Default: `expected_messages`."
    )
    mode: Literal["any_order", "in_order", "exact"] | None = Field(
        None, description="How tool calls are compared, as for `tool_trajectory`. Default: `any_order`."
    )
    arguments: bool | None = Field(
        None, description="Compare the arguments of the tool calls in `expected_messages`. Default: `false`."
    )
    schema_: dict[str, Any] | str | None = Field(
        None, alias="schema", description="JSON Schema of the answer, or the path of a schema file."
    )
    language: str | None = Field(
        None, min_length=1, description="Language of the judge's reasons. Default: the judge's choice."
    )

    @field_validator("schema_")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | str | None) -> dict[str, Any] | str | None:
        from agentv.evaluators.json_schema import JsonSchema  # noqa: PLC0415 - only this option needs jsonschema

        return None if schema is None else JsonSchema(name="schema", schema=schema).schema_

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """Return the options with the metric and its script, and with judge access if the metric calls a judge."""
        options = _without_config(raw, complain)
        key = "metric" if "metric" in options else "name"
        written = options.get(key, "")
        is_of_library = names_library_metric(written)
        for option in FIXED[:-1] if is_of_library else (*FIXED[:-1], *LIBRARY_ONLY):
            if option in options:
                complain(option, f"`{option}` cannot be set: {_COPY}")
                del options[option]
        if is_of_library:
            return library_options(options, key, sorted(_OPTIONS.difference(library_metric.OPTIONS)), complain)
        name = metric_name(written) if isinstance(written, str) else ""
        metric = METRICS.get(name)
        if metric is None:
            complain(key, _unknown(key, written))
            return {**options, "metric": "", "script": ["-"], "python": None}
        for option in _OPTIONS.intersection(options).difference(metric.options):
            takes = all_of(metric.options)
            complain(option, f"`{option}` is not an option of the metric `{name}`, which has {takes}")
        if "python" in options:
            complain("python", f"the metric `{name}` is part of agentv and needs no other Python; remove `python`")
            del options["python"]
        judge = next((option for option in _JUDGE_KEYS if option in options), "judge")
        disabled = options.get(judge) is False
        access = read_access(options, complain)
        if not metric.calls_judge and access is not None:
            complain(judge, f"the metric `{name}` calls no judge; remove `{judge}`")
        elif metric.calls_judge and disabled:
            complain(judge, f"the metric `{name}` calls a judge; remove `{judge}: false`")
        if metric.calls_judge:
            options["judge"] = dict(access or {})
        return {**options, "metric": name, "script": ["python", str(script_of(name))]}

    @classmethod
    def inherited(cls, defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults of the suite; `python` does not apply to metrics that are part of agentv."""
        own = super().inherited(defaults, options)
        if options.get("metric") in METRICS:
            own.pop("python", None)
        return own

    def load_files(self, find_file: Callable[[str], Path]) -> Self:
        """Return this evaluator with the path of a schema file replaced by the schema."""
        own = super().load_files(find_file)
        if not isinstance(own.schema_, str):
            return own
        from agentv.evaluators.json_schema import JsonSchema  # noqa: PLC0415 - only this option needs jsonschema

        loaded = JsonSchema(name="schema", schema=own.schema_).load_files(find_file)
        return own.model_copy(update={"schema_": loaded.schema_})

    def depends_on(self, directory: Path) -> list[Path]:
        return [*super().depends_on(directory), SHARED_FILE]

    def spec(self, directory: Path) -> ScriptSpec:
        """The script. A library gets the variables that stop its telemetry."""
        spec = super().spec(directory)
        if not names_library_metric(self.metric):
            return spec
        return replace(spec, variables=library_metric.variables_of(self.metric, self.env))

    def recorded_options(self) -> dict[str, Any]:
        """The options without the script, whose place depends on the installation, and without keys in `parameters`."""
        options = {option: value for option, value in super().recorded_options().items() if option not in FIXED}
        if self.parameters:
            options["parameters"] = {
                name: MASK if isinstance(value, str) and holds_secret(name) else value
                for name, value in options["parameters"].items()
            }
        return options

    async def run(
        self, payload: Mapping[str, Any], context: EvaluationContext, observer: ScriptObserver | None = None
    ) -> Score:
        """Run the script. Of an error that it raised on purpose, only the message is reported, without a traceback."""
        try:
            return await super().run(payload, context, observer)
        except ScriptError as error:
            reported = _REPORTED.findall(error.stderr)
            clean = EvaluatorError(reported[-1], judge_proxy=error.judge_proxy) if reported else None
            if clean is None and names_library_metric(self.metric):
                python = self.spec(context.directory or Path.cwd()).argv[0]
                clean = library_metric.not_installed(self.metric, python, error)
            if clean is None:
                raise
            clean.execution = error.execution
            raise clean from error

    def payload(self, context: EvaluationContext) -> dict[str, Any]:
        """The payload with the options of the metric as `config`."""
        options = self.model_dump(mode="json", include=_FIELDS, exclude_none=True)
        if names_library_metric(self.metric):
            has_embeddings = self.judge is not None and self.judge.embeddings is not None
            options = library_metric.config_of(self.metric, options, has_embeddings=has_embeddings)
        return {**super().payload(context), "config": options}


_FIELDS = {"schema_" if option == "schema" else option for option in (*_OPTIONS, *library_metric.OPTIONS)}
_REPORTED = re.compile(r"^agentv_eval: the judge failed: (?:MetricError|Judge\w+Error): (.+)$", re.MULTILINE)
"""What the SDK prints when a metric cannot be computed, or when the judge fails."""
_COPY = "to change the script of a metric, copy it with `agentv judge new NAME --metric METRIC`"


def _without_config(raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
    """The options, with those in `config` moved to the others."""
    options = dict(raw)
    config = options.pop("config", None)
    if config is not None and not isinstance(config, Mapping):
        complain("config", "`config` must be a mapping")
        return options
    for key, value in (config or {}).items():
        if key in options:
            complain("config", f"`{key}` is set in `config` and next to it; keep only one of them")
        elif key not in (known := _OPTIONS.union(library_metric.OPTIONS)):
            near = did_you_mean(str(key), known)
            complain("config", f"unknown option `{key}`{near} in `config`; options: {all_of(sorted(known))}")
        else:
            options[key] = value
    return options


def _unknown(key: str, name: Any) -> str:
    near = did_you_mean(name, [*METRICS, *ALIASES]) if isinstance(name, str) else ""
    if key == "name" and not near:
        problem = f"`name` must be a metric unless `metric` is set, got {show(name)}"
    else:
        problem = f"unknown metric {show(name)}{near}"
    return f"{problem}; available: {all_of(list(METRICS))}; for another library, write `{AN_EXAMPLE}` or the like"
