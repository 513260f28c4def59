"""The values of a judge script: its input, its result, and the replies of the judge proxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .errors import did_you_mean, failed_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Value:
    """Base class with `repr` and equality by fields. Importing `dataclasses` would take 15 ms per script run."""

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
    """One reply of the judge. A failed item of a batch has `error` and `code` set.

    Reading `raw_text` of a failed item raises the error that `invoke` would have raised, so that a failure is never
    mistaken for an empty reply.
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
    """The default judge target, the available targets, and the number of calls allowed and made.

    `waiting_calls` is how many calls of this script wait for a slot of their judge target, and `waited_ms` how long at
    least one of them has waited so far.
    """

    __slots__ = ("available_targets", "call_count", "max_calls", "target_name", "waited_ms", "waiting_calls")

    def __init__(
        self,
        target_name: str,
        max_calls: int,
        call_count: int,
        available_targets: Sequence[str],
        *,
        waiting_calls: int = 0,
        waited_ms: int = 0,
    ) -> None:
        self.target_name = target_name
        self.max_calls = max_calls
        self.call_count = call_count
        self.available_targets = list(available_targets)
        self.waiting_calls = waiting_calls
        self.waited_ms = waited_ms


class CodeJudgeResult(Value):
    """The result of a judge. Only `score` is required: a finite number from 0 (worst) to 1 (best)."""

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
    "vars",
    "config",
)
_LISTS = frozenset({"input_messages", "input_files", "expected_messages", "output_messages", "guideline_files"})


class CodeJudgeInput(Value):
    """The input of a judge script. Missing lists are `[]`, other missing values `None`. `raw` is the whole payload."""

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
    vars: dict[str, Any] | None
    config: dict[str, Any] | None
    raw: Mapping[str, Any]

    def __init__(self, raw: Mapping[str, Any]) -> None:
        for name in _KEYS:
            value = raw.get(name)
            setattr(self, name, [] if value is None and name in _LISTS else value)
        self.raw = raw

    def __repr__(self) -> str:
        return f"CodeJudgeInput({self.raw!r})"

    if not TYPE_CHECKING:  # otherwise type checkers would accept unknown attributes

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"the judge input has no attribute {name!r}{did_you_mean(name, self.__slots__)} available: "
                f"{', '.join(self.__slots__)}; other keys of the payload are in `.raw`"
            )
