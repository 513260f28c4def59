from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentv.messages import GenerationOptions
from agentv.targets.provider import Provider, Request, TargetScope
from agentv.targets.registry import provider_class


def make(directory: Path, provider: str, /, *, scope: dict[str, Any] | None = None, **settings: Any) -> Any:
    """A live provider, created as from a configuration."""
    kind = provider_class(provider)
    assert kind is not None
    options = {"name": "t", "directory": directory, "environment": dict(os.environ), **(scope or {})}
    built: Provider = kind(kind.Settings(provider=provider, **settings), TargetScope(**options))
    return built


def ask(question: str | None = None, *, schema: dict[str, Any] | None = None, **details: Any) -> Request:
    """A request with a question, or with the `messages` of a conversation."""
    if question is None and not details.get("messages"):
        question = "q"
    options = details.pop("options", GenerationOptions(response_schema=schema))
    return Request(question, options=options, **details)
