"""The same work in agentv and in other evaluation tools, side by side: `python -m benchmarks.peers`."""

from benchmarks.peers.one_case import install

__all__ = ["install"]
