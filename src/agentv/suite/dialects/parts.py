"""A part of a suite that is being normalised: what moves where, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentv.suite.dialects.tables import unsupported
from agentv.suite.findings import Findings
from agentv.suite.models import CaseModel, SuiteModel
from agentv.suite.validation import known_keys
from agentv.suite.yaml import NodePath
from agentv.text import did_you_mean

OUR_NAMES = frozenset({*known_keys(SuiteModel, ()), *known_keys(CaseModel, ())})


@dataclass(slots=True)
class Part:
    """The head of a suite, or one of its cases, while it is turned into our form."""

    findings: Findings
    moved: dict[NodePath, NodePath] = field(default_factory=dict)
    """Where nodes are written, by their path in our form."""

    def move(self, at: NodePath, written: NodePath) -> None:
        if at != written:
            self.moved[at] = written

    def refuse(self, written: NodePath, message: str, *, at_key: bool = True) -> None:
        """Report a problem at a node of the file."""
        origins, self.findings.origins = self.findings.origins, None
        self.findings.add(written, message, at_key=at_key)
        self.findings.origins = origins

    def refuse_unsupported(self, raw: Mapping[str, Any], table: Mapping[str, str], written: NodePath) -> None:
        """Report every key of the mapping that names a feature which does not exist here."""
        for key in raw:
            if key in table and raw[key] is not None:
                self.refuse((*written, key), unsupported(key, table[key]))

    def misspelled(self, keys: Collection[str], names: Collection[str], written: NodePath) -> set[str]:
        """The keys that are nearly one of AgentV's names, which are reported. Our names and `x-` are not among them."""
        wrong: set[str] = set()
        for key in sorted(keys):
            if key not in names and key not in OUR_NAMES and (near := did_you_mean(key, names)):
                self.refuse((*written, key), f"unknown key `{key[:60]}`{near}")
                wrong.add(key)
        return wrong

    def renamed(
        self, raw: Mapping[str, Any], names: Mapping[str, str], at: NodePath, written: NodePath
    ) -> dict[str, Any]:
        """The mapping with our names as keys. Two spellings of one thing are a problem."""
        result: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for key, value in raw.items():
            ours = names.get(key, key)
            if ours in result:
                self.refuse((*written, key), f"`{key}` and `{spelled[ours]}` mean the same: keep one")
                continue
            result[ours], spelled[ours] = value, key
            self.move((*at, ours), (*written, key))
        return result
