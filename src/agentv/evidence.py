"""What a run records besides its rows: each case as it was asked, and each judge call.

`CaseRecord` is a line of `cases.jsonl`, `JudgeCallRecord` a line of `judge_calls.jsonl`. Keys that identify the row
come first in a line, so that readers can find lines without parsing them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

from agentv.codec import OMIT_DEFAULT, encode
from agentv.jsonio import dump_line, storable, strict_line
from agentv.messages import Message, TokenUsage, as_messages
from agentv.redact import Redactor
from agentv.results import CaseResult, Counted, RowKey, Unit


@dataclass(frozen=True, slots=True)
class EvaluatorRecord:
    """An evaluator of a case, with all defaults applied."""

    name: str
    type: str
    weight: float = 1.0
    required: bool = False
    threshold: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that it was given: the rubrics, the command of its script, the expected value, and so on."""
    members: Annotated[tuple[EvaluatorRecord, ...], OMIT_DEFAULT] = ()
    """The evaluators of a composite."""


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """A case as it was asked and judged in a run, whatever the target and the attempt."""

    suite: str
    eval_id: str
    sha256: str
    """Hash of the case: everything here except the position in the file. `--threshold` does not change it."""
    input_messages: tuple[Message, ...]
    expected_outcome: str | None = None
    expected_messages: tuple[Message, ...] = ()
    reference_answer: str | None = None
    threshold: Unit | None = None
    evaluators: tuple[EvaluatorRecord, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    conversation_id: Annotated[str | None, OMIT_DEFAULT] = None
    files: Annotated[Mapping[str, str] | None, OMIT_DEFAULT] = None
    """SHA-256 of each file that the input contains, by its path in the repository."""
    prompt: Annotated[str | None, OMIT_DEFAULT] = None
    """The id of the prompt, if the suite has prompts: the case is then recorded with each of them."""
    turns: Annotated[tuple[Any, ...], OMIT_DEFAULT] = ()
    """The turns of a conversation, as in the suite."""
    user: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT] = None
    """The model that plays the user."""
    vars: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT] = None
    """The variables of the case."""
    file: str = ""
    line: int = 0


class CaseLine(NamedTuple):
    """A line of `cases.jsonl`, and the SHA-256 in it."""

    sha256: bytes
    text: str


EMPTY: tuple[Any, ...] = (None, [], {})
"""Values of a case that are left out of its line."""


def case_line(content: dict[str, Any], evaluators: str, position: str, threshold: float | None = None) -> CaseLine:
    """The line of a case in `cases.jsonl`, without a line break.

    `content` are the fields of the `CaseRecord` up to its hash, without the evaluators. `evaluators` and `position`
    (`"file":..., "line":...`) are JSON, which many cases share. The hash is that of the text before `"sha256"`.
    `threshold` replaces the threshold of the case in the line, but not in the hash.
    """
    text = f'{dump_line(content)[:-1]},"evaluators":{evaluators}'
    sha256 = hashlib.sha256(text.encode("utf-8"))
    if threshold is not None:
        text = f'{dump_line({**content, "threshold": threshold})[:-1]},"evaluators":{evaluators}'
    return CaseLine(sha256.digest(), f'{text},"sha256":"{sha256.hexdigest()}",{position}}}')


def encoded_case(record: CaseRecord) -> CaseLine:
    """The line of a case, with a new hash."""
    data = encode(record)
    evaluators = dump_line(data.pop("evaluators"))
    position = f'"file":{dump_line(data.pop("file"))},"line":{data.pop("line")}'
    del data["sha256"]
    head: dict[str, Any] = {name: data.pop(name) for name in ("suite", "eval_id", "prompt") if name in data}
    data = {**head, **data}
    return case_line({key: value for key, value in data.items() if value not in EMPTY}, evaluators, position)


