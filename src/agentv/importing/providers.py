"""Convert promptfoo providers to targets. API keys are never copied: targets refer to environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.importing.hosted_models import hosted_settings
from agentv.importing.http_provider import http_settings
from agentv.importing.programs import Programs
from agentv.importing.prompts import free, slug
from agentv.importing.provider_config import ConfigReader
from agentv.importing.source import FILE, Node, Notes, UnreadableError, entries, named_files, read_document
from agentv.importing.templates import environment_variables
from agentv.importing.vendors import OTHER_MODES, VENDORS, Vendor

PER_MINUTE_MS = 60_000
_AZURE_EMBEDDINGS = Vendor("openai_compatible", "AZURE_API_KEY")
_EMBEDDINGS = {
    "azure": _AZURE_EMBEDDINGS,
    "azureopenai": _AZURE_EMBEDDINGS,
    "mistral": Vendor("openai_compatible", "MISTRAL_API_KEY", "https://api.mistral.ai/v1"),
}
"""Vendors whose embeddings have the API of OpenAI, although their models have another provider."""


class NotCarriedError(ValueError):
    """A provider that cannot be imported; the message has the reason."""


@dataclass(slots=True)
class ProviderReader:
    """Reads providers and gives each target a unique name."""

    notes: Notes
    directory: Path
    """The directory that paths in the configuration are relative to."""
    out: Path
    """The directory of the suite, in which commands run."""
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)
    prompts: dict[str, Node] = field(default_factory=dict)
    """Target -> the names of its prompts, if it does not get all of them."""
    references: dict[str, str] = field(default_factory=dict)
    """Label or id of a provider -> its target."""
    to_fill_in: dict[str, str] = field(default_factory=dict)
    """Placeholder target -> what to do, for a comment in the configuration."""

    def read(self, node: Node) -> str:
        """The name of the target for a provider. If the provider cannot be imported, the target is a placeholder."""
        identity, options = _parts(node)
        reason = ""
        try:
            node = self._from_file(node)
            identity, options = _parts(node)
            settings = self._settings(identity, options, node)
        except NotCarriedError as error:
            settings, reason = _placeholder(str(identity or "provider")), str(error)
        self._limit(options, settings)
        label = options.raw("label") if options else None
        name = self._add(str(label or settings.get("model") or str(identity).rpartition(":")[2]), settings)
        for reference in (label, identity):
            if reference:
                self.references.setdefault(str(reference), name)
        if options is not None and (prompts := options.get("prompts")) is not None:
            self.prompts[name] = prompts
        if reason:
            self._explain(name, f"provider `{str(identity)[:80]}`: {reason}", node)
        return name

    def named(self, reference: Any) -> str | None:
        """The target of the provider that a test refers to by its label or id."""
        return self.references.get(reference) if isinstance(reference, str) else None

    def placeholder(self, node: Node, reason: str) -> str:
        """A target for a configuration without providers."""
        name = self._add("target", _placeholder("target"))
        self._explain(name, reason, node)
        return name

    def _explain(self, name: str, reason: str, node: Node) -> None:
        variable = _variable(self.targets[name])
        todo = f"replace it with a target that answers, or set {variable}"
        self.notes.left_out(node, f"{reason}; target `{name}` is a placeholder: {todo}")
        self.to_fill_in[name] = f"{reason}; {todo}"

    def _add(self, wanted: str, settings: dict[str, Any]) -> str:
        """The name of the target with these settings. Added unless it exists under this name or a numbered one."""
        short = slug(wanted) or "target"
        short = "target-none" if short == "none" else short
        numbered = re.compile(re.escape(short) + r"(?:-\d+)?")
        for existing, existing_settings in self.targets.items():
            if existing_settings == settings and numbered.fullmatch(existing):
                return existing
        name = free(short, self.targets)
        self.targets[name] = settings
        return name

    def _from_file(self, node: Node) -> Node:
        """The provider in a YAML or JSON file that a reference names. Raises NotCarriedError if it cannot be read."""
        if not isinstance(node.value, str) or not re.fullmatch(r"file://.*\.(?:ya?ml|json)", node.value):
            return node
        try:
            read = read_document(named_files(node.value, self.directory)[0])
        except UnreadableError as error:
            raise NotCarriedError(str(error)) from None
        return next(read.items(), read)

    def _settings(self, identity: str | None, options: Node | None, node: Node) -> dict[str, Any]:
        config = options.get("config") if options else None
        if identity is None:
            raise NotCarriedError("`id` is missing")
        for key, entry in entries(options):
            if key not in ("id", "label", "config", "delay", "prompts", "embedding"):
                self.notes.left_out(entry, f"`{key}` of a provider is not imported")
        vendor, _, rest = identity.partition(":")
        try:
            programs = Programs(self.notes, self.directory, self.out)
            settings = programs.settings(identity, config, node) or hosted_settings(identity, config, self.notes, node)
        except ValueError as error:
            raise NotCarriedError(str(error)) from None
        if settings:
            return settings
        if vendor in ("http", "https"):
            settings = http_settings(identity, config, self.notes)
            if settings is None:
                raise NotCarriedError("its request is not imported")
            return settings
        if vendor == "vertex" and rest.startswith("gemini"):
            self.notes.left_out(node, "Vertex AI is not supported; the target calls the Gemini API with GOOGLE_API_KEY")
            vendor = "google"
        if identity == "llama":
            rest = "default"
        if gateway := _gateway(vendor, rest, config):
            return self._model(gateway, rest, config)
        if vendor not in VENDORS or not rest:
            raise NotCarriedError("not supported")
        return self._model(VENDORS[vendor], rest, config)

    def embeddings(self, node: Node) -> str | None:
        """The target for an embedding model; None, with a note, if its API is not that of OpenAI."""
        identity, options = _parts(node)
        vendor, _, rest = str(identity).partition(":")
        model = rest.removeprefix("embeddings:").removeprefix("embedding:")
        known = _EMBEDDINGS.get(vendor) or VENDORS.get(vendor)
        if known is None or known.provider not in ("openai", "openai_compatible") or model == rest:
            self.notes.left_out(
                node, f"provider `{str(identity)[:80]}`: not supported; a local model computes embeddings"
            )
            return None
        settings: dict[str, Any] = {"provider": "embeddings", "model": model}
        config = options.get("config") if options else None
        if known is _EMBEDDINGS["azure"]:
            settings["base_url"] = f"{_host(config) or 'https://${{ AZURE_API_HOST }}'}/openai/v1"
        elif known.base_url:
            settings["base_url"] = known.base_url
        key = self._config().read(settings, config, known.key)
        return self._add(model, settings | ({"api_key": f"${{{{ {key} }}}}"} if key else {}))

    def _config(self) -> ConfigReader:
        return ConfigReader(self.notes, self.directory)

    def _limit(self, options: Node | None, settings: dict[str, Any]) -> None:
        delay = options.raw("delay") if options else None
        if isinstance(delay, int | float) and not isinstance(delay, bool) and delay > 0:
            settings |= {"max_concurrency": 1, "requests_per_minute": PER_MINUTE_MS / delay}

    # -- models

    def _model(self, vendor: Vendor, rest: str, config: Node | None) -> dict[str, Any]:
        mode, _, model = rest.partition(":")
        if mode not in vendor.modes:
            is_profile = vendor.provider == "bedrock" and mode == "arn"
            if mode in OTHER_MODES and not is_profile:
                raise NotCarriedError(f"`{mode}` is not supported")
            mode, model = "", rest
        if not model and config is not None and isinstance(config.raw("model"), str):
            model = config.value["model"]
        if not model:
            raise NotCarriedError("the model is missing")
        settings: dict[str, Any] = {"provider": vendor.provider, "model": model}
        if mode == "responses":
            settings["api"] = "responses"
        if vendor.base_url:
            settings["base_url"] = vendor.base_url
        if mode == "responses" and vendor.provider == "openai_compatible":
            settings["provider"] = "openai"
        if vendor.provider == "azure":
            settings["base_url"] = _host(config) or "https://${{ AZURE_API_HOST }}"
        elif vendor.provider == "openai" and (host := _host(config)):
            settings["base_url"] = f"{host}/v1"
        key = self._config().read(settings, config, vendor.key)
        if key:
            settings["api_key"] = f"${{{{ {key} }}}}"
        return settings


def _gateway(vendor: str, rest: str, config: Node | None) -> Vendor | None:
    """A server of the user's, or of a gateway, with the chat completions API."""

    def url(key: str, default: str) -> str:
        value = config.raw(key) if config else None
        return str(environment_variables(value)).rstrip("/") if isinstance(value, str) else default

    if vendor in ("huggingface", "hf") and rest.startswith("chat:"):
        return Vendor("openai_compatible", "HF_TOKEN", "https://router.huggingface.co/v1", ("chat",))
    if vendor == "databricks":
        base = url("workspaceUrl", "${{ DATABRICKS_WORKSPACE_URL }}")
        return Vendor("openai_compatible", "DATABRICKS_TOKEN", f"{base}/serving-endpoints")
    if vendor == "helicone":
        router = config.raw("router") if config else None
        base = url("baseUrl", "http://localhost:8080")
        return Vendor("openai_compatible", None, f"{base}/router/{router}" if router else f"{base}/ai")
    if vendor == "bedrock" and rest.startswith("mantle:"):
        return _mantle(rest.removeprefix("mantle:"), config)
    if vendor == "mlflow-gateway":
        base = url("gatewayUrl", "${{ MLFLOW_GATEWAY_URL }}")
        return Vendor("openai_compatible", None, f"{base}/gateway/mlflow/v1")
    return None


