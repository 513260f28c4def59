"""Load the target configuration: find the file, validate every entry, substitute variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentv.errors import AgentVError, ConfigError, Problem, UsageError
from agentv.suite.files import search_root, upward
from agentv.suite.findings import Findings
from agentv.suite.validation import IS_MISSING, show, validate
from agentv.suite.yaml import NodePath, YamlProblem, YamlWalk
from agentv.suite.yaml_scalars import as_written, resolve_plain
from agentv.targets.environment import (
    MARK,
    Environment,
    has_unreadable,
    interpolate,
    marked,
    search_folders,
    variables_in,
)
from agentv.targets.provider import TargetSettings
from agentv.targets.registry import provider_class, provider_names
from agentv.templates import literal
from agentv.text import all_of, did_you_mean, one_of, some_of

if TYPE_CHECKING:
    from agentv.targets.nodes_section import NodesModel

FILE_NAMES = (
    "agentv.config.yaml",
    "agentv.config.yml",
    "targets.yaml",
    "targets.yml",
    ".agentv/targets.yaml",
    ".agentv/targets.yml",
    ".agentv/providers.yaml",
    ".agentv/providers.yml",
)
TARGETS_FILES = frozenset({"targets.yaml", "targets.yml"})
PROVIDERS_FILES = frozenset({"providers.yaml", "providers.yml"})
AGENTV_FILES = TARGETS_FILES | PROVIDERS_FILES
"""The configuration files of AgentV (npm), in any directory."""
LineOf = Callable[[NodePath], int]
NO_JUDGE = "none"
HOW_TO_START = "Run `agentv init` to create one, or name one with --config FILE."


class DefaultsModel(BaseModel):
    """The `defaults` section of the configuration."""

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid")

    target: str | None = Field(None, description="Target used when neither the command line nor the suite names one.")
    judge_target: str | None = Field(None, description="Judge target of targets that name none; `none` disables it.")


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target as configured: one entry of `targets`."""

    name: str
    provider: str
    path: Path
    line: int
    reading: Reading
    judge_target: str | None = None
    node: NodePath = ()
    """Where the entry is in the file."""

    @property
    def directory(self) -> Path:
        """The directory of the configuration file."""
        return self.path.resolve().parent

    @property
    def unavailable(self) -> str | None:
        """Why the target cannot be called, or None if it can."""
        return self.reading.unavailable

    @property
    def cache(self) -> bool:
        """Whether answers of the target are cached."""
        return isinstance(self.reading.settings, TargetSettings) and self.reading.settings.cache

    @property
    def model(self) -> str | None:
        """The configured model; with its `${{ }}` unfilled if a variable is missing."""
        return getattr(self.reading.settings, "model", None) or self.reading.shown.get("model")


@dataclass(frozen=True, slots=True)
class TargetsConfig:
    """A loaded configuration file."""

    path: Path
    targets: Mapping[str, TargetSpec]
    environment: Environment
    defaults: DefaultsModel = field(default_factory=DefaultsModel)
    nodes: NodesModel | None = None
    """How runs use nodes; paths in it are absolute."""

    def find(self, name: str, *, asked_by: str) -> TargetSpec:
        """The target of that name. Raises `UsageError` with the available names if there is none."""
        if name in self.targets:
            return self.targets[name]
        listed = [word.strip() for word in name.split(",")]
        if asked_by == "--target" and len(listed) > 1 and all(word in self.targets for word in listed):
            raise UsageError(
                f"--target takes one name, got '{name}'.",
                next_step=f"Repeat it: {' '.join(f'--target {word}' for word in listed)}",
            )
        several = asked_by == "--target" and (name == "all" or any(letter in name for letter in ",*?["))
        known = sorted(self.targets)
        hint = did_you_mean(name, known, any_case=True)
        raise UsageError(
            f"{asked_by} names the target '{name}', which is not in {self.path}{hint}.",
            next_step=f"Available: {some_of(known, near=name, most=20)}."
            + (" --target takes one name; repeat it to select several." if several else ""),
        )

    def notes(self) -> list[str]:
        """Settings that are accepted but have no effect."""
        return [
            f"{self.path}:{spec.line}: `{key}` of the target '{spec.name}' is ignored: only `cli` targets have it"
            for spec in self.targets.values()
            for key in spec.reading.ignored
        ]

    def default_target(self) -> str | None:
        """`defaults.target`, else the only target, else the one named `default`."""
        if self.defaults.target is not None:
            return self.defaults.target
        if len(self.targets) == 1:
            return next(iter(self.targets))
        return "default" if "default" in self.targets else None


