"""Configurations of AgentV (npm): `targets.yaml` of versions 2 to 4 and `providers.yaml` of version 5, in our form."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from agentv.regular_files import FileUnusableError, read_regular
from agentv.suite.dialects.tables import unsupported
from agentv.suite.findings import Findings
from agentv.suite.origins import Origins
from agentv.suite.yaml import NodePath, YamlProblem, YamlWalk

AGENTS: Mapping[str, str] = {
    "codex": "codex, exec",
    "codex-cli": "codex, exec",
    "codex-sdk": "codex, exec",
    "codex-app-server": "codex, exec",
    "claude": "claude, --print",
    "claude-cli": "claude, --print",
    "claude-code": "claude, --print",
    "claude-sdk": "claude, --print",
    "cc-mirror": "claude, --print",
    "copilot": "copilot, --prompt",
    "copilot-cli": "copilot, --prompt",
    "copilot-sdk": "copilot, --prompt",
    "copilot-log": "copilot, --prompt",
    "pi": "pi, --print",
    "pi-cli": "pi, --print",
    "pi-sdk": "pi, --print",
    "pi-rpc": "pi, --print",
    "pi-coding-agent": "pi, --print",
    "pi-agent-sdk": "my-agent",
    "vscode": "my-agent",
    "vscode-insiders": "my-agent",
    "agentv": "my-agent",
    "transcript": "my-agent",
}
"""Agents that AgentV has a provider for -> the command that takes a prompt."""

_IGNORED = frozenset({"subagent_mode_allowed", "log_dir", "log_format", "stream_log"})
UNSUPPORTED: Mapping[str, str] = {
    "fallback_targets": "name one target; `max_retries` repeats its calls",
    "hooks": "run them before and after `agentv eval`",
    "transcripts": "record answers as JSON Lines, and name the file with `file`",
    "runtime": "run the command in its own environment",
}
"""Settings that change the answers, with what to do instead."""
MAX_CONFIG_BYTES = 1024 * 1024
_KNOWN_IDS = frozenset({"openai", "anthropic", "azure", "gemini", "google", "openrouter", "groq", "mistral", "ollama"})
_FORMATS = frozenset({"chat", "responses", "messages", "completion"})
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "openai": {"api_format": "api"},
    "openrouter": {"api_format": "api"},
    "replay": {"fixtures": "file", "source_target": "from_target"},
}
"""Our names of settings, by provider."""
_UNUSED: Mapping[str, frozenset[str]] = {
    "azure": frozenset({"api_format"}),
    "replay": frozenset({"suite", "eval_path", "variant"}),
    "mock": frozenset({"trace"}),
}
_ENVIRONMENT = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def as_targets(data: Any) -> tuple[Any, Origins]:
    """A `providers.yaml` as a mapping with `targets`, and where its nodes are written."""
    inside = isinstance(data, dict)
    listed = data.get("providers") if inside else data
    top: NodePath = ("providers",) if inside else ()
    moved: dict[NodePath, NodePath] = {("targets",): top}
    if not isinstance(listed, list):
        return ({"targets": listed} if inside else data), Origins(of_head=moved)
    targets: list[Any] = []
    for index, entry in enumerate(listed):
        at, written = ("targets", index), (*top, index)
        moved |= {(*at, "name"): (*written, "label"), (*at, "provider"): (*written, "id")}
        if isinstance(entry, dict) and isinstance(entry.get("config"), dict):
            moved |= {(*at, key): (*written, "config", key) for key in entry["config"]}
        targets.append(_from_provider(entry) if isinstance(entry, dict) else entry)
    rest = {key: value for key, value in data.items() if key != "providers"} if inside else {}
    return {**rest, "targets": targets}, Origins(of_head=moved)


def defaults_beside(path: Path, names: Container[str]) -> dict[str, str]:
    """The defaults in the `config.yaml` beside a `providers.yaml`, as far as they name its providers."""
    try:
        data = YamlWalk(read_regular(path.with_name("config.yaml"), MAX_CONFIG_BYTES)).document()
    except (OSError, FileUnusableError, YamlProblem):
        return {}
    written = data.get("defaults") if isinstance(data, dict) else None
    if not isinstance(written, dict):
        return {}
    named = {"target": written.get("provider"), "judge_target": written.get("grader")}
    return {key: name for key, name in named.items() if isinstance(name, str) and name in names}


def _from_provider(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `providers.yaml` as a target: `label` is its name, and `id` its provider, and perhaps its model."""
    settings = {key: value for key, value in entry.items() if key not in ("id", "label", "config", "prompts")}
    if isinstance(entry.get("config"), dict):
        settings |= entry["config"]
    identity = entry.get("id")
    target: dict[str, Any] = {"name": entry.get("label", identity), "provider": identity}
    if isinstance(identity, str):
        family, _, rest = identity.partition(":")
        if family == "exec":
            target |= {"provider": "cli", "command_template": rest.strip()}
        elif family == "agentv":
            target["provider"] = rest
        elif rest and family in _KNOWN_IDS:
            kind, _, model = rest.partition(":")
            target["provider"] = family
            if kind in AGENTS:
                target["provider"] = kind
            elif kind not in _FORMATS:
                settings.setdefault("model", rest)
            elif model:
                settings.setdefault("model", model)
    return {**target, **_with_variables(settings)}


