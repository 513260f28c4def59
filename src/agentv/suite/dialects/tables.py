"""The names of AgentV's suites: what they are here, which of them have no effect, and which are not supported."""

from __future__ import annotations

from collections.abc import Mapping

# -- the head of a suite, and its cases

RENAMED_HEAD: Mapping[str, str] = {"name": "dataset"}
IGNORED_HEAD = frozenset(
    {"version", "author", "license", "category", "requires", "experiment", "defaults", "nunjucks_filters", "refs"}
)
"""Keys that do not change a result."""
RENAMED_EXECUTION: Mapping[str, str] = {}
IGNORED_EXECUTION = frozenset(
    {
        "cache",
        "cache_path",
        "cachePath",
        "fail_on_error",
        "failOnError",
        "verbose",
        "keep_workspaces",
        "max_concurrency",
    }
    | {"otel_file", "export_otel", "trace_file", "pool_workspaces", "pool_slots", "agent_timeout", "max_retries"}
)
IGNORED_EVALUATE_OPTIONS = frozenset({"cache", "delay", "show_progress_bar", "timeout_ms", "max_eval_time_ms"})
IGNORED_CASE = frozenset(
    {"suite", "category", "note", "description", "on_dependency_failure", "window_size", "on_turn_failure"}
)
"""Keys without an effect; the last ones only have one beside a key that is refused."""

FILE = "file://"
"""How references to files begin."""
LISTS = ("assertions", "assert", "evaluators")
"""Keys of lists of assertions; the first one that is present counts."""
CRITERIA = ("criteria", "expected_outcome", "outcome")
"""Keys of what a good answer does."""
CASE_VALUES = frozenset(
    {*CRITERIA, "input", "input_files", "input_messages", "expected_output", "execution", "provider", "providers"}
)
"""Keys of cases whose values have another form here."""
CONVERSATION = frozenset({"turns", "aggregation"})
"""Keys beside `mode: conversation`."""

_SCRIPT = "prepare files with a script, and name it as the `command` of a `cli` target"
UNSUPPORTED_HEAD: Mapping[str, str] = {
    "workspace": _SCRIPT,
    "environment": _SCRIPT,
    "extensions": "run them before and after `agentv eval`",
    "preprocessors": "convert the files before they are sent",
    "transform": "convert the answer in a `script` evaluator",
    "imports": "list the files under `tests`",
    "tracing": "use `agentv eval --otel`",
}
"""Keys that change what is graded, with what to do instead."""
UNSUPPORTED_CASE: Mapping[str, str] = {
    "workspace": _SCRIPT,
    "environment": _SCRIPT,
    "preprocessors": UNSUPPORTED_HEAD["preprocessors"],
    "extensions": UNSUPPORTED_HEAD["extensions"],
    "depends_on": "write the steps as `turns` of one case",
    "mode": "write all messages of the user as `turns`, each with its `input`, and leave out `input` and `mode`",
    "prompts": "list prompts in the suite",
    "options": UNSUPPORTED_HEAD["transform"],
    "transform": UNSUPPORTED_HEAD["transform"],
}
UNSUPPORTED_EXECUTION: Mapping[str, str] = {"hooks": "run them before and after `agentv eval`"}

HEAD_NAMES = frozenset(
    {"tests", "name", "execution", "assertions", "assert", "input", "input_files", "metadata", "governance", "tags"}
    | {"prompts", "providers", "default_test", "evaluate_options", "description", "threshold"}
)
CASE_NAMES = CASE_VALUES | {*LISTS[:2], "id", "vars", "metadata", "conversation_id", "threshold", "tags"}
"""Keys that a misspelled key is compared with."""

# -- assertions

