"""The workloads, the same for every tool."""

from __future__ import annotations

from dataclasses import dataclass

DELAY = 0.05
"""Seconds the model takes to answer."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The number of cases, the model calls each of them needs, and the maximum number of calls in flight."""

    name: str
    title: str
    cases: int
    calls: int = 0
    in_flight: int = 50

    @property
    def ideal(self) -> float:
        """Seconds it would take if the maximum number of calls were always in flight."""
        return self.cases * self.calls * DELAY / self.in_flight


FULL = (
    Workload("version", "`--version`", 0),
    Workload("one-case", "one case", 1, 1, 1),
    Workload("contains", "`contains`, 1,000 cases", 1_000, 1),
    Workload("llm-judge", "LLM judge, 1,000 cases", 1_000, 2),
    Workload("script", "script, 200 cases", 200, 1),
    Workload("script-judge", "script that asks the judge, 200 cases", 200, 2),
)
QUICK = (
    Workload("version", "`--version`", 0),
    Workload("one-case", "one case", 1, 1, 1),
    Workload("contains", "`contains`, 20 cases", 20, 1, 5),
    Workload("llm-judge", "LLM judge, 20 cases", 20, 2, 6),
    Workload("script", "script, 6 cases", 6, 1, 3),
    Workload("script-judge", "script that asks the judge, 6 cases", 6, 2, 4),
)