def find_config(start: Path, cwd: Path | None = None) -> Path | None:
    """The nearest configuration file from `start` up to the repository root, else that of the working directory."""
    for folder in search_folders(start, cwd or Path.cwd()):
        if path := config_in(folder):
            return path
    return None


def config_in(folder: Path) -> Path | None:
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def load_config(path: Path, environment: Environment) -> TargetsConfig:
    """Load the configuration. Raises `ConfigError` with every problem in it."""
    if path.is_dir():
        inside = config_in(path)
        if inside is None:
            raise ConfigError(
                [Problem(path, 1, 1, f"no configuration in this directory; looked for {', '.join(FILE_NAMES)}")]
            )
        path = inside
    data, findings, line_of = _read(path)
    specs: dict[str, TargetSpec] = {}
    aliases: dict[str, tuple[str, NodePath]] = {}
    for name, node, raw in _entries(data, findings):
        if name == NO_JUDGE:
            findings.add(node, f"a target must not be named `{NO_JUDGE}`: that word disables judging", at_key=True)
        elif not name.strip():
            findings.add(node, "the name of a target must not be blank", at_key=True)
        elif name in specs:
            findings.add(node, f"target '{name}' is configured twice; first at line {specs[name].line}")
        elif (other := _alias_of(raw, environment)) is not None:
            aliases[name] = (other, node)
        elif spec := _spec(name, raw, node, environment, findings, line_of=line_of):
            specs[name] = spec
    _add_aliases(aliases, specs, findings)
    if path.name in PROVIDERS_FILES and "defaults" not in data:
        from agentv.targets import agentv_files  # noqa: PLC0415 - as in `_entries`

        data["defaults"] = agentv_files.defaults_beside(path, specs)
    _add_from_above(path, specs, environment)
    defaults = _defaults(data.get("defaults") or {}, environment, findings)
    nodes = _nodes(data["nodes"], environment, findings) if data.get("nodes") is not None else None
    _check_names(specs, defaults, data, findings)
    if findings:
        raise ConfigError(findings.problems())
    return TargetsConfig(path, specs, environment, defaults, nodes)


def _add_from_above(path: Path, specs: dict[str, TargetSpec], environment: Environment) -> None:
    """Add targets that those of an AgentV file name, if the file of a directory above has them.

    In projects of AgentV, the file of an example often only has its own targets, and the grader is in that of the
    repository.
    """
    if path.name not in AGENTV_FILES:
        return
    folder = path.resolve().parent
    folder = folder.parent if folder.name == ".agentv" else folder
    wanted = {spec.judge_target for spec in specs.values() if spec.judge_target} - {NO_JUDGE, *specs}
    for above in upward(folder, search_root(folder, folder)):
        other = config_in(above) if wanted and above != folder else None
        if other is None:
            continue
        try:
            found = load_config(other, environment).targets
        except ConfigError:  # reported where that file is used
            continue
        for name in sorted(wanted & found.keys()):
            specs[name] = found[name]
        wanted -= found.keys()


def _alias_of(raw: Mapping[str, Any], environment: Environment) -> str | None:
    """The target that an entry is another name of; None if it is not, or if the variable with the name is not set."""
    unset: list[str] = []
    other = interpolate(raw.get("use_target"), environment, unset)
    return other if isinstance(other, str) and not unset else None


def _add_aliases(aliases: Mapping[str, tuple[str, NodePath]], specs: dict[str, TargetSpec], findings: Findings) -> None:
    for name in aliases:
        if spec := _aliased(name, aliases, specs, findings):
            specs[name] = spec


