"""Regenerate the tables of the reference pages from the models and commands they describe.

    .venv/bin/python docs/generate_reference.py            updates the pages
    .venv/bin/python docs/generate_reference.py --check    lists outdated pages; exit code 1 if there are any

A page marks the place of each table with a comment that names its source:

    <!-- generated: evaluator contains -->
    ...
    <!-- end generated -->
"""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agentv.cli.judge.command import COMMANDS as JUDGE_COMMANDS
from agentv.cli.program import COMMANDS, program
from agentv.cli.runs import COMMANDS as RUNS_COMMANDS
from agentv.evaluators.base import Evaluator
from agentv.evaluators.field_accuracy import FieldRule
from agentv.evaluators.metric import FIXED
from agentv.evaluators.registry import BUILT_IN as EVALUATORS
from agentv.evaluators.registry import evaluator_class
from agentv.evaluators.rubric import RubricItem
from agentv.evaluators.tool_trajectory import ExpectedCall
from agentv.judge.access import JudgeAccess
from agentv.messages import OPTIONS as GENERATION_OPTIONS
from agentv.metrics import METRICS, script_of
from agentv.plan.options import OPTIONS
from agentv.processes.protection import Capabilities
from agentv.suite import models
from agentv.suite.dataset_cases import DatasetModel
from agentv.targets.config import DefaultsModel
from agentv.targets.nodes_section import NodesModel, TlsFiles
from agentv.targets.prices import Prices
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.cli_settings import CommandCheck, HttpCheck
from agentv.targets.providers.library import LibraryProvider, LibrarySettings
from agentv.targets.providers.mock import Rule, Script
from agentv.targets.providers.model_settings import ModelSettings
from agentv.targets.providers.openai_compatible import ChatSettings, OpenAICompatibleProvider
from agentv.targets.providers.openai_responses import ResponsesProvider
from agentv.targets.registry import BUILT_IN as PROVIDERS
from agentv.targets.registry import provider_class

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end generated -->)", re.DOTALL)

TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "true / false",
    dict: "mapping",
    list: "list",
}
BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}

# Descriptions of fields whose model has none.
MEANINGS = {
    "SuiteModel.$schema": "Ignored; for editors.",
    "SuiteModel.description": "Description of the suite.",
    "SuiteModel.execution": "Settings for running the cases; see below.",
    "CaseModel.input_messages": "The conversation, as a list of messages. The same as `input` with a list.",
    "CaseModel.expected_messages": "The messages of an expected answer.",
    "CaseModel.rubrics": "Criteria that a judge model checks one by one. Adds an evaluator `rubric` before all others.",
    "CaseModel.execution": "Settings for running this case; override those of the suite. See below.",
    "CaseModel.conversation_id": "Copied to the row, to group the cases of one conversation.",
    "CaseExecutionModel.threshold": "Pass threshold of this case.",
    "MessageModel.role": "Role of the author of the message.",
    "MessageModel.name": "Name of the author or of the tool.",
    "MessageModel.tool_calls": "Tool calls of an assistant; see below.",
    "MessageModel.timestamp": "Kept unchanged.",
    "MessageModel.metadata": "Kept unchanged.",
    "ToolCallModel.tool": "Name of the tool.",
    "ToolCallModel.input": "Input of the call; any value.",
    "ToolCallModel.output": "Output of the call; any value.",
    "ToolCallModel.id": "ID of the call.",
    "ToolCallModel.timestamp": "Kept unchanged.",
    "HttpCheck.type": "Type of check.",
    "HttpCheck.timeout_seconds": "Timeout of the check.",
    "CommandCheck.type": "Type of check.",
    "CommandCheck.shell": "Run the command with `/bin/sh -c`.",
    "CommandCheck.command": "The command, as for the target.",
    "CommandCheck.cwd": "Working directory of the process.",
    "CommandCheck.timeout_seconds": "Timeout of the check.",
}
DEFAULTS = {"Evaluator.name": "its type", "MetricEvaluator.metric": "its name"}
KINDS = {
    "CodeJudge.script": "list of strings or string",
    "CodeJudge.judge": "true / false or mapping",
    "Metric.judge": "true or mapping",
    "PythonCheck.judge": "true / false or mapping",
    "JavaScriptCheck.judge": "true / false or mapping",
    "CaseModel.rubrics": "list of strings or mappings",
    "LlmJudge.rubrics": "list of strings or mappings",
    "RubricEvaluator.rubrics": "list of strings or mappings",
}
"""Fields for which a suite accepts more types than the model declares."""

