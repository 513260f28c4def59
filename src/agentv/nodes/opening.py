"""Opens the nodes of a run: reads the files to send, and connects to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentv.nodes.engines import EngineAddress, open_channel
from agentv.nodes.remote import RemotePlace
from agentv.nodes.trees import MB, Tree, read_tree, root_of
from agentv.redact import Redactor
from agentv.targets.nodes_section import NodesModel
from agentv.targets.secrets import Secrets
from agentv.text import plural

REASON_SHOWN = 500


async def open_nodes(
    on: str,
    settings: NodesModel,
    directories: Sequence[Path],
    secrets: Secrets,
    on_note: Callable[[str], None] | None = None,
    *,
    configs: Iterable[Path] = (),
) -> RemotePlace:
    """The nodes, not yet entered. `directories` are those whose files scripts and commands need.

    The configurations of targets are not sent, because they may contain keys, nor is the key of the driver.
    """
    redactor = Redactor(secrets.values)
    own = [path.resolve() for path in (*configs, *([] if settings.tls is None else [Path(settings.tls.key)]))]
    channel = open_channel(EngineAddress(on, settings))
    trees = await asyncio.to_thread(_trees, directories, settings, own)
    left = [
        each.path
        for tree in trees
        for each in tree.left_out
        if not each.expected and (tree.root / each.path).resolve() not in own
    ]
    if on_note is not None and left:
        on_note(f"{plural(len(left), 'file')} of the repository cannot be sent to nodes, such as {left[0]}")
    return RemotePlace(
        channel,
        settings,
        trees=trees,
        secret_names=secrets.names,
        clean=lambda text: redactor.head(text, REASON_SHOWN),
        holds_secret=redactor.finds if redactor.active else None,
        on_note=on_note,
        where=on,
    )


def _trees(directories: Sequence[Path], settings: NodesModel, leave_out: Sequence[Path]) -> list[Tree]:
    """The files of the repositories of these directories. A repository inside another one is part of it."""
    roots = sorted({root_of(directory) for directory in directories}, key=lambda root: len(root.parts))
    outer: list[Path] = []
    for root in roots:
        if not any(root.is_relative_to(each) for each in outer):
            outer.append(root)
    return [read_tree(root, max_bytes=round(settings.max_ship_mb * MB), leave_out=leave_out) for root in outer]
