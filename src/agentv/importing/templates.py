"""Nunjucks templates, as promptfoo writes them, in the Jinja2 that suites use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from agentv.templates import TemplateError, compile_template, has_template

DEEPEST = 5
"""How often promptfoo renders a variable whose value contains variables."""
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_DUMP = re.compile(r"\|\s*dump\b")
_ENVIRONMENT = re.compile(
    r"""\{\{-?\s*env\.(?P<name>[A-Za-z_]\w*)\s*
    (?:(?:\|\s*(?:default|d)\(\s*|(?:or|\|\|)\s+)(?P<quote>["'])(?P<fallback>[^"'{}]*)(?P=quote)\s*(?:,\s*true\s*)?\)?\s*)?-?\}\}""",
    re.VERBOSE,
)


class UnsupportedTemplateError(ValueError):
    """A template that Jinja2 cannot render; the message is the reason."""


def converted(value: Any) -> Any:
    """The value with every template in it in the syntax of Jinja2. Raises UnsupportedTemplateError."""
    if isinstance(value, str):
        return _converted(value) if has_template(value) else value
    if isinstance(value, list):
        return [converted(item) for item in value]
    if isinstance(value, Mapping):
        return {key: converted(item) for key, item in value.items()}
    return value


def _converted(text: str) -> str:
    changed = _TAG.sub(lambda tag: _DUMP.sub("| tojson", tag[0]), text)
    try:
        template = compile_template(changed)
    except TemplateError as error:
        raise UnsupportedTemplateError(f"the template {_shown(text)} cannot be used: {error}") from None
    if "env" in template.names:
        raise UnsupportedTemplateError(
            f"the template {_shown(text)} reads an environment variable; write the value as a variable"
        )
    if "_conversation" in template.names:
        raise UnsupportedTemplateError(f"the template {_shown(text)} reads earlier answers with `_conversation`")
    return changed


def _shown(text: str) -> str:
    tag = _TAG.search(text)
    return (tag[0] if tag else text.strip())[:60]


def render(template: Any, values: dict[str, Any]) -> Any:
    """Render every string in a value, as agentv will. Variables without a value are added as empty strings.

    Raises UnsupportedTemplateError.
    """
    if isinstance(template, str):
        return _render(template, values) if has_template(template) else template
    if isinstance(template, list):
        return [render(item, values) for item in template]
    if isinstance(template, Mapping):
        return {key: render(item, values) for key, item in template.items()}
    return template


def _render(text: str, values: dict[str, Any]) -> str:
    while True:
        try:
            return compile_template(text).render(values)
        except TemplateError as error:
            if error.name is None or error.name in values or f"unknown variable `{error.name}`" not in str(error):
                raise UnsupportedTemplateError(
                    f"the template {_shown(text)} cannot be rendered with the variables of the test: {error}"
                ) from None
            values[error.name] = ""


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Variables whose values contain other variables, rendered. Other text with braces stays as it is."""
    current = dict(values)
    for _ in range(DEEPEST):
        changed = {name: _rendered(value, current) for name, value in current.items()}
        if changed == current:
            break
        current = changed
    return current


def _rendered(value: Any, values: Mapping[str, Any]) -> Any:
    if not _has_template(value):
        return value
    try:
        return render(converted(value), dict(values))
    except UnsupportedTemplateError:
        return value


def _has_template(value: Any) -> bool:
    if isinstance(value, str):
        return has_template(value)
    if isinstance(value, Mapping | list):
        return any(map(_has_template, value.values() if isinstance(value, Mapping) else value))
    return False


def environment_variables(value: Any) -> Any:
    """Convert `{{ env.NAME }}` to `${{ NAME }}` in every string of a value; `default("x")` becomes `:-x`."""
    if isinstance(value, str):
        return _ENVIRONMENT.sub(_as_setting, value)
    if isinstance(value, list):
        return [environment_variables(item) for item in value]
    return {key: environment_variables(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _as_setting(tag: re.Match[str]) -> str:
    fallback = tag["fallback"]
    return f"${{{{ {tag['name']} }}}}" if fallback is None else f"${{{{ {tag['name']}:-{fallback} }}}}"


def combinations(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One mapping for every combination of the values of list variables."""
    choices = [value if isinstance(value, list) and value else [value] for value in values.values()]
    for chosen in product(*choices):
        yield dict(zip(values, chosen, strict=True))
