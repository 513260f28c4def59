"""The values a judge script meets: its payload, its result, and what the judge proxy answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .errors import did_you_mean, failed_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Value:
    """Shown and compared by its fields. Plain classes: `dataclasses` would cost 15 ms per execution."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class JudgeReply(Value):
    """One reply of the judge. In a batch, an item that failed has `error` and `code` set.

    A failed item has no text: reading its `raw_text` raises what `invoke` would have raised, so that a judge that
    failed is never taken for one that said nothing.
    """

    __slots__ = ("_raw_text", "code", "error", "output_messages", "usage")

    def __init__(
        self,
        raw_text: str = "",
        output_messages: Sequence[Mapping[str, Any]] = (),
        usage: Mapping[str, Any] | None = None,
        error: str | None = None,
        code: str | None = None,
    ) -> None:
        self._raw_text = raw_text
        self.output_messages = list(output_messages)
        self.usage = usage
        self.error = error
        self.code = code

    @property
    def raw_text(self) -> str:
        if self.error is not None:
            raise failed_item(self.error, self.code)
        return self._raw_text

    def __repr__(self) -> str:
        if self.error is not None:
            return f"JudgeReply(error={self.error!r}, code={self.code!r})"
        return f"JudgeReply({self._raw_text!r}, output_messages={self.output_messages!r}, usage={self.usage!r})"


class JudgeInfo(Value):
    """Who judges, and how many calls are allowed and made."""

    __slots__ = ("available_targets", "call_count", "max_calls", "target_name")

    def __init__(self, target_name: str, max_calls: int, call_count: int, available_targets: Sequence[str]) -> None:
        self.target_name = target_name
        self.max_calls = max_calls
        self.call_count = call_count
        self.available_targets = list(available_targets)


class CodeJudgeResult(Value):
    """What a judge found. Only `score` is required: a finite number, 0 worst and 1 best."""

    __slots__ = ("details", "hits", "misses", "reasoning", "score")

    def __init__(
        self,
        score: float,
        hits: Sequence[str] = (),
        misses: Sequence[str] = (),
        reasoning: str | None = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.score = score
        self.hits = hits
        self.misses = misses
        self.reasoning = reasoning
        self.details = details


_KEYS = (
    "eval_id",
    "attempt",
    "target",
    "suite",
    "question",
    "input_messages",
    "input_files",
    "expected_outcome",
    "expected_messages",
    "reference_answer",
    "candidate_answer",
    "output_messages",
    "guideline_files",
    "trace_summary",
    "metadata",
    "config",
)
_LISTS = frozenset({"input_messages", "input_files", "expected_messages", "output_messages", "guideline_files"})


class CodeJudgeInput(Value):
    """The payload of one execution. What is absent is `[]` for a list, else `None`; `raw` is all of it."""

    __slots__ = (*_KEYS, "raw")

    eval_id: str | None
    attempt: int | None
    target: str | None
    suite: str | None
    question: str | None
    input_messages: list[dict[str, Any]]
    input_files: list[Any]
    expected_outcome: str | None
    expected_messages: list[dict[str, Any]]
    reference_answer: str | None
    candidate_answer: str | None
    output_messages: list[dict[str, Any]]
    guideline_files: list[Any]
    trace_summary: dict[str, Any] | None
    metadata: dict[str, Any] | None
    config: dict[str, Any] | None
    raw: Mapping[str, Any]

    def __init__(self, raw: Mapping[str, Any]) -> None:
        for name in _KEYS:
            value = raw.get(name)
            setattr(self, name, [] if value is None and name in _LISTS else value)
        self.raw = raw

    def __repr__(self) -> str:
        return f"CodeJudgeInput({self.raw!r})"

    if not TYPE_CHECKING:  # a type checker must see an unknown attribute as the mistake it is

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"a judge's input has no {name!r}{did_you_mean(name, self.__slots__)} it has "
                f"{', '.join(self.__slots__)}; keys of the payload that are not listed are in `.raw`"
            )
