"""What single types of assertions need besides other names: a function for each, by our type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentv.suite.dialects.parts import Part
from agentv.suite.dialects.tables import FILE, JAVASCRIPT_FLAGS_IGNORED, SCRIPT_OPTIONS
from agentv.suite.yaml import NodePath


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a list of assertions: as written, where it will be, and where it is written."""

    raw: Mapping[str, Any]
    at: NodePath
    written: NodePath
    part: Part

    def move(self, ours: NodePath, theirs: NodePath) -> None:
        """An option that is written under another name."""
        self.part.move((*self.at, *ours), (*self.written, *theirs))


def with_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a script, with the keys that are not options in its `config`, whose own keys win."""
    own = {key: value for key, value in raw.items() if key in SCRIPT_OPTIONS}
    extra = {key: value for key, value in raw.items() if key not in own}
    config = own.get("config")
    if extra and (config is None or isinstance(config, dict)):
        own["config"] = {**extra, **(config or {})}
    return own


def _script(result: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """A script: a string is for a shell, and a script that prints no JSON is judged by its exit code."""
    del entry
    if isinstance(result.get("script"), str):
        result["script"] = ["sh", "-c", result["script"]]
    if result.get("judge") is True:
        result["judge"] = {}
    return {"score_from_exit_code": True, **result}


def _judge(result: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """A judge: by its prompt, or by the criteria under `rubrics` or `value`."""
    key = "value" if "value" in result else "rubrics"
    if key in result:
        criteria = result.pop(key)
        single = isinstance(criteria, str | dict)
        result["rubrics"] = [criteria] if single else criteria
        entry.move(("rubrics",), (key,))
        if single:
            entry.move(("rubrics", 0), (key,))
    if isinstance(result.get("prompt"), str):
        result["prompt"] = result["prompt"].removeprefix(FILE)
    return result


def _rubric(result: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """Criteria, which may be a single one."""
    del entry
    criteria = result.get("rubrics")
    return {**result, "rubrics": [criteria] if isinstance(criteria, str | dict) else criteria}


def _regex(result: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """A pattern of JavaScript. The flag `y`, which means that it matches at the start, becomes part of it."""
    del entry
    flags = result.get("flags")
    if isinstance(flags, str):
        if "y" in flags and isinstance(result.get("pattern"), str):
            result["pattern"] = f"^(?:{result['pattern']})"
        result["flags"] = "".join(letter for letter in flags if letter not in JAVASCRIPT_FLAGS_IGNORED)
    return {"dialect": "javascript", **result}


def _skill(result: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """A skill that should be used, or should not."""
    del entry
    should = result.pop("should_trigger", True)
    if should is False:
        result["negate"] = not result.get("negate", False)
    return result


def _trajectory(result: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """Tool calls, whose arguments must be equal unless something else is set."""
    del entry
    return {"args_match": "exact", **result} if "expected" in result else result


KINDS: Mapping[str, Callable[[dict[str, Any], Entry], dict[str, Any]]] = {
    "code_judge": _script,
    "llm_judge": _judge,
    "rubric": _rubric,
    "regex": _regex,
    "skill_used": _skill,
    "tool_trajectory": _trajectory,
}
