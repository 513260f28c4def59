"""JSON Schemas of suite and configuration files, generated from the models that validate them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agentv.evaluators.registry import evaluator_class, evaluator_types
from agentv.suite.models import CaseModel, SuiteModel
from agentv.targets.agentv_files import AGENTS
from agentv.targets.config import DefaultsModel
from agentv.targets.nodes_section import NodesModel
from agentv.targets.provider import TargetSettings
from agentv.targets.registry import ALIASES, provider_class, provider_names

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = ["string", "number", "boolean"]
_VARIABLE = {"type": "string", "pattern": r"\$\{\{.*\}\}"}


def suite_schema() -> dict[str, Any]:
    """The schema of a suite file."""
    definitions: dict[str, Any] = {}
    root = _inline(SuiteModel, definitions)
    case = _inline(CaseModel, definitions)
    evaluators = {"type": "array", "items": {"$ref": "#/$defs/Evaluator"}}
    for model in (case, definitions["CaseExecutionModel"], definitions["SuiteExecutionModel"]):
        for name in ("evaluators", "evaluators+"):
            if name in model["properties"]:
                model["properties"][name] = {
                    **evaluators,
                    "description": model["properties"][name].get("description"),
                }
    definitions["Case"] = case
    definitions["Evaluator"] = _evaluators(definitions)
    file = {
        "type": "object",
        "properties": {"file": {"type": "string"}},
        "required": ["file"],
        "additionalProperties": False,
    }
    root["properties"]["evalcases"] = {
        "description": "The cases: a list, or the path of a .jsonl file with one case per line.",
        "anyOf": [
            {"type": "string", "pattern": r"\.jsonl$"},
            {"type": "array", "minItems": 1, "items": {"anyOf": [file, {"$ref": "#/$defs/Case"}]}},
        ],
    }
    root["required"] = ["evalcases"]
    root["patternProperties"] = {"^x-": {}}
    schema = {"$schema": _DRAFT, "title": "agentv eval suite", **root, "$defs": definitions}
    _let_text_be_scalars(schema)
    return schema


def config_schema() -> dict[str, Any]:
    """The schema of `agentv.config.yaml`."""
    definitions: dict[str, Any] = {}
    branches = []
    for name in provider_names():
        kind = provider_class(name)
        if kind is None:
            continue
        definitions[name] = _loose(_inline(kind.Settings, definitions), kind.Settings)
        branches.append(_when("provider", name))
    branches += [_when("provider", other, name) for other, name in ALIASES.items()]
    target = {
        "type": "object",
        "required": ["provider"],
        "properties": {"provider": {"anyOf": [{"enum": [*provider_names(), *ALIASES, *AGENTS]}, _VARIABLE]}},
        "allOf": branches,
    }
    definitions["Target"] = target
    named = {"allOf": [{"$ref": "#/$defs/Target"}], "required": ["name", "provider"]}
    schema = {
        "$schema": _DRAFT,
        "title": "agentv target configuration",
        "type": "object",
        "required": ["targets"],
        "properties": {
            "$schema": {"type": "string"},
            "targets": {
                "anyOf": [
                    {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": {"$ref": "#/$defs/Target"},
                    },
                    {"type": "array", "minItems": 1, "items": named},
                ]
            },
            "defaults": _inline(DefaultsModel, definitions),
            "nodes": _inline(NodesModel, definitions),
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "$defs": definitions,
    }
    _let_text_be_scalars(schema)
    return schema


def _let_text_be_scalars(node: Any) -> None:
    """Allow numbers and booleans for strings: agentv reads a plain `42` or `true` as written."""
    if isinstance(node, dict):
        if node.get("type") == "string" and not node.keys() & {"enum", "const", "pattern"}:
            node["type"] = _TEXT
        for value in node.values():
            _let_text_be_scalars(value)
    elif isinstance(node, list):
        for value in node:
            _let_text_be_scalars(value)


def _inline(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template="#/$defs/{model}")
    definitions.update(schema.pop("$defs", {}))
    schema.pop("title", None)
    return schema


def _evaluators(definitions: dict[str, Any]) -> dict[str, Any]:
    types = evaluator_types()
    for name in types:
        kind = evaluator_class(name)
        if kind is not None:
            schema = _inline(kind, definitions)
            schema["required"] = [key for key in schema.get("required", []) if key != "name"]
            for alias, option in kind.ALIASES.items():
                schema["properties"].setdefault(alias, schema["properties"].get(option, {}))
                schema["required"] = [key for key in schema["required"] if key != option]
            definitions[name] = schema
    return {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": types}},
        "allOf": [_when("type", name) for name in types],
    }


def _when(key: str, value: str, definition: str | None = None) -> dict[str, Any]:
    """A condition: if the key has this value, `definition` applies (default: the one named like the value)."""
    return {
        "if": {"properties": {key: {"const": value}}, "required": [key]},
        "then": {"$ref": f"#/$defs/{definition or value}"},
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _loose(schema: dict[str, Any], settings: type[TargetSettings]) -> dict[str, Any]:
    """Allow `${{ VARIABLE }}` for any setting, a `name`, the aliases of settings, and ignored settings."""
    names = {"type": "array", "items": {"type": "string"}}
    schema["properties"] = {
        name: setting
        if name == "provider"
        else {
            "anyOf": [setting, _VARIABLE, *([names] if name == "env" else [])],
            "description": setting.get("description", ""),
        }
        for name, setting in schema["properties"].items()
    }
    schema["properties"]["name"] = {"type": "string"}
    for name in sorted(settings.IGNORED):
        schema["properties"].setdefault(name, {"description": "Ignored: only `cli` targets have it."})
    camel = {_camel(name): name for name in schema["properties"]}
    for other, setting in {**camel, **settings.ALIASES}.items():
        if other == setting:
            continue
        schema["properties"].setdefault(other, schema["properties"][setting])
        schema["required"] = [name for name in schema.get("required", []) if name != setting]
    return schema