TYPES: Mapping[str, str] = {
    "code_grader": "code_judge",
    "script": "code_judge",
    "llm_grader": "llm_judge",
    "llm_rubric": "llm_judge",
    "rubrics": "rubric",
    "assert_set": "composite",
    "skill_trigger": "skill_used",
}
"""Our names of types. Others are the same, apart from `-` for `_`."""
TEXT_TYPES: Mapping[str, tuple[str, str]] = {
    f"{kind}_{match}": (kind, match) for kind in ("contains", "icontains") for match in ("any", "all")
}
"""Types that compare with several strings: our type, and its `match`."""
BUILT_IN = frozenset(
    {"code_judge", "composite", "contains", "cost", "equals", "starts_with", "ends_with", "execution_metrics"}
    | {"field_accuracy", "icontains", "is_json", "latency", "llm_judge", "regex", "rubric", "token_usage"}
    | {"tool_trajectory"}
)
"""Our types that AgentV has, too. Scripts of a project cannot replace them."""
TRIMMED = frozenset({"equals", "starts_with", "ends_with"})
"""Types that remove white space around both strings before they are compared."""
NAMED_BY_VALUE = TRIMMED | {"contains", "icontains", "regex", "skill_trigger", "skill_used"}
"""Types that are named after what they look for."""
TRAJECTORIES = frozenset({"trajectory:tool_used", "trajectory:tool_sequence", "trajectory:tool_args_match"})
UNSUPPORTED_TYPES: Mapping[str, str] = {
    "agent_rubric": "use `llm-rubric`, which sees the answer and its tool calls",
    "trajectory:step_count": "use `execution-metrics` with `max_tool_calls`",
    "trajectory:goal_success": "write the goal as a criterion of an `llm-rubric`",
    "webhook": "call the URL from a `script`",
    "similar": "use `similarity`",
    "inline_assert": "write it as a script",
}
AGGREGATORS: Mapping[str, str] = {
    "code_grader": "code_judge",
    "script": "code_judge",
    "llm_grader": "llm_judge",
    "llm_rubric": "llm_judge",
}
COMMON_OPTIONS: Mapping[str, str] = {"metric": "name", "min_score": "threshold"}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "code_judge": {"command": "script", "provider": "judge", "target": "judge"},
    "llm_judge": {"target": "judge_target", "provider": "judge_target", "rubric_prompt": "prompt"},
    "rubric": {"criteria": "rubrics", "value": "rubrics", "target": "judge_target", "provider": "judge_target"},
    "composite": {"assertions": "evaluators", "assert": "evaluators"},
    "regex": {"value": "pattern"},
    "latency": {"threshold": "threshold_ms"},
    "skill_used": {"skill": "value"},
    "cost": {"budget": "budget_usd"},
    "token_usage": {"maxTotal": "max_total", "maxInput": "max_input", "maxOutput": "max_output"},
    "execution_metrics": {
        "maxToolCalls": "max_tool_calls",
        "maxLlmCalls": "max_llm_calls",
        "maxTokens": "max_tokens",
        "maxCostUsd": "max_cost_usd",
        "maxDurationMs": "max_duration_ms",
        "targetExplorationRatio": "target_exploration_ratio",
        "explorationTolerance": "exploration_tolerance",
    },
    "tool_trajectory": {"argsMatch": "args_match"},
}
"""Our names of options, by our type."""
IGNORED_OPTIONS: Mapping[str, frozenset[str]] = {
    "llm_judge": frozenset({"model", "max_steps", "temperature", "config"}),
    "rubric": frozenset({"model", "max_steps", "temperature"}),
    "composite": frozenset({"config"}),
}
"""Options without an effect on an evaluator of this type; `id` has none on any."""
UNSUPPORTED_OPTIONS: Mapping[str, str] = {
    "preprocessors": UNSUPPORTED_HEAD["preprocessors"],
    "transform": UNSUPPORTED_HEAD["transform"],
}
SCRIPT_OPTIONS = frozenset(
    {"name", "metric", "type", "id", "weight", "required", "min_score", "negate", "command", "script", "cwd", "config"}
    | {"target", "provider", "judge", "env", "timeout_seconds", *UNSUPPORTED_OPTIONS}
)
"""Options of scripts, as AgentV and we name them; every other key is for the script."""
JAVASCRIPT_FLAGS_IGNORED = "gduvy"
"""Flags without an effect on whether a pattern matches; `y` is written into the pattern."""
LOCAL_FOLDERS = ("assertions", "graders", "judges")
LOCAL_SUFFIXES = (".ts", ".js", ".mts", ".mjs")
"""Where a project has its own types: `.agentv/FOLDER/TYPE.SUFFIX`."""


def our_type(named: str) -> str:
    """Our name of a type of assertions."""
    kind = named.replace("-", "_")
    return TYPES.get(kind, kind)


def unsupported(key: str, advice: str) -> str:
    """The message about a feature of AgentV that does not exist here."""
    return f"AgentV's `{key}` is not supported; {advice}"