def _with_variables(value: Any) -> Any:
    """The value with `{{ env.NAME }}` in our spelling."""
    if isinstance(value, str):
        return _ENVIRONMENT.sub(lambda match: f"${{{{ {match[1]} }}}}", value)
    if isinstance(value, dict):
        return {key: _with_variables(item) for key, item in value.items()}
    return [_with_variables(item) for item in value] if isinstance(value, list) else value


def why_unavailable(entry: Mapping[str, Any]) -> str | None:
    """Why a target cannot be used: a setting of AgentV that does not exist here. The other targets can be used."""
    key = next((key for key in entry if key in UNSUPPORTED), None)
    return None if key is None else unsupported(key, UNSUPPORTED[key])


def normalized(entry: Mapping[str, Any], at: NodePath, findings: Findings) -> dict[str, Any]:
    """The settings of a target with our names. Settings that only concern where AgentV logs are left out."""
    settings = {key: value for key, value in entry.items() if key not in _IGNORED}
    if settings.get("runtime") == "host":
        del settings["runtime"]
    if "use_target" in settings:
        return {"use_target": settings["use_target"]}
    moved: dict[NodePath, NodePath] = {}
    if "grader_target" in settings and "judge_target" not in settings:
        settings["judge_target"] = settings.pop("grader_target")
        moved[*at, "judge_target"] = (*at, "grader_target")
    for theirs, ours in _RENAMED.get(str(settings.get("provider")), {}).items():
        if theirs in settings and ours not in settings:
            settings[ours] = settings.pop(theirs)
            moved[*at, ours] = (*at, theirs)
    for key in _UNUSED.get(str(settings.get("provider")), ()):
        settings.pop(key, None)
    if settings.get("provider") == "cli":
        _normalize_command(settings, at, moved)
        check = settings.get("healthcheck")
        if isinstance(check, dict):
            check = {"type": "http" if "url" in check else "command", **check}
            if check["type"] == "command":
                _normalize_command(check, (*at, "healthcheck"), moved)
            settings["healthcheck"] = check
    if moved:
        before = findings.origins.of_head if findings.origins is not None else {}
        top = findings.origins.written if findings.origins is not None else (lambda node: node)
        findings.origins = Origins(of_head={**before, **{new: top(old) for new, old in moved.items()}})
    return settings


def _normalize_command(settings: dict[str, Any], at: NodePath, moved: dict[NodePath, NodePath]) -> None:
    """A command in a string is for a shell."""
    if isinstance(settings.get("command"), str) and not settings.keys() & {"shell", "command_template"}:
        settings["command_template"] = settings.pop("command")
        moved[*at, "command_template"] = (*at, "command")
