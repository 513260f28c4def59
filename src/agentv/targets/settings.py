"""One entry of the configuration -> the settings of its provider, with variables filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from agentv.suite.findings import Findings
from agentv.suite.validation import validate
from agentv.suite.yaml import NodePath
from agentv.suite.yaml_scalars import as_written, resolve_plain
from agentv.targets.environment import MARK, Environment, has_unreadable, interpolate, marked, variables_in

_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_SECRET_SETTINGS = ("api_key", "headers", "env")
_SCRIPTED = frozenset({"response", "rules", "output_messages", "error"})
"""What a scripted model says: any text, also one about `${{ }}` of other tools."""
UNREADABLE = "`${{ }}` takes the name of an environment variable: `${{ NAME }}` or `${{ NAME:-fallback }}`"
_URL_SECRET = re.compile(r"://([^/@\s]+)@|\?([^#\s]+)")
SHORTEST_SECRET = 8
NEVER_SECRET = frozenset({"PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TZ", "TMPDIR", "PWD"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What an entry came to: its settings, or why it is not available; and which secrets it reads."""

    settings: BaseModel | None
    unavailable: str | None
    missing: tuple[str, ...]
    """Variables it needs that are not set."""
    reads: frozenset[str]
    """Variables it reads, through `${{ }}`, through `env` names, or because its provider does on its own."""
    secret_values: frozenset[str]
    judge_target: str | None
    shown: Mapping[str, Any]
    """The entry as written, variables not filled in: what a run may record."""


def read_settings(
    model: type[BaseModel],
    raw: Mapping[str, Any],
    environment: Environment,
    findings: Findings,
    at: NodePath,
    *,
    line_of: Callable[[NodePath], int],
) -> Reading:
    """Check one entry against its provider's settings. Mistakes go to `findings`; a missing variable does not."""
    written: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for key, value in raw.items():
        name = _known_name(key, model)
        if name in written:
            findings.add((*at, key), f"`{name}` is set twice, under two spellings: keep one", at_key=True)
        written[name], spelled[name] = value, key
        if name not in _SCRIPTED and has_unreadable(value):
            findings.add((*at, key), f"`{key}`: {UNREADABLE}")
    missing: list[str] = []
    filled = {key: interpolate(value, environment, missing) for key, value in written.items()}
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
    )


def _judge_target(
    settings: BaseModel | None, filled: Mapping[str, Any], written: Mapping[str, Any], missing: list[str]
) -> str | None:
    """As the settings have it; of an entry without settings what can be read, so that the name is still checked."""
    if settings is not None:
        name = getattr(settings, "judge_target", None)
    else:
        name = None if variables_in(written.get("judge_target")) & set(missing) else filled.get("judge_target")
    name = as_written(name)
    return name if isinstance(name, str) else None


def _known_name(key: str, model: type[BaseModel]) -> str:
    """The setting a key means: `commandTemplate` reads as `command_template`, others by the provider's table."""
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
    """`env: [NAME, ...]` hands variables through by name."""
    names = filled.get("env")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return filled, set()
    found = {name: environment.values[name] for name in names if name in environment.values}
    return {**filled, "env": found}, set(names)


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
        f"the environment variable {name} is not set; `{key}` at {findings.path}:{line_of(key)} reads it{more}. "
        f"Set it in the environment or in a .env file"
    )


def _typed(model: type[BaseModel], filled: dict[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and booleans that came out of variables are text; read them where the setting is not text."""
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
    """Mistakes that do not depend on the missing variables are still told."""
    scratch = Findings(findings.path)
    validate(model, filled, scratch, at, spelled)
    unfilled = {(*at, spelled[key]) for key, value in written.items() if variables_in(value)}
    for node, message, at_key in scratch.by_node():
        if not any(node[: len(path)] == path for path in unfilled) and "is missing" not in message:
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
    found.update(_texts(filled.get("api_key")))
    for text in _texts(list(written.values())):
        if variables_in(text) and "://" in (url := interpolate(text, environment, [])):
            found.update(part for match in _URL_SECRET.finditer(url) for part in _url_parts(match))
            found.update(environment.get(name) or "" for name in _variables_of_url(text) if may_be_secret(name))
    return frozenset(value for value in found if len(value) >= SHORTEST_SECRET)


def _variables_of_url(text: str) -> set[str]:
    """Those in its user-info and query. Their values may hold characters that end either."""
    return {name for match in _URL_SECRET.finditer(marked(text)) for name in match[0].split(MARK)[1::2]}


def _url_parts(match: re.Match[str]) -> list[str]:
    if user_info := match.group(1):
        return [user_info, *user_info.split(":", 1)]
    return [pair.partition("=")[2] for pair in match.group(2).split("&")]


def may_be_secret(name: str) -> bool:
    """Whether a variable counts as secret when a target reads it: all but those every program needs."""
    return name not in NEVER_SECRET and not name.startswith("LC_")


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    return any(word in name.upper() for word in _SECRET_WORDS)


def holds_secret(name: str) -> bool:
    """Whether a header or variable of this name is there to hold a secret."""
    return looks_secret(name) or name.lower() in ("authorization", "proxy-authorization", "cookie")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping | list):
        items = value.values() if isinstance(value, Mapping) else value
        return [text for item in items for text in _texts(item)]
    return []
