"""`--shard I/N`: one of N parts of a run, each of which has a driver of its own.

All attempts, prompts and targets of a case are in the same shard. What a run may spend is divided among the shards.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.suite.suite import EvalSuite
from agentv.text import plural

_WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` shards; `index` begins with 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, written: str) -> Shard | None:
        """The shard that is written as `2/4`; None if it is not one."""
        match = _WRITTEN.fullmatch(written)
        shard = cls(int(match[1]), int(match[2])) if match else None
        return shard if shard is not None and shard.index <= shard.count else None

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def has(self, suite: str, case_id: str) -> bool:
        """Whether the case is in this shard. The same on every machine and with every version of Python."""
        digest = hashlib.sha256(json.dumps(["shard", suite, case_id]).encode("ascii")).digest()
        return int.from_bytes(digest, "big") % self.count == self.index - 1

    def cases(self, suites: Sequence[EvalSuite], selected: Mapping[Path, frozenset[str]]) -> dict[Path, frozenset[str]]:
        """Those of the selected cases that are in this shard."""
        return {
            suite.path: frozenset(case_id for case_id in selected[suite.path] if self.has(suite.name, case_id))
            for suite in suites
        }

    def whole_share(self, total: int) -> int:
        """This shard's part of a whole number. The parts of all shards add up to `total`."""
        return total // self.count + (self.index <= total % self.count)

    def share(self, total: float) -> float:
        return total / self.count


@dataclass(frozen=True, slots=True)
class ShardOfRun:
    """The shard that a plan is restricted to."""

    shard: Shard
    cases: int
    all_cases: int
    """The cases of all shards together."""

    @property
    def note(self) -> str:
        few = f"{self.cases:,}" if self.cases else "none"
        return f"shard {self.shard}: {few} of {plural(self.all_cases, 'case')}"

    def to_dict(self) -> dict[str, Any]:
        """For `run.json`."""
        return {
            "index": self.shard.index,
            "count": self.shard.count,
            "cases": self.cases,
            "all_cases": self.all_cases,
            "note": self.note,
        }
