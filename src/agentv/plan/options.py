"""What a user asks of a run: the options of `agentv eval`, kept in `run.json` so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


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

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known
        }
        return cls(**given)