@dataclass(frozen=True, slots=True)
class JudgeCallRecord:
    """One judge call. `suite`, `eval_id`, `case_target` and `case_attempt` are the key of the row that made it."""

    suite: str
    eval_id: str
    case_target: str
    case_attempt: int
    evaluator: str
    index: int
    """The position among the calls of this evaluator for this row, from 1."""
    target: str
    status: str
    """`ok`, `failed`, `timeout` or `cancelled`."""
    execution: Annotated[Counted | None, OMIT_DEFAULT] = None
    """Which judging of the row made the call: None for the first, 2 if one errored row was superseded, and so on."""
    try_: Annotated[Counted | None, OMIT_DEFAULT] = None
    """Which attempt of the script made the call: None for the first, 2 if a node was lost before, and so on."""
    code: str | None = None
    eval_case_id: str = ""
    attempt: int = 1
    batch: bool = False
    retries: int = 0
    cache_hit: bool = False
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    started_at: str = ""
    """When the judge was called. Waiting for a slot of the judge target is `waited_ms`, not part of the duration."""
    waited_ms: float = 0.0
    duration_ms: float = 0.0
    model: str | None = None
    finish_reason: str | None = None
    request_sha256: str = ""
    """Hash of the request as recorded: target, messages and options."""
    question: Annotated[str | None, OMIT_DEFAULT] = None
    """The prompt as text; None if prompts are not recorded."""
    system_prompt: Annotated[str | None, OMIT_DEFAULT] = None
    messages: Annotated[tuple[Message, ...], OMIT_DEFAULT] = ()
    """The conversation, if it is more than a system prompt and a question."""
    options: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT] = None
    """The generation options that the target got."""
    asked_model: Annotated[str | None, OMIT_DEFAULT] = None
    """The model that a client library asked for, if the call came through the API of a vendor."""
    dropped_options: Annotated[Mapping[str, str] | None, OMIT_DEFAULT] = None
    """Options of such a call that the target did not get -> the reason."""
    reply: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT] = None
    """What the judge answered, in the form of the judge proxy (`outputMessages`, `rawText`, `usage`), with `logprobs`
    if they were requested."""
    error: Annotated[str | None, OMIT_DEFAULT] = None
    replayed: Annotated[bool, OMIT_DEFAULT] = False
    """Whether the reply comes from the record of another run (`--replay`)."""

    @property
    def row_key(self) -> RowKey:
        return RowKey(self.suite, self.eval_id, self.case_target, self.case_attempt)

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The messages of the request; empty if prompts are not recorded."""
        if self.messages or self.question is None:
            return self.messages
        return as_messages(self.question, self.system_prompt, ())

    def to_dict(self) -> dict[str, Any]:
        return encode(self)


def request_sha256(
    target: str,
    messages: Sequence[Message],
    options: Mapping[str, Any] | None,
    redactor: Redactor,
    *,
    in_pieces: bool = False,
) -> str:
    """The hash of a request to a judge, with secrets masked."""
    request = {"target": target, "messages": [message.to_dict() for message in messages], "options": options or {}}
    text = strict_line(request, in_pieces=in_pieces)
    if text is None or redactor.finds_in_json(text):
        text = dump_line(redactor.value(storable(request)), in_pieces=in_pieces)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


class ReplaySource(Protocol):
    """A recorded run whose answers and judge replies are used again (`--replay`). All methods may read files."""

    run_id: str

    def row(self, key: RowKey) -> CaseResult | None:
        """The row with this key."""

    def keys_of(self, eval_id: str) -> list[RowKey]:
        """The keys of all rows of a case, in any suite."""

    def case(self, key: RowKey) -> CaseRecord | None:
        """What was asked in the case of a row; None if the run was recorded without its cases."""

    def judge_calls(self, key: RowKey) -> list[JudgeCallRecord]:
        """The judge calls of a row, without those of superseded rows."""

    def all_judge_calls(self) -> Iterator[JudgeCallRecord]:
        """All judge calls of the run."""
