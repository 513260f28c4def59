"""The options of a run, in one table for `agentv eval`, `agentv.evaluate(...)` and `run.json`.

To add an option, add a field to `RunOptions`; the command line, its help and the reference are generated from it. For
editors, also add its Python keyword to `agentv.api.Options`; a test compares the two.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from agentv.errors import UsageError
from agentv.text import one_of

if TYPE_CHECKING:
    from agentv.plan.shards import Shard


SHARDS = "I/N, such as 2/4, with I from 1 to N"


@dataclass(frozen=True, slots=True)
class Option:
    """The name, the help and the allowed values of an option."""

    kind: Literal["text", "file", "list", "whole", "number", "switch", "choice", "shard"]
    help: str
    metavar: str = ""
    keyword: str = ""
    """Its name in Python and, with dashes, on the command line; empty for the positional argument."""
    least: float = -math.inf
    most: float = math.inf
    is_open: bool = False
    """Whether `least` itself is excluded."""
    default: Any = None
    may_change: bool = False
    """Whether `--resume` accepts a new value."""
    choices: tuple[str, ...] = ()
    """The allowed values of a choice."""

    @property
    def flag(self) -> str:
        return f"--{self.keyword.replace('_', '-')}"

    @property
    def expected(self) -> str:
        """The allowed values in words."""
        if self.kind in ("whole", "number"):
            noun = "a whole number" if self.kind == "whole" else "a finite number"
            if math.isinf(self.most):
                return f"{noun} {'above' if self.is_open else 'from'} {self.least:g}"
            return f"{noun} from {self.least:g} to {self.most:g}"
        if self.kind == "choice":
            return one_of(self.choices)
        others = {"list": "a list of strings", "switch": "true or false", "shard": SHARDS}
        return others.get(self.kind, "a string")

    def check(self, name: str, value: Any) -> None:
        """UsageError if the value is not allowed."""
        if not self._allows(value):
            raise UsageError(f"`{name}` must be {self.expected}, got {value!r}.")

    def _allows(self, value: Any) -> bool:
        if value is None:
            return self.default is None
        if self.kind == "switch":
            return isinstance(value, bool)
        if self.kind == "list":
            return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        if self.kind == "choice":
            return isinstance(value, str) and value in self.choices
        if self.kind in ("text", "file"):
            return isinstance(value, str)
        if self.kind == "shard":
            return isinstance(value, str) and _shard(value) is not None
        number = int if self.kind == "whole" else int | float
        if isinstance(value, bool) or not isinstance(value, number) or not math.isfinite(value):
            return False
        return self.least < value <= self.most if self.is_open else self.least <= value <= self.most


def _shard(written: str) -> Shard | None:
    from agentv.plan.shards import Shard  # noqa: PLC0415 - few runs have one

    return Shard.parse(written)


def _text(metavar: str, keyword: str, text: str) -> Any:
    return _field(Option("text", text, metavar, keyword))


def _file(keyword: str, text: str, *, may_change: bool = False) -> Any:
    return _field(Option("file", text, "FILE", keyword, may_change=may_change))


def _list(metavar: str, keyword: str, text: str) -> Any:
    return _field(Option("list", text, metavar, keyword, default=()))


def _whole(keyword: str, text: str, least: int, *, default: int | None = None, may_change: bool = False) -> Any:
    return _field(Option("whole", text, "N", keyword, least=least, default=default, may_change=may_change))


def _above_zero(metavar: str, keyword: str, text: str, *, may_change: bool = False) -> Any:
    return _field(Option("number", text, metavar, keyword, least=0, is_open=True, may_change=may_change))


def _share(metavar: str, keyword: str, text: str) -> Any:
    return _field(Option("number", text, metavar, keyword, least=0, most=1))


def _switch(keyword: str, text: str) -> Any:
    return _field(Option("switch", text, keyword=keyword, default=False))


def _choice(keyword: str, text: str, *choices: str) -> Any:
    """The first choice is the default."""
    metavar = "|".join(choices)
    return _field(Option("choice", text, metavar, keyword, default=choices[0], choices=choices))


def _field(option: Option) -> Any:
    return field(default=option.default, metadata={"option": option})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run. Paths are kept as given, relative to the working directory of the run."""

    paths: tuple[str, ...] = _list("[PATHS]...", "", "Suite files, directories or globs.")
    targets: tuple[str, ...] = _list("NAME", "target", "Target to run; repeatable.")
    prompts: tuple[str, ...] = _list("FILE", "prompt", "Prompt file to use instead of the suites' prompts; repeatable.")
    judge_target: str | None = _text(
        "NAME", "judge_target", "Judge target (overrides all other settings); `none` disables judging."
    )
    config: str | None = _file("config", "Target configuration (default: the one nearest to each suite).")
    cases: tuple[str, ...] = _list("GLOB", "case", "Run only cases whose id matches; repeatable.")
    tags: tuple[str, ...] = _list("TAG", "tag", "Run only cases with this tag; repeatable (any of them).")
    exclude_tags: tuple[str, ...] = _list("TAG", "exclude_tag", "Skip cases with this tag; repeatable.")
    where: tuple[str, ...] = _list(
        "EXPR", "where", "Run only cases with `metadata.KEY=VALUE` (or `!=`); repeatable (all of them)."
    )
    sample: int | None = _whole("sample", "Run a random sample of N of the selected cases.", 1)
    seed: int | None = _whole("seed", "Seed of --sample; the same seed selects the same cases.  [0]", 0)
    shard: str | None = _field(
        Option("shard", "Run only shard I of N of the selected cases (see `agentv merge`).", "I/N", "shard")
    )
    workers: int | None = _whole("workers", "Cases judged at a time per target, while as many are answered.  [16]", 1)
    repeat: int | None = _whole("repeat", "Attempts per case, which give one verdict.  [`execution.trials`, else 1]", 1)
    on: str | None = _field(
        Option(
            "text",
            "Run scripts and commands on nodes: tls://HOST:PORT, tcp://HOST:PORT, ray://HOST:PORT, ray:auto, local:N.",
            "NODES",
            "on",
            may_change=True,
        )
    )
    timeout: float | None = _above_zero("S", "timeout", "Timeout for one target call, in seconds.")
    threshold: float | None = _share("S", "threshold", "Minimum score for a case to pass.  [0.8]")
    outputs: str | None = _file("outputs", "Grade existing answers (JSON Lines, or a run) instead of calling targets.")
    replay: str | None = _field(
        Option("file", "Answer targets and judges from the record of this run; nothing is called.", "RUN", "replay")
    )
    out: str | None = _file("out", "Also write rows to this file as they finish.", may_change=True)
    judge_io: str = _choice("judge_io", "Prompts and replies of judge calls to record.", "all", "failures", "none")
    cache: bool = _switch("cache", "Cache judge replies in .agentv/cache.")
    max_cost: float | None = _above_zero("USD", "max_cost", "Stop before spending more than this.", may_change=True)
    max_judge_calls: int | None = _whole(
        "max_judge_calls", "Maximum number of judge calls in the run.", 0, may_change=True
    )

    max_consecutive_errors: int | None = _whole(
        "max_consecutive_errors",
        "Equal errors in a row after which a target is declared down; 0 for never.  [20]",
        0,
        may_change=True,
    )

    def __post_init__(self) -> None:
        refuse_empty({name: getattr(self, name) for name in OPTIONS})
        for name, option in OPTIONS.items():
            option.check(name, getattr(self, name))

    @property
    def own_shard(self) -> Shard | None:
        """The shard that the run is restricted to, if any."""
        return None if self.shard is None else _shard(self.shard)

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in OPTIONS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        """Options by field name, as in `run.json`; other keys are ignored."""
        data = _without_aliases(data)
        return cls(**{name: _as_tuple(data[name]) for name in OPTIONS if name in data})

    @classmethod
    def from_keywords(cls, paths: tuple[str, ...], keywords: Mapping[str, Any]) -> RunOptions:
        """Options by Python keyword. A list may be a single string, a file may be a `Path`; None means the default."""
        values: dict[str, Any] = {"paths": paths}
        keywords = _without_aliases(keywords)
        for name, option in OPTIONS.items():
            if option.keyword and (value := keywords.get(option.keyword)) is not None:
                values[name] = _from_python(option, value)
                option.check(option.keyword, values[name])
        return cls(**values)


