"""The target configuration: found near the suite, checked whole, each target ready or with the reason why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentv.errors import AgentVError, ConfigError, Problem, UsageError
from agentv.suite.findings import Findings
from agentv.suite.validation import show, validate
from agentv.suite.yaml import NodePath, YamlProblem, YamlWalk
from agentv.suite.yaml_scalars import as_written
from agentv.targets.environment import Environment, has_unreadable, interpolate, search_folders
from agentv.targets.provider import TargetSettings
from agentv.targets.registry import provider_class, provider_names
from agentv.targets.settings import UNREADABLE, Reading, read_settings
from agentv.text import all_of, did_you_mean, one_of

FILE_NAMES = (
    "agentv.config.yaml",
    "agentv.config.yml",
    "targets.yaml",
    "targets.yml",
    ".agentv/targets.yaml",
    ".agentv/targets.yml",
)
LineOf = Callable[[NodePath], int]
NO_JUDGE = "none"
AGENTS: Mapping[str, str] = {
    "codex": "codex, exec",
    "codex-cli": "codex, exec",
    "claude-code": "claude, --print",
    "pi": "pi, --print",
    "pi-coding-agent": "pi, --print",
    "pi-agent-sdk": "my-agent",
    "vscode": "my-agent",
    "vscode-insiders": "my-agent",
}
"""Agents that AgentV starts by itself -> the command that takes a prompt."""
HOW_TO_START = "Run `agentv init` to write one, or point at one with --config FILE."


class DefaultsModel(BaseModel):
    """What is used when nothing else is named."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid")

    target: str | None = Field(None, description="The target when neither the command line nor the suite names one.")
    judge_target: str | None = Field(None, description="Who judges when a target names nobody, or `none`.")


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A named entry of the configuration."""

    name: str
    provider: str
    path: Path
    line: int
    reading: Reading
    judge_target: str | None = None

    @property
    def unavailable(self) -> str | None:
        """Why it cannot be called, or None when it can."""
        return self.reading.unavailable

    @property
    def model(self) -> str | None:
        """The model as configured; as written while a variable is missing."""
        return getattr(self.reading.settings, "model", None) or self.reading.shown.get("model")


@dataclass(frozen=True, slots=True)
class TargetsConfig:
    """A configuration file, loaded."""

    path: Path
    targets: Mapping[str, TargetSpec]
    environment: Environment
    defaults: DefaultsModel = field(default_factory=DefaultsModel)

    def find(self, name: str, *, asked_by: str) -> TargetSpec:
        """The target of that name, or an error that lists those there are."""
        if name not in self.targets:
            raise UsageError(
                f"{asked_by} names the target '{name}', which {self.path} does not have"
                f"{did_you_mean(name, self.targets)}.",
                next_step=f"It has {all_of(sorted(self.targets))}.",
            )
        return self.targets[name]

    def default_target(self) -> str | None:
        """`defaults.target`, else the only target, else the one named `default`."""
        if self.defaults.target is not None:
            return self.defaults.target
        if len(self.targets) == 1:
            return next(iter(self.targets))
        return "default" if "default" in self.targets else None


def find_config(start: Path, cwd: Path | None = None) -> Path | None:
    """The nearest configuration file from `start` up to the repository root, then of the working directory."""
    for folder in search_folders(start, cwd or Path.cwd()):
        if found := config_in(folder):
            return found
    return None


def config_in(folder: Path) -> Path | None:
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def load_config(path: Path, environment: Environment) -> TargetsConfig:
    """The configuration, or ConfigError with every mistake in it."""
    if path.is_dir():
        inside = config_in(path)
        if inside is None:
            raise ConfigError(
                [Problem(path, 1, 1, f"no configuration in this directory; looked for {', '.join(FILE_NAMES)}")]
            )
        path = inside
    data, findings, line_of = _read(path)
    specs: dict[str, TargetSpec] = {}
    for name, node, raw in _entries(data, findings):
        if name == NO_JUDGE:
            findings.add(node, f"no target may be called `{NO_JUDGE}`: that word means that nobody judges", at_key=True)
        elif not name.strip():
            findings.add(node, "a target needs a name that is not blank", at_key=True)
        elif name in specs:
            findings.add(node, f"the target '{name}' is configured twice; first at line {specs[name].line}")
        elif spec := _spec(name, raw, node, environment, findings, line_of=line_of):
            specs[name] = spec
    defaults = _defaults(data.get("defaults") or {}, environment, findings)
    _check_names(specs, defaults, data, findings)
    if findings:
        raise ConfigError(findings.problems())
    return TargetsConfig(path, specs, environment, defaults)


def _defaults(raw: Any, environment: Environment, findings: Findings) -> DefaultsModel:
    """As they are written; with mistakes in them, what can be read, so that its names are still checked."""
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if _can_be_filled(key, value, environment, findings)}
        raw = interpolate(raw, environment, [])
    if model := validate(DefaultsModel, raw, findings, ("defaults",)):
        return model
    named = raw if isinstance(raw, dict) else {}
    return DefaultsModel(**{key: named[key] for key in DefaultsModel.model_fields if isinstance(named.get(key), str)})


def _can_be_filled(key: str, value: Any, environment: Environment, findings: Findings) -> bool:
    """No target is behind the defaults that could be told apart as unavailable: what is missing here is a mistake."""
    missing: list[str] = []
    interpolate(value, environment, missing)
    if missing:
        findings.add(("defaults", key), f"`{key}` reads the environment variable {missing[0]}, which is not set")
    elif has_unreadable(value):
        findings.add(("defaults", key), f"`{key}`: {UNREADABLE}")
    else:
        return True
    return False


def _read(path: Path) -> tuple[dict[str, Any], Findings, LineOf]:
    findings = Findings(path)
    try:
        walk = YamlWalk(path.read_bytes(), record=True)
        data = walk.document()
    except OSError as error:
        raise ConfigError([Problem(path, 1, 1, f"cannot be read: {error.strerror}")], next_step=HOW_TO_START) from None
    except YamlProblem as problem:
        findings.add_at(problem.line, problem.column, problem.message)
        raise ConfigError(findings.problems()) from None
    for key, line, column, first in walk.duplicates:
        findings.add_at(line, column, f"the key `{key}` is here twice; first at line {first}")
    if not isinstance(data, dict):
        findings.add((), "expected a mapping with `targets:`")
        raise ConfigError(findings.problems())
    known = ("targets", "defaults", "$schema")
    for key in data:
        if key not in known and not key.startswith("x-"):
            findings.add((key,), f"unknown key `{key}`{did_you_mean(key, known)}", at_key=True)
    if not data.get("targets"):
        findings.add((), "`targets` is missing: name at least one target there")

    def line_of(node: NodePath) -> int:
        return walk.marks[node].line if node in walk.marks else line_of(node[:-1]) if node else 1

    return data, findings, line_of


def _entries(data: dict[str, Any], findings: Findings) -> list[tuple[str, NodePath, dict[str, Any]]]:
    raw = data.get("targets")
    entries: list[tuple[str, NodePath, dict[str, Any]]] = []
    if isinstance(raw, dict):
        for name, settings in raw.items():
            if isinstance(settings, dict):
                entries.append((name, ("targets", name), settings))
            else:
                findings.add(("targets", name), f"a target is a mapping with `provider`, got {show(settings)}")
    elif isinstance(raw, list):
        for index, settings in enumerate(raw):
            node: NodePath = ("targets", index)
            name = as_written(settings.get("name")) if isinstance(settings, dict) else None
            if not isinstance(name, str):
                findings.add(node, "a target in a list is a mapping with `name` and `provider`")
            else:
                entries.append((name, node, {k: v for k, v in settings.items() if k != "name"}))
    elif raw:
        findings.add(("targets",), f"`targets`: expected a mapping of names to settings, or a list, got {show(raw)}")
    return entries


def _spec(
    name: str,
    raw: dict[str, Any],
    node: NodePath,
    environment: Environment,
    findings: Findings,
    *,
    line_of: LineOf,
) -> TargetSpec | None:
    unset: list[str] = []
    provider = interpolate(raw.get("provider"), environment, unset)
    if unset:
        reading = read_settings(_AnySettings, raw, environment, findings, node, line_of=line_of)
        return TargetSpec(name, raw["provider"], findings.path, line_of(node), reading, reading.judge_target)
    if provider is None:
        findings.add(node, f"the target '{name}' does not say its `provider`: {one_of(provider_names())}")
        return None
    kind = provider_class(provider) if isinstance(provider, str) else None
    if kind is None and provider in AGENTS:
        # Its target cannot be used; the others of the file can.
        reading = read_settings(_AnySettings, raw, environment, findings, node, line_of=line_of)
        reading = replace(reading, settings=None, unavailable=_instead_of_an_agent(provider))
        return TargetSpec(name, provider, findings.path, line_of(node), reading, reading.judge_target)
    if kind is None:
        names = provider_names()
        findings.add(
            (*node, "provider"),
            f"unknown provider {show(provider)}{did_you_mean(str(provider), names)}; there are {all_of(names)}",
        )
        return None
    reading = read_settings(kind.Settings, raw, environment, findings, node, line_of=line_of)
    return TargetSpec(name, provider, findings.path, line_of(node), reading, reading.judge_target)


class _AnySettings(TargetSettings):
    model_config = ConfigDict(extra="allow")


def _instead_of_an_agent(provider: str) -> str:
    return (
        f"agentv does not start the agent {show(provider)} by itself; run it as a command, like "
        f"`{{provider: cli, command: [{AGENTS[provider]}, '{{PROMPT}}']}}`"
    )


def _check_names(
    specs: Mapping[str, TargetSpec], defaults: DefaultsModel, data: dict[str, Any], findings: Findings
) -> None:
    raw = data.get("targets")
    listed = (
        {as_written(entry.get("name")): i for i, entry in reversed(list(enumerate(raw))) if isinstance(entry, dict)}
        if isinstance(raw, list)
        else {}
    )
    known = [*specs, NO_JUDGE]
    for spec in specs.values():
        if spec.judge_target is not None and spec.judge_target not in known:
            node: NodePath = ("targets", listed.get(spec.name, spec.name), "judge_target")
            findings.add(node, _unknown_target(spec.judge_target, known))
    if defaults.target is not None and defaults.target not in specs:
        findings.add(("defaults", "target"), _unknown_target(defaults.target, specs))
    if defaults.judge_target is not None and defaults.judge_target not in known:
        findings.add(("defaults", "judge_target"), _unknown_target(defaults.judge_target, known))


def _unknown_target(name: str, known: Any) -> str:
    return f"unknown target '{name}'{did_you_mean(name, known)}; there are {all_of(sorted(known))}"


def no_config_error(what_for: str, start: Path) -> AgentVError:
    """Nothing configures a target, and one is needed."""
    return UsageError(
        f"{what_for}, and there is no configuration file: looked for {FILE_NAMES[0]} "
        f"from {start} upward and in the working directory.",
        next_step=HOW_TO_START,
    )
