"""Convert promptfoo providers to targets. API keys are never copied: targets refer to environment variables."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.importing.source import FILE, Node, Notes, entries
from agentv.importing.templates import environment_variables

CALL_PYTHON = """\
import asyncio, contextlib, importlib.util, inspect, json, sys
prompt, path, name, options = sys.stdin.read(), *sys.argv[1:]
with contextlib.redirect_stdout(sys.stderr):
    spec = importlib.util.spec_from_file_location("provider", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    reply = getattr(module, name)(prompt, json.loads(options), {"vars": {}})
    reply = asyncio.run(reply) if inspect.isawaitable(reply) else reply
if reply.get("error"):
    sys.exit(str(reply["error"]))
output = reply["output"]
print(json.dumps({"text": output if isinstance(output, str) else json.dumps(output)}))
"""

_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "azure": "AZURE_API_KEY"}
_VENDORS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "azure": "azure",
    "azureopenai": "azure",
    "ollama": "ollama",
    "google": "gemini",
    "mistral": "mistral",
    "groq": "groq",
    "openrouter": "openrouter",
    "bedrock": "bedrock",
}
_MODES = {"openai": ("chat", "responses"), "anthropic": ("messages",), "azure": ("chat",), "ollama": ("chat",)}
_UNSUPPORTED_MODES = ("completion", "embedding", "embeddings", "image", "realtime", "assistant", "moderation")
_SETTINGS = {
    "temperature": "temperature",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "apiBaseUrl": "base_url",
    "headers": "headers",
}


class NotCarriedError(ValueError):
    """A provider that cannot be imported; the message has the reason and the next step."""


@dataclass(slots=True)
class ProviderReader:
    """Reads providers and gives each target a unique name."""

    notes: Notes
    directory: Path
    """The directory that paths in the configuration are relative to."""
    out: Path
    """The directory of the suite, in which commands run."""
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def read(self, node: Node) -> str | None:
        """The name of the target for a provider; None, with a note, if the provider cannot be imported."""
        identity, options = _parts(node)
        try:
            settings = self._settings(identity, options, node)
        except NotCarriedError as error:
            self.notes.left_out(node, f"provider `{str(identity)[:80]}`: {error}")
            return None
        name = self._name(options.raw("label") if options else None, settings, str(identity))
        for existing, existing_settings in self.targets.items():
            if existing_settings == settings and (name == existing or name.startswith(f"{existing}-")):
                return existing
        self.targets[name] = settings
        return name

    def _name(self, label: Any, settings: Mapping[str, Any], identity: str) -> str:
        wanted = slug(str(label or settings.get("model") or identity.rpartition(":")[2])) or "target"
        wanted = "target-none" if wanted == "none" else wanted
        taken = self.targets
        return next(n for n in (wanted, *(f"{wanted}-{i}" for i in range(2, len(taken) + 3))) if n not in taken)

    def _settings(self, identity: str | None, options: Node | None, node: Node) -> dict[str, Any]:
        config = options.get("config") if options else None
        if identity is None:
            raise NotCarriedError("`id` is missing")
        for key, entry in entries(options):
            if key not in ("id", "label", "config"):
                self.notes.left_out(entry, f"`{key}` of a provider is not imported")
        vendor, _, rest = identity.partition(":")
        if identity == "echo":
            return {"provider": "cli", "command": ["cat"]}
        if vendor == "exec":
            return self._command(rest, node)
        if vendor == "python" or (identity.startswith(FILE) and ".py" in identity):
            return self._python(rest if vendor == "python" else identity.removeprefix(FILE), config)
        if vendor not in _VENDORS or not rest:
            raise NotCarriedError(
                "not supported; use a `cli` target that runs a command, or an `openai_compatible` target with a "
                "`base_url`"
            )
        return self._model(_VENDORS[vendor], rest, config)

    def _model(self, provider: str, rest: str, config: Node | None) -> dict[str, Any]:
        mode, _, model = rest.partition(":")
        if mode in _UNSUPPORTED_MODES:
            raise NotCarriedError(f"`{mode}` is not supported; use a chat model")
        if mode not in _MODES.get(provider, ()):
            mode, model = "", rest
        if not model:
            raise NotCarriedError("the model is missing")
        settings: dict[str, Any] = {"provider": provider, "model": model}
        if mode == "responses":
            settings["api"] = "responses"
        key = _KEYS.get(provider)
        if provider == "azure":
            host = str((config.raw("apiHost") if config else None) or "${{ AZURE_API_HOST }}")
            settings["base_url"] = host if "://" in host else f"https://{environment_variables(host)}"
        for item, entry in entries(config):
            if item == "apiKeyEnvar":
                key = str(entry.value)
            elif item == "apiKey":
                key = self._key(entry, key or "API_KEY")
            elif item in _SETTINGS and entry.value is not None:
                settings[_SETTINGS[item]] = _convert_variables(entry.value)
            elif item != "apiHost":
                self.notes.left_out(entry, f"`{item}` in the provider's config is not imported")
        if key:
            settings["api_key"] = f"${{{{ {key} }}}}"
        return settings

    def _key(self, node: Node, default_variable: str) -> str:
        match = re.fullmatch(r"\$\{\{ (\w+) \}\}", environment_variables(str(node.value)))
        if match:
            return match[1]
        self.notes.left_out(node, f"the API key is not copied; set the environment variable {default_variable}")
        return default_variable

    def _command(self, command: str, node: Node) -> dict[str, Any]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise NotCarriedError(f"invalid command: {error}") from None
        if not words:
            raise NotCarriedError("the command is missing")
        if re.search(r"(?<!\$)\{[A-Z]", command):
            raise NotCarriedError(
                "the command contains text that looks like a placeholder; write the `cli` target by hand"
            )
        self.notes.look_at(
            node, "the prompt is the last argument of the command; promptfoo's two further arguments are not passed"
        )
        return {"provider": "cli", "command": [*words, "{PROMPT}"], **self._cwd()}

    def _python(self, rest: str, config: Node | None) -> dict[str, Any]:
        match = re.fullmatch(r"(.+?\.py)(?::(\w+))?", rest)
        if match is None:
            raise NotCarriedError("the Python file is missing")
        options = {"config": config.value if config else {}}
        arguments = [match[1], match[2] or "call_api", json.dumps(options)]
        return {
            "provider": "cli",
            "command": ["python", "-c", CALL_PYTHON, *arguments],
            **self._cwd(),
        }

    def _cwd(self) -> dict[str, str]:
        relative = os.path.relpath(self.directory.resolve(), self.out.resolve())
        return {} if relative == "." else {"cwd": relative}


def _parts(node: Node) -> tuple[str | None, Node | None]:
    """The provider id, and the node with its options."""
    if isinstance(node.value, str):
        return node.value, None
    if not node.is_mapping:
        return None, None
    if isinstance(node.raw("id"), str):
        return node.value["id"], node
    if len(node.value) == 1:  # - openai:gpt-4o: {config: ...}
        ((name, inner),) = entries(node)
        return str(inner.raw("id") or name), inner if inner.is_mapping else None
    return None, node


def _convert_variables(value: Any) -> Any:
    if isinstance(value, str):
        return environment_variables(value)
    return {key: _convert_variables(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def slug(text: str) -> str:
    """Convert text to a short name."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:60].strip("-.")
