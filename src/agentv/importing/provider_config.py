"""Convert the `config` of promptfoo's providers to the settings of targets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.importing.source import FILE, Node, Notes, UnreadableError, entries, named_files, read_document, read_text
from agentv.importing.templates import environment_variables
from agentv.importing.vendors import (
    FIELDS,
    GENERATION_FIELDS,
    GROUPS,
    OWN_SETTINGS,
    RESPONSES_FIELDS,
    SETTINGS,
    WITHOUT_EFFECT,
)
from agentv.templates import has_template

STRUCTURED_OUTPUT = "structured-outputs-2025-11-13"
"""The beta feature of Anthropic that `output_format` needs."""


@dataclass(slots=True)
class ConfigReader:
    """Reads the `config` of the providers of one configuration."""

    notes: Notes
    directory: Path

    def read(self, settings: dict[str, Any], config: Node | None, key: str | None) -> str | None:
        """Add the settings of a provider's `config`. Returns the variable of the API key."""
        for item, entry in entries(config):
            if item == "apiKeyEnvar":
                key = str(entry.value)
            elif item == "apiKey":
                key = self._key(entry, key or "API_KEY")
            elif item == "apiKeyRequired" and entry.value is False:
                key = None
            elif item in GROUPS and entry.is_mapping:
                key = self.read(settings, entry, key)
            elif item == "showThinking":
                self.notes.look_at(entry, "the thinking of a model is not part of the answer")
            elif entry.value is not None and item not in WITHOUT_EFFECT:
                self._add(settings, item, entry, config)
        return key

    def _add(self, settings: dict[str, Any], item: str, entry: Node, config: Node | None) -> None:
        provider = settings["provider"]
        name = OWN_SETTINGS.get(provider, {}).get(item) or SETTINGS.get(item)
        value = environment_variables(entry.value)
        try:
            if name is not None:
                settings[name] = value
            elif item in ("timeout", "timeoutMs") and isinstance(value, int | float) and value > 0:
                settings["timeout_seconds"] = value / 1000
            elif item == "region" and "//bedrock-mantle." in settings.get("base_url", ""):
                pass  # it is in the URL
            elif item == "isReasoningModel" and provider == "azure" and not _samples(config):
                pass  # the target sends `max_completion_tokens` for every model
            elif not self._field(settings, item, value):
                self.notes.left_out(entry, f"`{item}` in the provider's config is not imported")
        except UnreadableError as error:
            self.notes.left_out(entry, f"`{item}` in the provider's config: {error}")

    def _field(self, settings: dict[str, Any], item: str, value: Any) -> bool:
        """Add a field of the request. Returns False if the provider has no such field."""
        provider, is_responses = settings["provider"], settings.get("api") == "responses"
        if provider == "anthropic" and item in _ANTHROPIC:
            return self._anthropic(settings, item, value)
        if is_responses and item in _RESPONSES:
            return self._responses(settings, item, value)
        if item == "passthrough" and isinstance(value, Mapping) and provider in FIELDS:
            _body(settings).update(value)
        elif provider == "gemini" and item == "systemInstruction" and isinstance(value, str):
            return self._instruction(settings, value)
        elif provider == "gemini" and item in GENERATION_FIELDS:
            _body(settings).setdefault("generationConfig", {})[item] = self._data(value)
        elif item in (RESPONSES_FIELDS if is_responses else FIELDS.get(provider, ())):
            _body(settings)[item] = self._data(value)
        else:
            return False
        return True

    def _anthropic(self, settings: dict[str, Any], item: str, value: Any) -> bool:
        if item == "effort":
            _body(settings).setdefault("output_config", {})["effort"] = value
        elif item == "output_format":
            _body(settings)["output_format"] = self._data(value)
            settings.setdefault("headers", {})["anthropic-beta"] = STRUCTURED_OUTPUT
        elif not isinstance(value, Mapping):
            return False
        elif value.keys() <= {"type", "budget_tokens"} and isinstance(value.get("budget_tokens"), int):
            settings["thinking_budget"] = value["budget_tokens"]
        elif value.get("type") != "disabled":
            _body(settings)["thinking"] = dict(value)
        return True

    def _responses(self, settings: dict[str, Any], item: str, value: Any) -> bool:
        """Settings of chat completions that the responses API has in another place."""
        if item == "reasoning_effort":
            _body(settings).setdefault("reasoning", {})["effort"] = value
            return True
        text = _body(settings).setdefault("text", {})
        if item == "verbosity":
            text["verbosity"] = value
            return True
        data = self._data(value)
        if not isinstance(data, Mapping):
            return False
        inner = data.get("json_schema")
        text["format"] = {"type": data.get("type"), **(inner if isinstance(inner, Mapping) else data)}
        return True

    def _instruction(self, settings: dict[str, Any], value: str) -> bool:
        """Gemini's system instruction, as text or in a file."""
        if value.startswith(FILE) and not value.endswith((".json", ".yaml", ".yml")):
            value = read_text(named_files(value, self.directory)[0])
        instruction = self._data(value)
        if has_template(str(instruction)):
            return False  # variables of the cases are only in prompts
        is_text = isinstance(instruction, str)
        _body(settings)["systemInstruction"] = {"parts": [{"text": instruction}]} if is_text else instruction
        return True

    def _data(self, value: Any) -> Any:
        """A value, read from the file it names."""
        if isinstance(value, list):
            return [self._data(item) for item in value]
        if not isinstance(value, str) or not value.startswith(FILE):
            return value
        path = named_files(value, self.directory)[0]
        if path.suffix not in (".json", ".yaml", ".yml"):
            raise UnreadableError(f"{path.name} is not JSON or YAML")
        return environment_variables(read_document(path).value)

    def _key(self, node: Node, default_variable: str) -> str:
        match = re.fullmatch(r"\$\{\{ (\w+) \}\}", environment_variables(str(node.value)))
        if match:
            return match[1]
        self.notes.left_out(node, f"the API key is not copied; set the environment variable {default_variable}")
        return default_variable


_ANTHROPIC = ("thinking", "effort", "output_format")
_RESPONSES = ("reasoning_effort", "verbosity", "response_format")


def _samples(config: Node | None) -> bool:
    """Whether a config has settings that promptfoo does not send to reasoning models."""
    return config is not None and any(config.raw(name) is not None for name in ("temperature", "top_p", "max_tokens"))


def _body(settings: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = settings.setdefault("extra_body", {})
    return body
