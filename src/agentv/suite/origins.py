"""Where the parts of a normalised suite are written, so that problems in them are reported in the user's words.

Suites of other dialects are turned into ours before they are validated (`dialects`). Their problems are found by the
path of the node in our form; `Origins` maps it back to the path in the file, and our names to the names in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentv.suite.yaml import NodePath

_QUOTED = re.compile(r"`([A-Za-z_]\w*)`")


@dataclass(slots=True)
class Origins:
    """Where the nodes of a file are written, by their path in our form. Nodes below one of them move with it."""

    words: Mapping[str, str] = field(default_factory=dict)
    """Names of the dialect, by our names."""
    of_head: dict[NodePath, NodePath] = field(default_factory=dict)
    of_case: dict[NodePath, NodePath] = field(default_factory=dict)
    """Those of the case that is being read."""

    def written(self, node: NodePath) -> NodePath:
        """The path in the file of a node."""
        for length in range(len(node), 0, -1):
            origin = self.of_case.get(node[:length]) or self.of_head.get(node[:length])
            if origin is not None:
                return (*origin, *node[length:])
        return node

    def in_words(self, message: str, node: NodePath) -> str:
        """A message about a node, with our names in backticks replaced by those in the file."""
        names = dict(self.words)
        for length in range(1, len(node) + 1):
            ours, theirs = node[length - 1], self.written(node[:length])
            written = theirs[-1] if theirs else ours
            if isinstance(ours, str) and isinstance(written, str) and ours != written:
                names[ours] = written
        return _QUOTED.sub(lambda match: f"`{names.get(match[1], match[1])}`", message)