def _aliased(
    name: str, aliases: Mapping[str, tuple[str, NodePath]], specs: Mapping[str, TargetSpec], findings: Findings
) -> TargetSpec | None:
    """The target that a name stands for, under this name."""
    seen = [name]
    while (other := aliases[seen[-1]][0]) in aliases and other not in specs:
        if other in seen:
            findings.add((*aliases[name][1], "use_target"), f"`use_target` leads back to '{other}'")
            return None
        seen.append(other)
    node = aliases[name][1]
    if other not in specs:
        findings.add((*node, "use_target"), _unknown_target(other, specs))
        return None
    return replace(specs[other], name=name, node=node)


def _defaults(raw: Any, environment: Environment, findings: Findings) -> DefaultsModel:
    """The `defaults` section. If it is invalid, the parts that can be read, so that their names are still checked."""
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if _can_be_filled(key, value, environment, findings)}
        raw = interpolate(raw, environment, [])
    if model := validate(DefaultsModel, raw, findings, ("defaults",)):
        return model
    named = raw if isinstance(raw, dict) else {}
    return DefaultsModel(**{key: named[key] for key in DefaultsModel.model_fields if isinstance(named.get(key), str)})


def _nodes(raw: Any, environment: Environment, findings: Findings) -> NodesModel | None:
    """The `nodes` section, with the paths of its files made absolute."""
    from agentv.targets.nodes_section import NodesModel, TlsFiles  # noqa: PLC0415 - few configurations have it

    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if _can_be_filled(key, value, environment, findings, "nodes")}
        raw = interpolate(raw, environment, [])
    model = validate(NodesModel, raw, findings, ("nodes",))
    if model is None or model.tls is None:
        return model
    home = findings.path.resolve().parent
    tls = {name: str(home / Path(value).expanduser()) for name, value in model.tls.model_dump().items()}
    for name, path in tls.items():
        if not Path(path).is_file():
            findings.add(("nodes", "tls", name), f"`{name}`: there is no file {path}")
    return model.model_copy(update={"tls": TlsFiles(**tls)})


def _can_be_filled(
    key: str, value: Any, environment: Environment, findings: Findings, section: str = "defaults"
) -> bool:
    """Whether all variables of an option are set. A missing one is an error: there is no target to mark unavailable."""
    missing: list[str] = []
    interpolate(value, environment, missing)
    if missing:
        findings.add((section, key), f"`{key}`: the environment variable {missing[0]} is not set")
    elif has_unreadable(value):
        findings.add((section, key), f"`{key}`: {UNREADABLE}")
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
        findings.add_at(line, column, f"duplicate key `{key}` (first at line {first})")
    if path.name in PROVIDERS_FILES:
        from agentv.targets import agentv_files  # noqa: PLC0415 - as in `_entries`

        data, findings.origins = agentv_files.as_targets(data)
    if not isinstance(data, dict):
        findings.add((), "expected a mapping with `targets:`")
        raise ConfigError(findings.problems())
    known = ("targets", "defaults", "nodes", "$schema")
    for key in data:
        if key not in known and not key.startswith("x-"):
            findings.add((key,), f"unknown key `{key}`{did_you_mean(key, known)}", at_key=True)
    if not data.get("targets"):
        findings.add((), "`targets` is missing: configure at least one target")

    def line_of(node: NodePath) -> int:
        node = findings.origins.written(node) if findings.origins is not None else node
        return walk.place(node)[0].line

    return data, findings, line_of


