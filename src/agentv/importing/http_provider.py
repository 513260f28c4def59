"""Convert promptfoo's HTTP provider to a target with `provider: http`."""

from __future__ import annotations

import re
from typing import Any

from agentv.importing.source import FILE, Node, Notes, entries
from agentv.importing.templates import UnsupportedTemplateError, converted, environment_variables
from agentv.templates import compile_template, has_template

VARIABLES = {"prompt", "messages", "vars", "eval_id", "attempt", "system_prompt"}
_ARROW = re.compile(r"^\(?\s*json\s*(?:,\s*\w+\s*)*\)?\s*=>\s*")
_PATH = re.compile(r"json((?:\??\.[A-Za-z_]\w*|(?:\?\.)?\[\d+\]|(?:\?\.)?\[['\"][\w-]+['\"]\])*);?")
_SECRET = re.compile(r"authorization|api-?key|token|cookie|secret", re.IGNORECASE)


def http_settings(identity: str, config: Node | None, notes: Notes) -> dict[str, Any] | None:
    """The settings of the target; None if the address of the request is missing."""
    url = (config.raw("url") if config else None) or (identity if "://" in identity else None)
    if not isinstance(url, str) or "://" not in environment_variables(url):
        return None
    settings: dict[str, Any] = {"provider": "http", "url": environment_variables(url)}
    for key, entry in entries(config):
        if key in ("method", "headers", "body"):
            _copy(settings, key, entry, notes)
        elif key in ("transformResponse", "responseParser"):
            path = response_path(entry.value)
            if path is None:
                notes.left_out(entry, f"`{key}` is a program; write `response` as a JMESPath expression")
            elif path:
                settings["response"] = path
        elif key != "url":
            notes.left_out(entry, f"`{key}` in the provider's config is not imported")
    if "body" in settings:
        settings.setdefault("method", "POST")
    return settings


def _copy(settings: dict[str, Any], key: str, entry: Node, notes: Notes) -> None:
    value = environment_variables(entry.value)
    if isinstance(value, str) and value.startswith(FILE):
        notes.left_out(entry, f"`{key}` in a file is not imported; copy it into the target")
        return
    try:
        value = converted(value)
        unknown = sorted(_names(value) - VARIABLES)
    except UnsupportedTemplateError as error:
        notes.left_out(entry, f"`{key}`: {error}")
        return
    if key == "headers" and isinstance(value, dict):
        value = {name: _masked(str(name), text, entry, notes) for name, text in value.items()}
    for name in unknown:
        value = _as_variable(value, name)
    settings[key] = value


def _masked(name: str, text: Any, entry: Node, notes: Notes) -> Any:
    """The value of a header; a secret is replaced by a variable."""
    if not _SECRET.search(name) or "{{" in str(text):
        return text
    variable = re.sub(r"\W+", "_", name).upper()
    notes.left_out(entry, f"the value of the header {name} is not copied; set the environment variable {variable}")
    return f"${{{{ {variable} }}}}"


def _as_variable(value: Any, name: str) -> Any:
    """Read a variable of the cases from `vars`, so that it may be missing in some of them."""
    if isinstance(value, str):
        return re.sub(rf"(\{{\{{-?\s*){name}\b", rf"\1vars.{name}", value)
    if isinstance(value, list):
        return [_as_variable(item, name) for item in value]
    return {key: _as_variable(item, name) for key, item in value.items()} if isinstance(value, dict) else value


def _names(value: Any) -> set[str]:
    if isinstance(value, str):
        text = re.sub(r"\$\{\{.*?\}\}", "", value)
        return set(compile_template(text).names) if has_template(text) else set()
    if isinstance(value, dict | list):
        return {name for item in (value.values() if isinstance(value, dict) else value) for name in _names(item)}
    return set()


def response_path(value: Any) -> str | None:
    """A JavaScript path like `json.choices[0].text` as JMESPath; empty for the whole reply, None for a program."""
    if not isinstance(value, str) or value.startswith(FILE):
        return None
    text = _ARROW.sub("", value.strip())
    if text == "text":
        return ""
    match = _PATH.fullmatch(text)
    if match is None:
        return None
    path = re.sub(r"\[['\"]([\w-]+)['\"]\]", r'."\1"', match[1].replace("?.[", "[").replace("?", ""))
    return path.removeprefix(".")