def _mantle(model: str, config: Node | None) -> Vendor:
    """The chat completions API of Bedrock."""
    is_grok = model.startswith("xai.")
    region = (config.raw("region") if config else None) or ("us-west-2" if is_grok else "us-east-1")
    path = "openai/v1" if is_grok or model.startswith("google.gemma-4") else "v1"
    base = f"https://bedrock-mantle.{environment_variables(str(region))}.api.aws/{path}"
    return Vendor("openai_compatible", "AWS_BEARER_TOKEN_BEDROCK", base, ("mantle",))


def _host(config: Node | None) -> str | None:
    host = config.raw("apiHost") if config else None
    if host is None:
        return None
    text = str(environment_variables(str(host)))
    return text.rstrip("/") if "://" in text or text.startswith("${{") else f"https://{text}"


def _placeholder(identity: str) -> dict[str, Any]:
    """Settings that show what is missing. The target cannot be used until its variable is set."""
    name = re.sub(r"[^A-Z0-9]+", "_", slug(identity.removeprefix(FILE)).upper()).strip("_")[:40] or "TARGET"
    if identity.partition(":")[0] in VENDORS or (identity.partition(":")[2] and not identity.startswith(FILE)):
        return {"provider": "openai_compatible", "model": identity, "base_url": f"${{{{ FILL_IN_URL_OF_{name} }}}}"}
    return {"provider": "cli", "command": [f"${{{{ FILL_IN_COMMAND_OF_{name} }}}}", "{PROMPT}"]}


def _variable(settings: Mapping[str, Any]) -> str:
    text = str(settings.get("base_url") or settings.get("command"))
    match = re.search(r"FILL_IN_\w+", text)
    return match[0] if match else text


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
