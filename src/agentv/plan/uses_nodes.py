"""Which nodes a run uses, and what can run there."""

from __future__ import annotations

from collections.abc import Iterable

from agentv.errors import UsageError
from agentv.plan.plan import UsesNodes
from agentv.targets.config import TargetsConfig
from agentv.targets.nodes_section import NodesModel

NO_NODES = "none"
"""The value of `--on` that overrides `nodes.on` of the configuration."""


def nodes_named(option: str | None, configs: Iterable[TargetsConfig | None]) -> UsesNodes | None:
    """The nodes that a run uses; None for none. Raises UsageError if configurations differ."""
    sections = {config.path: config.nodes for config in configs if config is not None and config.nodes is not None}
    several = list(sections.items())
    if any(section != several[0][1] for _, section in several[1:]):
        raise UsageError(
            f"{several[0][0]} and {several[1][0]} have different `nodes`, but a run uses one set of nodes.",
            next_step="Make them equal, or run the suites separately.",
        )
    settings = NodesModel() if not several else several[0][1]
    on = option or settings.on
    if on is None or on == NO_NODES:
        return None
    from agentv.nodes.engines import EngineAddress, check_address  # noqa: PLC0415 - most runs use no nodes

    check_address(EngineAddress(on, settings))
    return UsesNodes(on, settings)
