"""Cases chosen one by one: those that did not pass in another run, or that a saved file has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentv.results import CaseKey, is_of


@dataclass(frozen=True, slots=True)
class ChosenCases:
    """The cases to run, by suite and target. Recorded in `run.json`, so that the run can be resumed."""

    why: str
    """For `run.json` and messages: `did not pass in run 20261116-...`."""
    ids: Mapping[tuple[str, str | None], frozenset[str]]
    """Case ids by suite and target; the target None stands for every target."""
    targets: frozenset[str] = frozenset()
    """The targets that `ids` was chosen for. Any other target gets all chosen cases."""

    @classmethod
    def of_rows(cls, why: str, keys: Iterable[CaseKey], targets: Iterable[str]) -> ChosenCases:
        """These cases, each with its target. `targets` are all targets of their run."""
        ids: dict[tuple[str, str | None], set[str]] = {}
        for key in keys:
            ids.setdefault((key.suite, key.target), set()).add(key.eval_id)
        return cls(why, {place: frozenset(own) for place, own in ids.items()}, frozenset(targets))

    def of(self, suite: str, target: str | None = None) -> frozenset[str]:
        """The cases of a suite that run with this target (or variant), or with any target."""
        known = target in self.targets
        parts = [ids for (name, own), ids in self.ids.items() if name == suite and (not known or own in (None, target))]
        return frozenset().union(*parts)

    def of_target(self, suite: str, target: str) -> frozenset[str]:
        """The cases of a suite that run with this target and any of its prompts."""
        variants = {variant for variant in self.targets if is_of(variant, target)}
        return frozenset().union(*(self.of(suite, variant) for variant in variants or {target}))

    def only(self, why: str, cases: Mapping[str, frozenset[str]]) -> ChosenCases:
        """Those of the chosen cases that are also in `cases`, which has ids by suite."""
        ids = {place: own & cases.get(place[0], frozenset()) for place, own in self.ids.items()}
        return ChosenCases(why, {place: own for place, own in ids.items() if own}, self.targets)

    def to_dict(self) -> dict[str, Any]:
        cases = [
            {"suite": suite, "target": target, "ids": sorted(ids)}
            for (suite, target), ids in sorted(self.ids.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        ]
        return {"why": self.why, "targets": sorted(self.targets), "cases": cases}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChosenCases:
        """The choice recorded in `run.json`. ValueError, KeyError or TypeError if it is damaged."""
        ids = {(item["suite"], item["target"]): frozenset(item["ids"]) for item in data["cases"]}
        return cls(str(data["why"]), ids, frozenset(data["targets"]))
