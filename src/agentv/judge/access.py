"""Judge access: the permission a suite gives a script, and the ways to write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentv.judge.ledger import DEFAULT_MAX_CALLS


class JudgeAccess(BaseModel):
    """What a script may ask of the judge."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    max_calls: int = Field(DEFAULT_MAX_CALLS, ge=0, description="Judge calls per execution; 0 refuses every call.")
    target: str | None = Field(None, min_length=1, description="The judge target of this evaluator.")
    allowed_targets: list[str] | None = Field(
        None, description="Targets the script may choose, besides the judge target. Default: every configured one."
    )
    timeout_seconds: float = Field(60.0, gt=0, description="Deadline of one judge call.")


Complain = Callable[[str, str], None]
"""Tells a mistake: the option, and what is wrong with it."""


def read_access(options: dict[str, Any], complain: Complain) -> Any | None:
    """The access that an evaluator's options ask for, as options of `judge`; None when they ask for none.

    Takes `judge`, `target` (another spelling of it), `use_judge_provider` and `judge_provider` out of the options.
    """
    named: dict[str, Any] = {key: options.pop(key) for key in ("judge", "target") if key in options}
    if len(named) == 2:
        complain("target", "`judge` and `target` mean the same here: keep `judge`")
    asked = _asked(named, complain)
    old = _asked_the_old_way(options, complain)
    if named and old is not _UNSAID and (asked is None) != (old is None):
        said = "enables judge access" if asked is not None else "does not"
        complain(
            "use_judge_provider", f"`use_judge_provider` contradicts `{next(iter(named))}`, which {said}: keep one"
        )
    if asked is not None and isinstance(old, Mapping) and old and dict(asked) != dict(old):
        complain("judge_provider", "`judge_provider` and `judge` give different options: keep one")
    return asked if asked is not None else (None if old is _UNSAID else old)


_UNSAID: Any = object()


def _asked(named: dict[str, Any], complain: Complain) -> Any | None:
    for key, value in named.items():
        if value is None:
            complain(key, f"`{key}` is empty: write `{key}: {{}}` to enable judge access, or leave it out")
        elif value is True:
            return {}
        elif isinstance(value, Mapping):
            return value
        elif value is not False:
            complain(key, f"`{key}` takes true, false or options like `{{max_calls: 10}}`, not {value!r}")
    return None


def _asked_the_old_way(options: dict[str, Any], complain: Complain) -> Any:
    provider = options.pop("judge_provider", _UNSAID)
    use = options.pop("use_judge_provider", _UNSAID)
    if use is not _UNSAID and not isinstance(use, bool):
        complain("use_judge_provider", f"`use_judge_provider` takes true or false, not {use!r}")
        return _UNSAID
    if provider is not _UNSAID and use is not True:
        complain("judge_provider", "`judge_provider` needs `use_judge_provider: true` beside it")
        return None if use is False else _UNSAID
    if provider is not _UNSAID and not isinstance(provider, Mapping):
        complain("judge_provider", "`judge_provider` takes options like `{max_calls: 10}`")
        return {}
    if use is _UNSAID:
        return _UNSAID
    return None if use is False else ({} if provider is _UNSAID else provider)