def _entries(data: dict[str, Any], findings: Findings) -> list[tuple[str, NodePath, dict[str, Any]]]:
    raw = data.get("targets")
    entries: list[tuple[str, NodePath, dict[str, Any]]] = []
    if isinstance(raw, dict):
        for name, settings in raw.items():
            if isinstance(settings, dict):
                entries.append((name, ("targets", name), settings))
            else:
                findings.add(("targets", name), f"a target must be a mapping with `provider`, got {show(settings)}")
    elif isinstance(raw, list):
        for index, settings in enumerate(raw):
            node: NodePath = ("targets", index)
            name = as_written(settings.get("name")) if isinstance(settings, dict) else None
            if not isinstance(name, str):
                findings.add(node, "a target in a list must be a mapping with `name` and `provider`")
            else:
                entries.append((name, node, {k: v for k, v in settings.items() if k != "name"}))
    elif raw:
        findings.add(("targets",), f"`targets` must be a mapping of names to settings, or a list, got {show(raw)}")
    if findings.path.name not in AGENTV_FILES:
        return entries
    from agentv.targets import agentv_files  # noqa: PLC0415 - only configurations of AgentV need it

    return [(name, node, agentv_files.normalized(settings, node, findings)) for name, node, settings in entries]


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
    if unset or "use_target" in raw:
        reading = read_settings(_AnySettings, raw, environment, findings, node, line_of=line_of)
        return TargetSpec(
            name, raw.get("provider", "use_target"), findings.path, line_of(node), reading, reading.judge_target, node
        )
    if provider is None:
        findings.add(node, f"target '{name}' has no `provider`; choose {one_of(provider_names())}")
        return None
    kind = provider_class(provider) if isinstance(provider, str) else None
    if (advice := _why_unavailable(provider, kind, raw, findings.path)) is not None:
        # Only this target is unavailable; the others in the file can be used.
        reading = read_settings(_AnySettings, raw, environment, findings, node, line_of=line_of)
        reading = replace(reading, settings=None, unavailable=advice)
        return TargetSpec(name, provider, findings.path, line_of(node), reading, reading.judge_target, node)
    if kind is None:
        names = provider_names()
        findings.add(
            (*node, "provider"),
            f"unknown provider {show(provider)}{did_you_mean(str(provider), names)}; available: {all_of(names)}",
        )
        return None
    reading = read_settings(kind.Settings, raw, environment, findings, node, line_of=line_of)
    return TargetSpec(name, provider, findings.path, line_of(node), reading, reading.judge_target, node)


class _AnySettings(TargetSettings):
    model_config = ConfigDict(extra="allow")


def _why_unavailable(provider: Any, kind: Any, raw: Mapping[str, Any], path: Path) -> str | None:
    """What to write instead of a target of AgentV that does not exist here."""
    advice = _instead_of_an_agent(provider) if kind is None else None
    if advice is not None or path.name not in AGENTV_FILES:
        return advice
    from agentv.targets.agentv_files import why_unavailable  # noqa: PLC0415 - as in `_entries`

    return why_unavailable(raw)


