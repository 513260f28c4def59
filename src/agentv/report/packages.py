"""What changed in the Python of judge scripts between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN = 5


def package_changes(now: Any, then: Any) -> list[str]:
    """The differences between two records of an interpreter (`interpreters` in `run.json`), in words."""
    if not isinstance(now, Mapping) or not isinstance(then, Mapping):
        return []
    new, old = _versions(now), _versions(then)
    lines = [
        f"{name} {old[name]} -> {new[name]}" if name in old and name in new else _added(name, old, new)
        for name in sorted(new.keys() | old.keys(), key=lambda name: (name != "Python", name.lower()))
        if new.get(name) != old.get(name)
    ]
    more = len(lines) - _SHOWN
    return lines if more <= 1 else [*lines[:_SHOWN], f"{more} other packages changed"]


def _added(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    return f"{name} {new[name]} is new" if name in new else f"{name} {old[name]} is gone"


def _versions(record: Mapping[str, Any]) -> dict[str, str]:
    packages = record.get("packages")
    own = packages.items() if isinstance(packages, Mapping) else ()
    return {"Python": str(record.get("version")), **{str(name): str(version) for name, version in own}}
