"""The engines that provide nodes, by the scheme of `--on`. To add one, add a file and a line to `ENGINES`.

Other packages add engines with the entry point `agentv.engines`: a name, which is the scheme, and a function or class
that takes an `EngineAddress` and returns a `Channel`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from typing import Any, cast

from agentv.errors import UsageError
from agentv.nodes.channel import Channel
from agentv.targets.nodes_section import NodesModel
from agentv.text import did_you_mean, one_of

GROUP = "agentv.engines"
ENGINES = {
    "local": "agentv.nodes.engines.local:LocalEngine",
    "tcp": "agentv.nodes.engines.dask:DaskEngine",
    "tls": "agentv.nodes.engines.dask:DaskEngine",
    "ray": "agentv.nodes.engines.ray:RayEngine",
}
EXAMPLES = "tls://scheduler:8786, tcp://127.0.0.1:8786, ray://head:10001, ray:auto or local:2"


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """What the user wrote for `--on`, and how nodes are used."""

    text: str
    settings: NodesModel

    @property
    def scheme(self) -> str:
        return self.text.partition(":")[0]

    @property
    def rest(self) -> str:
        """What follows the scheme and its colon, without slashes."""
        return self.text.partition(":")[2].removeprefix("//")


def open_channel(address: EngineAddress) -> Channel:
    """The channel to the nodes of an engine, not yet entered. Raises `UsageError` if there is no such engine."""
    check_address(address)
    place = ENGINES.get(address.scheme)
    if place is None:
        return cast("Callable[[EngineAddress], Channel]", _others()[address.scheme].load())(address)
    module, _, name = place.partition(":")
    return cast("Callable[[EngineAddress], Channel]", getattr(import_module(module), name))(address)


def check_address(address: EngineAddress) -> None:
    """Raise UsageError if there is no such engine. Imports no engine."""
    known = ENGINES.keys() | _others().keys()
    if address.scheme not in known or not address.rest:
        hint = did_you_mean(address.scheme, known) if address.scheme not in known else ""
        raise UsageError(
            f"--on must name nodes, such as {EXAMPLES}; got '{address.text}'{hint}",
            next_step=f"The part before the colon is the engine: {one_of(sorted(known))}.",
        )


@cache
def _others() -> dict[str, Any]:
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
