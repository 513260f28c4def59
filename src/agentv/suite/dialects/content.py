"""Values of suites in other dialects: variables, and the short forms of input and expected output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentv.suite.yaml_scalars import resolve_plain

_VARIABLE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_FIELD = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
_TIMES = frozenset({"start_time", "end_time", "duration_ms"})


def with_environment(value: Any, variable: Callable[[str], str]) -> Any:
    """The value with `${{ NAME }}` replaced in all strings. A string that is nothing else may become a number."""
    if isinstance(value, str):
        if "${{" not in value:
            return value
        filled = _VARIABLE.sub(lambda match: variable(match[1]), value)
        return resolve_plain(filled) if _VARIABLE.fullmatch(value.strip()) and _is_typed(filled) else filled
    if isinstance(value, dict):
        return {key: with_environment(item, variable) for key, item in value.items()}
    if isinstance(value, list):
        return [with_environment(item, variable) for item in value]
    return value


def _is_typed(text: str) -> bool:
    return text in ("true", "false") or re.fullmatch(r"-?\d+(?:\.\d+)?", text) is not None


def with_fields(value: Any, variables: Mapping[str, Any]) -> Any:
    """The value with `{{ name }}` and `{{ a.b }}` replaced in all strings; unknown names stay as they are."""
    if isinstance(value, str):
        if "{{" not in value:
            return value
        if (whole := _FIELD.fullmatch(value.strip())) is not None:
            known, item = _looked_up(whole[1], variables)
            return item if known else value
        return _FIELD.sub(lambda match: _text(match[0], *_looked_up(match[1], variables)), value)
    if isinstance(value, dict):
        return {key: with_fields(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [with_fields(item, variables) for item in value]
    return value


def has_fields(value: Any) -> bool:
    """Whether a string in the value has a variable of a case."""
    if isinstance(value, str):
        return _FIELD.search(value) is not None
    if isinstance(value, dict | list):
        return any(map(has_fields, value.values() if isinstance(value, dict) else value))
    return False


def _looked_up(name: str, variables: Mapping[str, Any]) -> tuple[bool, Any]:
    value: Any = variables
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value


def _text(written: str, known: bool, value: Any) -> str:
    if not known:
        return written
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_messages(value: Any, role: str) -> Any:
    """An input or an expected output as a list of messages. Values that are neither stay, and are reported later."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, dict):
        return [_message(value)] if "role" in value else [{"role": role, "content": value}]
    if not isinstance(value, list):
        return value
    if value and not any(isinstance(item, dict) and "role" in item for item in value):
        if role == "user":
            return value
        return [{"role": role, "content": json.dumps(value, indent=2, ensure_ascii=False)}]
    return [_message(item) if isinstance(item, dict) else item for item in value]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the times that AgentV records, and with strings among its parts as text parts."""
    known = {key: item for key, item in message.items() if key not in _TIMES}
    content = known.get("content")
    if isinstance(content, list):
        known["content"] = [{"type": "text", "value": part} if isinstance(part, str) else part for part in content]
    calls = known.get("tool_calls")
    if isinstance(calls, list):
        known["tool_calls"] = [
            {key: item for key, item in call.items() if key not in _TIMES} if isinstance(call, dict) else call
            for call in calls
        ]
    return known


def file_parts(paths: Any) -> list[Any]:
    """The parts of a message for `input_files`."""
    listed = paths if isinstance(paths, list) else [paths]
    return [{"type": "file", "value": path} for path in listed]


def with_files(messages: Any, paths: Any) -> Any:
    """The messages, with the files before the text of the first message of the user."""
    if not isinstance(messages, list):
        return messages
    first = next((i for i, each in enumerate(messages) if isinstance(each, dict) and each.get("role") == "user"), None)
    if first is None:
        return [*messages, {"role": "user", "content": file_parts(paths)}]
    content = messages[first].get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "value": content}]
    return [*messages[:first], {**messages[first], "content": [*file_parts(paths), *parts]}, *messages[first + 1 :]]


def merged_metadata(outer: Any, own: Any) -> Any:
    """The metadata of a suite and of a case: lists are joined, mappings merged, otherwise the case wins."""
    if not isinstance(outer, dict) or not isinstance(own, dict):
        return own
    result = dict(outer)
    for key, value in own.items():
        before = result.get(key)
        if isinstance(before, list) and isinstance(value, list):
            result[key] = [*before, *(item for item in value if item not in before)]
        elif isinstance(before, dict) and isinstance(value, dict):
            result[key] = merged_metadata(before, value)
        else:
            result[key] = value
    return result


def merged_fields(outer: Mapping[str, Any], own: Any) -> Mapping[str, Any]:
    """The variables of a suite, overridden by those of a case."""
    return {**outer, **own} if isinstance(own, dict) else outer