OPTIONS: Mapping[str, Option] = {each.name: each.metadata["option"] for each in fields(RunOptions)}
"""Every option of a run by field name, in the order of the help."""


RECORD_JUDGE_IO = "record_judge_io"
"""Older name, a switch: true is `judge_io: all`, and false is `judge_io: none`."""


def _without_aliases(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options without the older names of options, which `run.json` of older versions contains, too."""
    if (switch := data.get(RECORD_JUDGE_IO)) is None:
        return data
    Option("switch", "").check(RECORD_JUDGE_IO, switch)
    io, meant = data.get("judge_io"), "all" if switch else "none"
    if io is not None and io != meant and (io == "all" or switch):
        raise UsageError(
            f"`{RECORD_JUDGE_IO}` ({str(switch).lower()}) and `judge_io` ({io}) contradict each other.",
            next_step=f"Use `judge_io` only; `{RECORD_JUDGE_IO}` is an older name for `judge_io: all`.",
        )
    return {**data, "judge_io": io or meant}


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _from_python(option: Option, value: Any) -> Any:
    if option.kind == "file":
        return os.fspath(value) if isinstance(value, os.PathLike) else value
    if option.kind == "list":
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else value
    return value


def refuse_empty(values: Mapping[str, Any]) -> None:
    """UsageError for an option with an empty value, such as an unset shell variable."""
    for name, value in values.items():
        if value == "" or (isinstance(value, tuple) and "" in value):
            option = OPTIONS.get(name)
            keyword = option.keyword if option else name.replace("_", "-")
            raise UsageError(
                f"`{keyword}` must not be empty." if keyword else "The path of a suite must not be empty.",
                next_step="Set a value or omit it. An unset shell variable is empty, too.",
            )
