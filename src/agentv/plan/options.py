"""What a user asks of a run: the options of `agentv eval`, kept in `run.json` so that a run can be resumed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from agentv.errors import UsageError

_WHOLE = {"workers": 1, "repeat": 1, "max_judge_calls": 0}
"""Options that are whole numbers, and the least they may be."""
_NUMBERS = {"timeout": (0.0, math.inf), "threshold": (0.0, 1.0), "max_cost": (0.0, math.inf)}
_ABOVE_ZERO = ("timeout", "max_cost")
_TEXTS = ("judge_target", "config", "outputs", "out")
_LISTS = ("paths", "targets", "cases")
_SPOKEN = {"paths": "the path of a suite", "targets": "`target`", "cases": "`case`", "run_dir": "`run-dir`"}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The choices of one run. Paths are as given, relative to the working directory of the run."""

    paths: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    judge_target: str | None = None
    config: str | None = None
    cases: tuple[str, ...] = ()
    workers: int | None = None
    repeat: int = 1
    timeout: float | None = None
    threshold: float | None = None
    outputs: str | None = None
    out: str | None = None
    record_judge_io: bool = False
    cache: bool = False
    max_cost: float | None = None
    max_judge_calls: int | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str | None):
                raise UsageError(f"`{name}` is text, not {getattr(self, name)!r}.")
        for name in _LISTS:
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
                raise UsageError(f"`{name}` is a list of texts, not {value!r}.")
        refuse_empty(asdict(self))
        for name, least in _WHOLE.items():
            value = getattr(self, name)
            if value is None and name != "repeat":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"`{name}` is a whole number from {least}, not {value!r}.")
        for name, (lowest, highest) in _NUMBERS.items():
            value = getattr(self, name)
            if value is not None and not _is_within(value, lowest, highest, above=name in _ABOVE_ZERO):
                allowed = "above 0" if name in _ABOVE_ZERO else f"from {lowest:g} to {highest:g}"
                raise UsageError(f"`{name}` is a finite number {allowed}, not {value!r}.")

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known
        }
        return cls(**given)


def refuse_empty(given: Mapping[str, Any]) -> None:
    """An option that is there and empty was meant to say something: nothing is guessed in its place."""
    for name, value in given.items():
        if value == "" or (isinstance(value, Iterable) and not isinstance(value, str) and "" in value):
            raise UsageError(
                f"{_SPOKEN.get(name, f'`{name}`')} is empty.",
                next_step="Give it a value, or leave it out. A variable of the shell that is not set is empty too.",
            )


def _is_within(value: Any, least: float, most: float, *, above: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return value > least if above else least <= value <= most