def _instead_of_an_agent(provider: Any) -> str | None:
    """What to write instead of an agent of AgentV; None for other unknown providers."""
    from agentv.targets.agentv_files import AGENTS  # noqa: PLC0415 - only unknown providers need it

    if provider not in AGENTS:
        return None
    return (
        f"agentv has no provider for the agent {show(provider)}; run it as a command, for example "
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
    return f"unknown target '{name}'{did_you_mean(name, known)}; available: {all_of(sorted(known))}"


def no_config_error(what_for: str, start: Path) -> AgentVError:
    """The error for a command that needs a target when there is no configuration file."""
    return UsageError(
        f"{what_for}, and there is no configuration file: looked for {FILE_NAMES[0]} "
        f"from {start} upward and in the working directory.",
        next_step=HOW_TO_START,
    )


_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_SECRET_SETTINGS = ("api_key", "headers", "env")
_SCRIPTED = frozenset({"response", "rules", "output_messages", "error"})
"""Settings with the answers of a scripted model. They may contain any text, including the `${{ }}` of other tools."""
UNREADABLE = "`${{ }}` must contain the name of a variable: `${{ NAME }}` or `${{ NAME:-fallback }}`"
_URL_SECRET = re.compile(r"://([^/@\s]+)@|\?([^#\s]+)")
SHORTEST_SECRET = 8
NEVER_SECRET = frozenset({"PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TZ", "TMPDIR", "PWD"})


@dataclass(frozen=True, slots=True)
class Reading:
    """A validated entry: its settings or why it is unavailable, and the variables and secrets it reads."""

    settings: BaseModel | None
    unavailable: str | None
    missing: tuple[str, ...]
    """Required variables that are not set."""
    reads: frozenset[str]
    """Variables it reads: through `${{ }}`, through names in `env`, or because its provider reads them."""
    secret_values: frozenset[str]
    judge_target: str | None
    shown: Mapping[str, Any]
    """The entry as written, with `${{ }}` unfilled. Safe to record."""
    ignored: tuple[str, ...] = ()
    """Settings that have no effect for this provider."""


def read_settings(
    model: type[BaseModel],
    raw: Mapping[str, Any],
    environment: Environment,
    findings: Findings,
    at: NodePath,
    *,
    line_of: Callable[[NodePath], int],
) -> Reading:
    """Validate one entry against its provider's settings. Problems are added to `findings`.

    A missing variable is not a problem: it makes the target unavailable.
    """
    written: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    ignored: list[str] = []
    for key, value in raw.items():
        name = _known_name(key, model)
        if name in getattr(model, "IGNORED", ()) and name not in model.model_fields:
            ignored.append(key)
            continue
        if name in written:
            findings.add((*at, key), f"`{name}` is set twice, under two spellings; keep one", at_key=True)
        written[name], spelled[name] = value, key
        if name not in _SCRIPTED and has_unreadable(value):
            findings.add((*at, key), f"`{key}`: {UNREADABLE}")
    missing: list[str] = []
    templates = getattr(model, "TEMPLATES", ())
    filled = {
        key: interpolate(value, environment, missing, literal if key in templates else None)
        for key, value in written.items()
    }
    own = tuple(getattr(model, "READS", ()))
    if "api_key" in model.model_fields and filled.get("api_key") is None:
        filled = {**filled, **_own_key(own, environment)}
    filled, passed_on = _with_env_names(filled, environment)
    reads = frozenset(variables_in(written) | passed_on | set(own))
    unavailable = None
    if missing:
        unavailable = _missing_reason(missing, written, findings, spelled, lambda key: line_of((*at, key)))
    settings = None
    if unavailable is None:
        settings = validate(model, _typed(model, filled, written), findings, at, spelled)
    else:
        _check_what_can_be(model, filled, written, findings, at, spelled=spelled)
    return Reading(
        settings=settings,
        unavailable=unavailable,
        missing=tuple(dict.fromkeys(missing)),
        reads=reads,
        secret_values=_secret_values(written, filled, reads, environment),
        judge_target=_judge_target(settings, filled, written, missing),
        shown=written,
        ignored=tuple(ignored),
    )


def _judge_target(
    settings: BaseModel | None, filled: Mapping[str, Any], written: Mapping[str, Any], missing: list[str]
) -> str | None:
    """The judge target in the settings. Of an invalid entry, the name if readable, so that it is still checked."""
    if settings is not None:
        name = getattr(settings, "judge_target", None)
    else:
        name = None if variables_in(written.get("judge_target")) & set(missing) else filled.get("judge_target")
    name = as_written(name)
    return name if isinstance(name, str) else None


def _known_name(key: str, model: type[BaseModel]) -> str:
    """The setting that a key refers to: `commandTemplate` is `command_template`; `ALIASES` lists other spellings."""
    names = {field.alias or name for name, field in model.model_fields.items()}
    if key in names:
        return key
    aliases: Mapping[str, str] = getattr(model, "ALIASES", {})
    snake = _CAMEL.sub(lambda match: "_" + match.group(1).lower(), key)
    return aliases.get(key) or aliases.get(snake) or (snake if snake in names else key)


def _own_key(own: tuple[str, ...], environment: Environment) -> dict[str, str]:
    for name in own:
        if name.endswith("_API_KEY") and (value := environment.get(name)):
            return {"api_key": value}
    return {}


def _with_env_names(filled: dict[str, Any], environment: Environment) -> tuple[dict[str, Any], set[str]]:
    """`env: [NAME, ...]` passes variables through by name."""
    names = filled.get("env")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return filled, set()
    variables = {name: environment.values[name] for name in names if name in environment.values}
    return {**filled, "env": variables}, set(names)


def _missing_reason(
    missing: list[str],
    written: Mapping[str, Any],
    findings: Findings,
    spelled: Mapping[str, str],
    line_of: Callable[[str], int],
) -> str:
    name = missing[0]
    key = spelled[next(key for key, value in written.items() if name in variables_in(value))]
    more = f" (also missing: {', '.join(sorted(set(missing) - {name}))})" if len(set(missing)) > 1 else ""
    return (
        f"the environment variable {name} is not set; it is used by `{key}` at {findings.path}:{line_of(key)}{more}. "
        f"Set it in the environment or in a .env file"
    )


def _typed(model: type[BaseModel], filled: dict[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The values with strings from variables converted to numbers and booleans where the setting requires that."""
    try:
        model.model_validate(filled)
    except ValidationError as error:
        wrong = {item["loc"][0] for item in error.errors(include_url=False) if item["loc"]}
    else:
        return filled
    return {
        key: resolve_plain(value) if key in wrong and isinstance(value, str) and variables_in(written[key]) else value
        for key, value in filled.items()
    }


def _check_what_can_be(
    model: type[BaseModel],
    filled: dict[str, Any],
    written: Mapping[str, Any],
    findings: Findings,
    at: NodePath,
    *,
    spelled: Mapping[str, str],
) -> None:
    """Report problems that do not depend on the missing variables."""
    scratch = Findings(findings.path)
    validate(model, filled, scratch, at, spelled)
    unfilled = {(*at, spelled[key]) for key, value in written.items() if variables_in(value)}
    for node, message, at_key, _ in scratch.by_node():
        if not any(node[: len(path)] == path for path in unfilled) and IS_MISSING not in message:
            findings.add(node, message, at_key=at_key)


def _secret_values(
    written: Mapping[str, Any], filled: Mapping[str, Any], reads: frozenset[str], environment: Environment
) -> frozenset[str]:
    names = {name for name in reads if looks_secret(name)}
    for key in _SECRET_SETTINGS:
        names |= variables_in(written.get(key))
    if isinstance(written.get("env"), list):
        names |= {name for name in written["env"] if isinstance(name, str)}
    found = {environment.get(name) or "" for name in names if may_be_secret(name)}
    found.update(_strings(filled.get("api_key")))
    found.update(_literal_secrets(written.get("headers")))
    for text in _strings(list(written.values())):
        if variables_in(text) and "://" in (url := interpolate(text, environment, [])):
            found.update(part for match in _URL_SECRET.finditer(url) for part in _url_parts(match))
            found.update(environment.get(name) or "" for name in _variables_of_url(text) if may_be_secret(name))
    return frozenset(value for value in found if len(value) >= SHORTEST_SECRET)


def _literal_secrets(headers: Any) -> set[str]:
    """Keys that are written in headers, with and without the scheme in front of them (`Bearer`)."""
    if not isinstance(headers, Mapping):
        return set()
    texts = [
        text for name, text in headers.items() if isinstance(text, str) and holds_secret(str(name)) and "{{" not in text
    ]
    return {part for text in texts for part in (text, text.split()[-1] if text.split() else text)}


def _variables_of_url(text: str) -> set[str]:
    """Variables in the user info and query of a URL. Their values may contain characters that end either part."""
    return {name for match in _URL_SECRET.finditer(marked(text)) for name in match[0].split(MARK)[1::2]}


def _url_parts(match: re.Match[str]) -> list[str]:
    if user_info := match.group(1):
        return [user_info, *user_info.split(":", 1)]
    return [pair.partition("=")[2] for pair in match.group(2).split("&")]


def may_be_secret(name: str) -> bool:
    """Whether a variable counts as secret when a target reads it: all except those that every program needs."""
    return name not in NEVER_SECRET and not name.startswith("LC_")


def looks_secret(name: str) -> bool:
    """Whether the name of a variable indicates that its value is a secret."""
    return any(word in name.upper() for word in _SECRET_WORDS)


def holds_secret(name: str) -> bool:
    """Whether a header or variable of this name contains a secret."""
    return looks_secret(name) or name.lower() in ("authorization", "proxy-authorization", "cookie")


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping | list):
        items = value.values() if isinstance(value, Mapping) else value
        return [text for item in items for text in _strings(item)]
    return []