FIRST = {"CodeJudge.script": 0, "CodeJudge.cwd": 0, "PythonCheck.value": 0, "JavaScriptCheck.value": 0}
"""Fields that come first in their table, although a base class defines others before them."""


# -- tables


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(header), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def options_of(model: type[BaseModel], *, but: Iterable[str] = ()) -> str:
    """A table of the model's fields, without those in `but`."""
    left_out = set(but)
    fields = {field.alias or name: field for name, field in model.model_fields.items() if name not in left_out}
    if not fields:
        return "No additional options."
    rows = [
        (
            f"`{name}`",
            KINDS.get(f"{model.__name__}.{name}") or _kind(field),
            _default(model, name, field),
            _meaning(model, name, field),
        )
        for name, field in sorted(fields.items(), key=lambda item: FIRST.get(f"{model.__name__}.{item[0]}", 1))
    ]
    return table(("option", "value", "default", "meaning"), rows)


def _meaning(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    text = field.description or MEANINGS.get(f"{model.__name__}.{name}")
    if text is None:
        raise SystemExit(f"{model.__name__}.{name} has no description; add one to its Field")
    return text


def _default(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    if (text := DEFAULTS.get(f"{model.__name__}.{name}")) is not None:
        return text
    if field.is_required():
        return "**required**"
    value = field.default
    if value in (None, PydanticUndefined, "") or isinstance(value, BaseModel | list | dict):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _kind(field: FieldInfo) -> str:
    bounds = {
        name: found for item in field.metadata for name in BOUNDS if (found := getattr(item, name, None)) is not None
    }
    kind = _words(field.annotation)
    if {"ge", "le"} <= bounds.keys():
        return f"{kind} from {bounds['ge']:g} to {bounds['le']:g}"
    return " ".join([kind, *(f"{BOUNDS[name]} {bound:g}" for name, bound in bounds.items())])


def _words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(each) for each in arguments if each is not type(None)))
    if origin is Literal:
        return " / ".join(f"`{each}`" for each in arguments)
    if origin is list:
        return "list" if arguments[0] is Any else f"list of {_words(arguments[0])}s"
    if origin is dict:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return TYPES.get(annotation, "anything")


# -- sources of tables


def evaluators_index() -> str:
    rows = [(f"[`{name}`](#{name})", _first_line(evaluator_class(name))) for name in EVALUATORS]
    return table(("type", "what it checks"), rows)


def evaluator(name: str) -> str:
    kind = evaluator_class(name)
    if name not in EVALUATORS or kind is None:
        raise SystemExit(f"unknown built-in evaluator '{name}'; remove its block from the page")
    return options_of(kind, but=[*Evaluator.model_fields, *(FIXED if name == "metric" else ())])


def metrics_index() -> str:
    """The table of the ready metrics, from the first lines of their scripts."""
    rows = []
    for name in METRICS:
        title, needs, calls, formula, _ = _described(name)
        rows.append((f"[`{name}`](#{name})", title.partition(": ")[2], needs, calls, formula))
    return table(("metric", "question", "needs", "judge calls", "score"), rows)


