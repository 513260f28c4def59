"""Fill in `{{ variable }}` once. Variables inside values are not expanded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

_NAME = r"[A-Za-z_$][\w$-]*(?:\.[\w$-]+|\[\d+\])*"
_VARIABLE = re.compile(r"\{\{-?\s*(" + _NAME + r")\s*-?\}\}")
_OTHER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_ENVIRONMENT = re.compile(r"\{\{\s*env\.([A-Za-z_]\w*)\s*\}\}")
_STEP = re.compile(r"[^.\[\]]+")


class TemplateError(ValueError):
    """A template that uses unsupported syntax, which is the message."""


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill in the variables of a template. Variables without a value become empty."""
    for other in _OTHER.finditer(template):
        if not _VARIABLE.fullmatch(other[0]) or other[0].replace(" ", "").startswith("{{env."):
            raise TemplateError(other[0][:60])
    return _VARIABLE.sub(lambda match: as_text(_look_up(match[1], values)), template)


def render_all(value: Any, values: Mapping[str, Any]) -> Any:
    """Render every string in a value."""
    if isinstance(value, str):
        return render(value, values)
    if isinstance(value, list):
        return [render_all(item, values) for item in value]
    if isinstance(value, Mapping):
        return {key: render_all(item, values) for key, item in value.items()}
    return value


def missing(template: str, values: Mapping[str, Any]) -> list[str]:
    """Variables of a template that have no value."""
    names = dict.fromkeys(_STEP.findall(name)[0] for name in _VARIABLE.findall(template))
    return [name for name in names if name not in values]


def environment_variables(text: str) -> str:
    """Convert `{{ env.NAME }}` to `${{ NAME }}`."""
    return _ENVIRONMENT.sub(r"${{ \1 }}", text)


def as_text(value: Any) -> str:
    """A value as text, for insertion into a template."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _look_up(name: str, values: Mapping[str, Any]) -> Any:
    value: Any = values
    for step in _STEP.findall(name):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def combinations(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One mapping for every combination of the values of list variables."""
    choices = [value if isinstance(value, list) and value else [value] for value in values.values()]
    for chosen in product(*choices):
        yield dict(zip(values, chosen, strict=True))
