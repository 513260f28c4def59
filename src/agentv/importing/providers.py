"""Providers of promptfoo -> targets. Keys are never copied: a target names the variable that holds one."""

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
    """A provider that no target can stand for; the message says what to do."""


@dataclass(slots=True)
class ProviderReader:
    """Reads providers, giving each target a name of its own."""

    notes: Notes
    directory: Path
    """Where relative paths of the configuration start."""
    out: Path
    """Where the suite will be: commands run there."""
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def read(self, node: Node) -> str | None:
        """The name of the target made from a provider, or None with a note."""
        identity, options = _parts(node)
        try:
            settings = self._settings(identity, options, node)
        except NotCarriedError as error:
            self.notes.left_out(node, f"provider `{str(identity)[:80]}`: {error}")
            return None
        name = self._name(options.raw("label") if options else None, settings, str(identity))
        for existing, known in self.targets.items():
            if known == settings and (name == existing or name.startswith(f"{existing}-")):
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
            raise NotCarriedError("it has no `id`")
        for key, entry in entries(options):
            if key not in ("id", "label", "config"):
                self.notes.left_out(entry, f"`{key}` of a provider is not carried over")
        vendor, _, rest = identity.partition(":")
        if identity == "echo":
            return {"provider": "cli", "command": ["cat"]}
        if vendor == "exec":
            return self._command(rest, node)
        if vendor == "python" or (identity.startswith(FILE) and ".py" in identity):
            return self._python(rest if vendor == "python" else identity.removeprefix(FILE), config)
        if vendor not in _VENDORS or not rest:
            raise NotCarriedError(
                "no target stands for it; describe it as a `cli` target that runs a command, or as `openai_compatible` "
                "with a `base_url`"
            )
        return self._model(_VENDORS[vendor], rest, config)

    def _model(self, provider: str, rest: str, config: Node | None) -> dict[str, Any]:
        mode, _, model = rest.partition(":")
        if mode in _UNSUPPORTED_MODES:
            raise NotCarriedError(f"`{mode}` is not offered here; use a chat model")
        if mode not in _MODES.get(provider, ()):
            mode, model = "", rest
        if not model:
            raise NotCarriedError("it names no model; write one")
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
                settings[_SETTINGS[item]] = _spelled(entry.value)
            elif item != "apiHost":
                self.notes.left_out(entry, f"`{item}` of the provider's config is not carried over")
        if key:
            settings["api_key"] = f"${{{{ {key} }}}}"
        return settings

    def _key(self, node: Node, usual: str) -> str:
        found = re.fullmatch(r"\$\{\{ (\w+) \}\}", environment_variables(str(node.value)))
        if found:
            return found[1]
        self.notes.left_out(node, f"the key written here is not copied: put it into the variable {usual}")
        return usual

    def _command(self, command: str, node: Node) -> dict[str, Any]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise NotCarriedError(f"its command cannot be read: {error}") from None
        if not words:
            raise NotCarriedError("it names no command")
        if re.search(r"(?<!\$)\{[A-Z]", command):
            raise NotCarriedError("a word of its command looks like a placeholder; write the `cli` target by hand")
        self.notes.look_at(node, "the command gets the prompt as its last argument, without promptfoo's two after it")
        return {"provider": "cli", "command": [*words, "{PROMPT}"], **self._cwd()}

    def _python(self, rest: str, config: Node | None) -> dict[str, Any]:
        found = re.fullmatch(r"(.+?\.py)(?::(\w+))?", rest)
        if found is None:
            raise NotCarriedError("it names no Python file")
        options = {"config": config.value if config else {}}
        arguments = [found[1], found[2] or "call_api", json.dumps(options)]
        return {
            "provider": "cli",
            "command": ["python", "-c", CALL_PYTHON, *arguments],
            **self._cwd(),
        }

    def _cwd(self) -> dict[str, str]:
        here = os.path.relpath(self.directory.resolve(), self.out.resolve())
        return {} if here == "." else {"cwd": here}


def _parts(node: Node) -> tuple[str | None, Node | None]:
    """The id, and the node with the options."""
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


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        return environment_variables(value)
    return {key: _spelled(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def slug(text: str) -> str:
    """A text as a short name."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:60].strip("-.")
