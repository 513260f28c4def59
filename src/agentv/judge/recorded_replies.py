"""Replies from the `judge_calls.jsonl` of a run: a call that was answered before is not made again.

A call gets the reply of the recorded call with the same row, execution, evaluator and request. If a request was made
several times, its replies are returned in the order of the calls, each of them once. So scripts with concurrent calls
are served, too. Calls that failed or were cancelled have no reply.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from agentv import jsonio
from agentv.codec import decode
from agentv.evidence import JudgeCallRecord, request_sha256
from agentv.messages import TokenLogprob
from agentv.redact import Redactor
from agentv.regular_files import open_descriptor
from agentv.results import RowKey
from agentv.targets.provider import Reply, Request
from agentv.wire.judge import message_of

LONGEST_LINE = 64 << 20
HASHED_IN_LINE = 64 * 1024
"""Longer requests are masked and hashed in a thread."""
_END_OF_KEY = b',"evaluator":'
"""Follows the key of the row. Inside a JSON string, its quotation marks would be escaped."""


class Asked(NamedTuple):
    """What identifies a recorded call, with secrets masked."""

    key: RowKey
    evaluator: str
    target: str
    eval_case_id: str
    attempt: int
    sha256: str


class _Spot(NamedTuple):
    """The line of a call, in the order of the calls."""

    position: int
    offset: int
    length: int


class RecordedReplies:
    """An index of recorded replies. Only places in the file are kept in memory; a reply is read when it is used."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path, self._redactor = path, redactor
        self._spots: dict[Asked, deque[_Spot]] = {}
        self._known: set[tuple[RowKey, str]] = set()
        self.call_count = 0
        """Calls of the rows that were indexed, answered or not."""
        self.cost_usd = 0.0
        """The known cost of these calls."""

    @classmethod
    def read(
        cls,
        path: Path,
        redactor: Redactor,
        *,
        wanted: Callable[[RowKey], bool] = lambda _: True,
        execution: Callable[[RowKey], int] = lambda _: 1,
    ) -> RecordedReplies:
        """Index the calls of the rows for which `wanted` is true, as far as they belong to the execution of the row.

        Lines that are incomplete, damaged or of an older version are skipped. Raises OSError.
        """
        replies = cls(path, redactor)
        for offset, line in _lines(path):
            key = _key_of(line)
            if key is None or not wanted(key):
                continue
            record = _decoded(line)
            if record is not None and (record.execution or 1) == execution(key):
                replies._add(record, _Spot(record.index, offset, len(line)))
        for asked, spots in replies._spots.items():
            replies._spots[asked] = deque(sorted(spots))
        return replies

    def _add(self, record: JudgeCallRecord, spot: _Spot) -> None:
        self.call_count += 1
        self.cost_usd += record.cost_usd or 0.0
        if record.status != "ok" or record.reply is None or not record.request_sha256:
            return
        asked = Asked(
            record.row_key,
            record.evaluator,
            record.target,
            record.eval_case_id,
            record.attempt,
            record.request_sha256,
        )
        self._spots.setdefault(asked, deque()).append(spot)
        self._known.add((asked.key, asked.evaluator))

    def knows(self, key: RowKey, evaluator: str) -> bool:
        """Whether there are replies for this evaluator and this row."""
        return bool(self._known) and (self._masked(key), self._redactor.text(evaluator)) in self._known

    async def find(self, key: RowKey, evaluator: str, target: str, request: Request) -> Reply | None:
        """The next recorded reply to this request; None if there is none left."""
        sha256 = await hash_of(target, request, self._redactor)
        text = self._redactor.text
        spots = self._spots.get(
            Asked(self._masked(key), text(evaluator), text(target), text(request.eval_id), request.attempt, sha256)
        )
        return await asyncio.to_thread(self._reply_at, spots.popleft()) if spots else None

    def _masked(self, key: RowKey) -> RowKey:
        """The key as it is recorded."""
        text = self._redactor.text
        return RowKey(text(key.suite), text(key.eval_id), text(key.target), key.attempt)

    def _reply_at(self, spot: _Spot) -> Reply | None:
        try:
            descriptor = open_descriptor(self._path, os.O_RDONLY, follow_links=False)
        except OSError:  # then the judge is called
            return None
        try:
            line = os.pread(descriptor, spot.length, spot.offset)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        record = _decoded(line)
        return None if record is None else reply_of(record)


async def hash_of(target: str, request: Request, redactor: Redactor) -> str:
    """The hash of a request. Most are hashed immediately, so that the order of concurrent calls is kept."""
    size = sum(len(message.content) if isinstance(message.content, str) else 1 for message in request.messages)
    is_long, options = size > HASHED_IN_LINE, request.options.to_dict()
    hashing = partial(request_sha256, target, request.messages, options, redactor, in_pieces=is_long)
    return await asyncio.to_thread(hashing) if is_long else hashing()


def reply_of(record: JudgeCallRecord) -> Reply | None:
    """The reply of a recorded call; None if it was recorded without a reply."""
    try:
        reply = dict(record.reply or {})
        messages = tuple(message_of(message) for message in reply["outputMessages"])
        tokens = reply.get("logprobs")
        logprobs = None if tokens is None else tuple(map(TokenLogprob.from_dict, tokens))
        vectors = reply.get("embeddings")
        embeddings = None if vectors is None else tuple(b64decode(vector) for vector in vectors)
    except (KeyError, TypeError, ValueError):
        return None
    return Reply(
        messages,
        token_usage=record.token_usage,
        cost_usd=record.cost_usd,
        duration_ms=record.duration_ms,
        finish_reason=record.finish_reason,
        model=record.model,
        logprobs=logprobs,
        embeddings=embeddings,
        retries=record.retries,
        cache_hit=record.cache_hit,
        recorded=True,
    )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The complete lines of the file, with their offsets; none if there is no file."""
    try:
        descriptor = open_descriptor(path, os.O_RDONLY, follow_links=False)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb", 1 << 20) as file:
        offset = 0
        while line := file.readline(LONGEST_LINE):
            if line.endswith(b"\n"):
                yield offset, line
            offset += len(line)


def _key_of(line: bytes) -> RowKey | None:
    """The key at the beginning of a line, without parsing the rest."""
    end = line.find(_END_OF_KEY)
    try:
        data = jsonio.load(line[:end] + b"}")
        key = RowKey(data["suite"], data["eval_id"], data["case_target"], data["case_attempt"])
    except (ValueError, KeyError, TypeError):
        return None
    return key if all(isinstance(name, str) for name in key[:3]) and isinstance(key.attempt, int) else None


def _decoded(line: bytes) -> JudgeCallRecord | None:
    try:
        return decode(JudgeCallRecord, jsonio.load(line))
    except ValueError:
        return None
