"""The error for an interpreter that cannot be used."""

from __future__ import annotations

from agentv.errors import AgentVError


class InterpreterError(AgentVError):
    """The interpreter that `python` names cannot be used, or its packages cannot be installed. Nothing was run."""
