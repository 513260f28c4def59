"""`{{ variable }}` filled in once. What a value holds is never looked at again."""

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
    """A template that uses more than variables; the message is what it uses."""


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text with its variables filled in; one without a value is empty."""
    for other in _OTHER.finditer(template):
        if not _VARIABLE.fullmatch(other[0]) or other[0].replace(" ", "").startswith("{{env."):
            raise TemplateError(other[0][:60])
    return _VARIABLE.sub(lambda found: as_text(_look_up(found[1], values)), template)


def render_all(value: Any, values: Mapping[str, Any]) -> Any:
    """The same for every text in a value."""
    if isinstance(value, str):
        return render(value, values)
    if isinstance(value, list):
        return [render_all(item, values) for item in value]
    if isinstance(value, Mapping):
        return {key: render_all(item, values) for key, item in value.items()}
    return value


def missing(template: str, values: Mapping[str, Any]) -> list[str]:
    """Variables of a template that have no value."""
    names = dict.fromkeys(_STEP.findall(found)[0] for found in _VARIABLE.findall(template))
    return [name for name in names if name not in values]


def environment_variables(text: str) -> str:
    """`{{ env.NAME }}` as a configuration of agentv spells it."""
    return _ENVIRONMENT.sub(r"${{ \1 }}", text)


def as_text(value: Any) -> str:
    """A value as it reads inside a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _look_up(name: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for step in _STEP.findall(name):
        if isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def combinations(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One mapping for every choice among the variables that are lists."""
    choices = [value if isinstance(value, list) and value else [value] for value in values.values()]
    for chosen in product(*choices):
        yield dict(zip(values, chosen, strict=True))
