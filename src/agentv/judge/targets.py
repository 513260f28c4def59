"""The judge targets of a session: which of them a script may choose, and why not the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from agentv.targets.provider import Provider
from agentv.text import short_or_described


@dataclass(frozen=True, slots=True)
class JudgeTargets:
    """The judge targets of a session: available providers by name, and why others are unavailable."""

    default: str
    live: Mapping[str, Provider]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    allowed: Collection[str] | None = None
    """Names that a script may choose; None allows all that run no command. The default is always allowed."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Model names of client libraries -> the targets to use for them, which are allowed."""
    embeddings: str | None = None
    """The target that answers requests for embeddings."""
    replayed: bool = False
    """Whether all replies come from the record of another run (`--replay`)."""

    def __post_init__(self) -> None:
        if self.default not in self.live:
            raise ValueError(f"the default judge target '{self.default}' is not among the live targets")

    def permits(self, name: str) -> bool:
        if name == self.default:
            return True
        if self.embeds(name):  # it cannot judge
            return False
        if name in self.models.values():
            return True
        return name in self.allowed if self.allowed is not None else not self.runs_commands(name)

    def embeds(self, name: str) -> bool:
        """Whether the target only answers requests for embeddings."""
        return name in self.live and self.live[name].embeds

    def runs_commands(self, name: str) -> bool:
        """Whether a call to this target starts a program, which would see text that a script chose."""
        return name in self.live and self.live[name].runs_commands

    @property
    def available(self) -> list[str]:
        return sorted(name for name in self.live if self.permits(name))

    def of_model(self, model: str) -> str:
        """The target for the model that a client library asks for.

        A target that the script may choose and that is unavailable is not replaced: choosing it is an error.
        """
        if (model in self.live or model in self.unavailable) and self.permits(model):
            return model
        return self.models.get(model, self.default)

    def problem(self, name: str, *, embeds: bool = False) -> str | None:
        """Why a call, or with `embeds` a request for embeddings, cannot go to this target; None if it can."""
        for_embeddings = embeds and name == self.embeddings
        allowed = for_embeddings or self.permits(name)
        if name in self.live and allowed:
            return None
        if allowed and name in self.unavailable:
            return f"target '{name}' is not available: {self.unavailable[name]}"
        if self.embeds(name):
            return f"target '{name}' only embeds; name it in `judge.embeddings` of this evaluator"
        if self.allowed is None and self.runs_commands(name):
            return f"target '{name}' is a `cli` target; name it in `judge.allowed_targets` of this evaluator"
        if name in self.live or name in self.unavailable:
            return f"target '{name}' is not allowed for this evaluator"
        return f"unknown target '{short_or_described(name, 100)}'"