def metric(name: str) -> str:
    """One metric: the remarks of its script, its options, a link to the script and its prompts."""
    *_, remarks = _described(name)
    options = ", ".join(f"`{option}`" for option in METRICS[name].options)
    script = f"[{name}.py](../src/agentv/metrics/{name}.py)"
    parts = [remarks, f"Options: {options}. Script: {script}."]
    for node in ast.parse(script_of(name).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assigned = ast.unparse(node.targets[0])
            parts.append(f"`{assigned}`:\n\n```text\n{node.value.value.strip()}\n```")
    return "\n\n".join(parts)


def _described(name: str) -> tuple[str, str, str, str, str]:
    """The docstring of a metric: title, what it needs, its judge calls, its formula, and remarks."""
    text = ast.get_docstring(ast.parse(script_of(name).read_text(encoding="utf-8"))) or ""
    match = re.fullmatch(r"(.+)\n\nNeeds: (.+)\nJudge calls: (.+)\nFormula: (.+)\n\n(.+)", text, re.DOTALL)
    if match is None:
        raise SystemExit(
            f"the docstring of the metric {name} must have a title, Needs, Judge calls, Formula and remarks"
        )
    title, needs, calls, formula, remarks = match.groups()
    return title, needs, calls, formula, " ".join(remarks.split())


def chat_providers() -> str:
    rows = []
    for name in PROVIDERS:
        kind: Any = provider_class(name)
        if issubclass(kind, OpenAICompatibleProvider):
            reads = ", ".join(f"`{variable}`" for variable in kind.Settings.READS) or "-"
            rows.append(
                (
                    f"`{name}`",
                    f"`{kind.PRESET.base_url}`" if kind.PRESET.base_url else "set `base_url`",
                    reads,
                )
            )
    return table(("provider", "address", "environment variables"), rows)


def generation_options() -> str:
    """Which options of a request each provider supports."""
    rows = [(f"`{name}`", provider_class(name).honours) for name in PROVIDERS]  # type: ignore[union-attr]
    rows.insert(4, ("`openai` with `api: responses`", ResponsesProvider.honours))
    options = [f"`{option}`" for option in GENERATION_OPTIONS]
    marked = ([name, *("yes" if option in honours else "" for option in GENERATION_OPTIONS)] for name, honours in rows)
    return table(("provider", *options), marked)


def library_providers() -> str:
    rows = []
    for name in PROVIDERS:
        kind: Any = provider_class(name)
        if issubclass(kind, LibraryProvider):
            reads = ", ".join(f"`{variable}`" for variable in kind.Settings.READS)
            rows.append((f"`{name}`", f"`pip install '{kind.REQUIREMENT}'`", reads))
    return table(("provider", "install", "environment variables"), rows)


def provider(name: str) -> str:
    kind = provider_class(name)
    if name not in PROVIDERS or kind is None:
        raise SystemExit(f"unknown built-in provider '{name}'; remove its block from the page")
    inherited = {*TargetSettings.model_fields}
    if issubclass(kind.Settings, ModelSettings):
        own = {*kind.Settings.__annotations__}
        own |= {*LibrarySettings.__annotations__} if issubclass(kind.Settings, LibrarySettings) else set()
        inherited = {field for field in kind.Settings.model_fields if field not in own}
    return options_of(kind.Settings, but=inherited)


def commands_index() -> str:
    return table(
        ("command", "what it does"),
        [(f"[`agentv {name}`](#agentv-{name})", text) for name, (_, text) in COMMANDS.items()],
    )


def judge_commands() -> str:
    return table(
        ("command", "what it does"),
        [(f"[`agentv judge {name}`](#agentv-judge-{name})", text) for name, (_, text) in JUDGE_COMMANDS.items()],
    )


def command(name: str) -> str:
    inner = click.Context(program, info_name="agentv")
    found: click.Command = program
    for word in name.split():
        inside = found.get_command(inner, word) if isinstance(found, click.Group) else None
        if inside is None:
            raise SystemExit(f"unknown command '{name}'; remove its block from the page")
        inner, found = click.Context(inside, info_name=word, parent=inner), inside
    usage = " ".join(["agentv", name, *found.collect_usage_pieces(inner)])
    options = [
        record
        for each in found.params
        if isinstance(each, click.Option) and (record := each.get_help_record(inner)) is not None
    ]
    rows = [(f"`{flags}`", _without_range(text)) for flags, text in options]
    return f"`{usage}`\n\n{table(('option', 'meaning'), rows)}"


def evaluate_options() -> str:
    rows = [
        (
            f"`{option.keyword}`",
            "true or false" if option.kind == "switch" else option.expected,
            _without_range(option.help),
        )
        for option in OPTIONS.values()
        if option.keyword and option.keyword != "target"
    ]
    return table(("argument", "value", "meaning"), rows)


def protections() -> str:
    """What protects a machine from scripts, from the description of one that has none of it."""
    nothing = Capabilities(supervised=False, landlock=None, reads_everything=True, pid_namespace=False)
    rows = [(each.name, each.needs, each.consequence) for each in nothing.protections()]
    return table(("protection", "needs", "without it"), rows)


def _without_range(text: str) -> str:
    return re.sub(r"\s*\[(?:0<=)?x?(?:[<>]=?[\d.]+)?\]$", "", text)


def _first_line(kind: Any) -> str:
    return str(kind.__doc__).strip().splitlines()[0]


GROUPS = ("judge", "generate", "import")
"""Command groups, which have no options."""

SOURCES: dict[str, Callable[[], str]] = {
    "suite": lambda: options_of(models.SuiteModel),
    "suite execution": lambda: options_of(models.SuiteExecutionModel),
    "case": lambda: options_of(models.CaseModel),
    "case execution": lambda: options_of(models.CaseExecutionModel),
    "trials": lambda: options_of(models.TrialsModel),
    "dataset": lambda: options_of(DatasetModel),
    "turn": lambda: options_of(models.TurnModel),
    "user": lambda: options_of(models.UserModel),
    "message": lambda: options_of(models.MessageModel),
    "tool call": lambda: options_of(models.ToolCallModel),
    "evaluators": evaluators_index,
    "evaluator options": lambda: options_of(Evaluator),
    **{f"evaluator {name}": lambda name=name: evaluator(name) for name in EVALUATORS},  # type: ignore[misc]
    "metrics": metrics_index,
    **{f"metric {name}": lambda name=name: metric(name) for name in METRICS},  # type: ignore[misc]
    "rubric item": lambda: options_of(RubricItem),
    "field rule": lambda: options_of(FieldRule),
    "expected call": lambda: options_of(ExpectedCall),
    "judge access": lambda: options_of(JudgeAccess),
    "defaults": lambda: options_of(DefaultsModel),
    "nodes": lambda: options_of(NodesModel),
    "nodes tls": lambda: options_of(TlsFiles),
    "target options": lambda: options_of(TargetSettings),
    "chat options": lambda: options_of(ChatSettings, but=set(TargetSettings.model_fields) - {"timeout_seconds"}),
    "chat providers": chat_providers,
    "model options": lambda: options_of(ModelSettings, but=set(TargetSettings.model_fields) - {"timeout_seconds"}),
    "library providers": library_providers,
    "generation options": generation_options,
    "prices": lambda: options_of(Prices),
    "mock rule": lambda: options_of(Rule, but=Script.model_fields),
    "healthcheck http": lambda: options_of(HttpCheck),
    "healthcheck command": lambda: options_of(CommandCheck),
    **{f"provider {name}": lambda name=name: provider(name) for name in PROVIDERS},  # type: ignore[misc]
    "protections": protections,
    "commands": commands_index,
    "evaluate": evaluate_options,
    **{f"command {name}": lambda name=name: command(name) for name in COMMANDS if name not in GROUPS},  # type: ignore[misc]
    "command judge": judge_commands,
    "command generate rubrics": lambda: command("generate rubrics"),
    "command import promptfoo": lambda: command("import promptfoo"),
    "command import agentv": lambda: command("import agentv"),
    "command import deepeval": lambda: command("import deepeval"),
    "command import ragas": lambda: command("import ragas"),
    **{f"command judge {name}": lambda name=name: command(f"judge {name}") for name in JUDGE_COMMANDS},  # type: ignore[misc]
    **{f"command runs {name}": lambda name=name: command(f"runs {name}") for name in RUNS_COMMANDS if name != "note"},  # type: ignore[misc]
}


def named_elsewhere() -> set[str]:
    """Providers whose options are all in the shared table of chat options."""
    chat = {name for name in PROVIDERS if issubclass(provider_class(name), OpenAICompatibleProvider)}  # type: ignore[arg-type]
    return {f"provider {name}" for name in chat if name not in ("azure", "openai")}


# -- pages


def renewed(page: str, where: Path) -> str:
    def fill(match: re.Match[str]) -> str:
        source = SOURCES.get(match[2])
        if source is None:
            raise SystemExit(f"{where}: unknown table '{match[2]}'; available: {', '.join(SOURCES)}")
        return f"{match[1]}\n{source()}\n\n{match[4]}"

    return BLOCK.sub(fill, page)


def main(arguments: list[str]) -> int:
    stale: list[Path] = []
    shown: set[str] = set()
    for path in sorted(DOCS.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        shown |= {match[2] for match in BLOCK.finditer(before)}
        after = renewed(before, path)
        if after != before:
            stale.append(path)
            if "--check" not in arguments:
                path.write_text(after, encoding="utf-8")
    word = "stale" if "--check" in arguments else "rewrote"
    for path in stale:
        print(f"{word}: {path.relative_to(DOCS.parent)}")
    missing = sorted(set(SOURCES) - shown - named_elsewhere())
    for name in missing:
        print(f"missing: no page has the block <!-- generated: {name} -->")
    return 1 if missing or (stale and "--check" in arguments) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
