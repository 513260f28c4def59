"""Options of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """How much to measure. `say` is called with what is being measured."""

    quick: bool = False
    peers: bool = False
    say: Callable[[str], None] = lambda _: None

    def pick(self, full: T, quick: T) -> T:
        """`full` for a measurement, `quick` for a smoke test."""
        return quick if self.quick else full
