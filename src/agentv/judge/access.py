"""Judge access: the permission that a suite gives a script, and the ways to write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentv.judge.ledger import DEFAULT_MAX_CALLS
from agentv.wire.apis.registry import VENDORS


class JudgeAccess(BaseModel):
    """The judge access of one script: its call limit, its targets and its timeout."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    max_calls: int = Field(DEFAULT_MAX_CALLS, ge=0, description="Judge calls per execution; 0 refuses every call.")
    target: str | None = Field(None, min_length=1, description="The judge target of this evaluator.")
    allowed_targets: list[str] | None = Field(
        None,
        description="Targets the script may choose, besides the judge target. Default: all except `cli` targets.",
    )
    timeout_seconds: float = Field(60.0, gt=0, description="Deadline of one judge call.")
    models: dict[str, str] | None = Field(
        None,
        description="Model names of client libraries -> the targets to use for them. Other names use the judge target.",
    )
    embeddings: str | None = Field(
        None, min_length=1, description="Target of provider `embeddings` that answers requests for embeddings."
    )
    openai: bool = Field(
        True, description="Set `OPENAI_BASE_URL`, `OPENAI_API_BASE` and `OPENAI_API_KEY` to the judge proxy."
    )
    anthropic: bool = Field(True, description="Set `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY` to the judge proxy.")
    gemini: bool = Field(
        True, description="Set `GOOGLE_GEMINI_BASE_URL`, `GEMINI_API_KEY` and `GOOGLE_API_KEY` to the judge proxy."
    )

    @property
    def vendors(self) -> tuple[str, ...]:
        """The vendors whose client libraries find the judge proxy by their variables."""
        return tuple(name for name in VENDORS if getattr(self, name))

    @property
    def targets(self) -> list[str]:
        """All targets that are named."""
        named = (self.target, self.embeddings, *(self.allowed_targets or ()), *(self.models or {}).values())
        return [name for name in named if name is not None]


Complain = Callable[[str, str], None]
"""Reports a problem: the option, and what is wrong with it."""


def read_access(options: dict[str, Any], complain: Complain) -> Any | None:
    """The options of `judge` if the evaluator's options request judge access, else None.

    Removes `judge`, `target` (another spelling of it), `use_judge_provider` and `judge_provider` from the options.
    """
    written: dict[str, Any] = {key: options.pop(key) for key in ("judge", "target") if key in options}
    if len(written) == 2:
        complain("target", "`judge` and `target` mean the same here; keep `judge`")
    access = _access(written, complain)
    old = _old_access(options, complain)
    if written and old is not _UNSET and (access is None) != (old is None):
        effect = "enables judge access" if access is not None else "does not"
        complain(
            "use_judge_provider", f"`use_judge_provider` contradicts `{next(iter(written))}`, which {effect}; keep one"
        )
    if access is not None and isinstance(old, Mapping) and old and dict(access) != dict(old):
        complain("judge_provider", "`judge_provider` and `judge` have different options; keep one")
    return access if access is not None else (None if old is _UNSET else old)


_UNSET: Any = object()


def _access(written: dict[str, Any], complain: Complain) -> Any | None:
    for key, value in written.items():
        if value is None:
            complain(key, f"`{key}` is empty; write `{key}: {{}}` to enable judge access, or remove it")
        elif value is True:
            return {}
        elif isinstance(value, Mapping):
            return value
        elif value is not False:
            complain(key, f"`{key}` must be true, false or options like `{{max_calls: 10}}`, got {value!r}")
    return None


def _old_access(options: dict[str, Any], complain: Complain) -> Any:
    """The same for the older options `use_judge_provider` and `judge_provider`; `_UNSET` if they are absent."""
    provider = options.pop("judge_provider", _UNSET)
    use = options.pop("use_judge_provider", _UNSET)
    if use is not _UNSET and not isinstance(use, bool):
        complain("use_judge_provider", f"`use_judge_provider` must be true or false, got {use!r}")
        return _UNSET
    if provider is not _UNSET and use is not True:
        complain("judge_provider", "`judge_provider` requires `use_judge_provider: true`")
        return None if use is False else _UNSET
    if provider is not _UNSET and not isinstance(provider, Mapping):
        complain("judge_provider", "`judge_provider` must be options like `{max_calls: 10}`")
        return {}
    if use is _UNSET:
        return _UNSET
    return None if use is False else ({} if provider is _UNSET else provider)
