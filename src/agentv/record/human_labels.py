"""`labels.jsonl`: what people say about the answers of a run, one line for each label.

Lines are only ever appended. The last line of a row and a person counts; one whose label is null removes the labels
before it. Each line has the hash of the answer that was labelled, so that a label never applies to another answer: a
case that was run again keeps its row key, but not its answer.
"""

from __future__ import annotations

import errno
import getpass
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from agentv import jsonio
from agentv.codec import decode, encode
from agentv.errors import RecordError, UsageError
from agentv.record.files import failure, open_private, open_recorded, sync_directory
from agentv.record.labels import LONGEST_NOTE
from agentv.record.run_dir import RunDirectory
from agentv.results import Counted, RowKey
from agentv.text import without_controls

USER_VARIABLE = "AGENTV_USER"
LONGEST_USER = 80
LONGEST_LABEL_LINE = 1 << 20
"""Bytes of the longest line that is read. Keys are as long as those of rows, which have no limit of their own."""
_START = b'{"suite":'
"""Only the beginning of a line can look like this: in a string, the quotation marks would be escaped."""


class LabelValue(StrEnum):
    """What a person says about an answer."""

    PASS = "pass"  # noqa: S105 - a label, not a password
    FAIL = "fail"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class HumanLabel:
    """The label that a person gave to the answer of one row."""

    suite: str
    eval_id: str
    target: str
    attempt: Counted
    label: LabelValue | None = None
    """None removes the earlier label of this person."""
    note: str = ""
    by: str = ""
    at: str = ""
    """ISO 8601 with time zone."""
    answer_sha256: str = ""
    """SHA-256 of the answer that was labelled, as UTF-8."""

    @property
    def key(self) -> RowKey:
        return RowKey(self.suite, self.eval_id, self.target, self.attempt)

    def is_of(self, answer: str) -> bool:
        """Whether this is a label of this answer."""
        return self.answer_sha256 == answer_sha256(answer)

    def to_dict(self) -> dict[str, Any]:
        return encode(self)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a run that count: one for each row and person."""

    labels: tuple[HumanLabel, ...] = ()
    """In the order in which they were given."""
    damaged: int = 0
    """Lines that could not be read and were skipped."""

    def by_row(self) -> dict[RowKey, list[HumanLabel]]:
        rows: dict[RowKey, list[HumanLabel]] = {}
        for label in self.labels:
            rows.setdefault(label.key, []).append(label)
        return rows


def answer_sha256(answer: str) -> str:
    """The hash that a label of this answer has."""
    return hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()


def current_user(environment: Mapping[str, str] | None = None) -> str:
    """The name in `AGENTV_USER`, else the login name. It is never looked up in a network."""
    environment = os.environ if environment is None else environment
    name = environment.get(USER_VARIABLE, "")
    if not name.strip():
        with suppress(KeyError, OSError, ImportError):
            name = getpass.getuser()
    return valid_user(name) or "unknown"


def valid_user(name: str) -> str:
    """The name of a person in one line, without control characters; empty if nothing is left."""
    return " ".join(without_controls(name).split())[:LONGEST_USER].rstrip()


def new_label(key: RowKey, answer: str, label: LabelValue | None, note: str = "", by: str | None = None) -> HumanLabel:
    """A label of this answer, given now. Raises UsageError if the note is too long."""
    if len(note) > LONGEST_NOTE:
        raise UsageError(f"The note must have at most {LONGEST_NOTE:,} characters, got {len(note):,}.")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return HumanLabel(*key, label, note, by or current_user(), now, answer_sha256(answer))


def append_label(directory: RunDirectory, label: HumanLabel) -> None:
    """Append a label. It is on disk when this returns. Raises RecordError if it could not be written.

    Several processes may append to the same file, also while the run is being written: a line is written by a single
    system call, at the end of the file. If a killed process left an incomplete line, a line break ends it first.
    """
    line = jsonio.dump_line(label.to_dict()).encode("utf-8") + b"\n"
    if len(line) > LONGEST_LABEL_LINE:
        raise RecordError(f"a label must have at most {LONGEST_LABEL_LINE:,} bytes, got {len(line):,}")
    path = directory.labels
    try:
        is_new = not path.exists()
        descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            if os.write(descriptor, line) < len(line):  # the rest could end up behind another line
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_directory(directory.path)
    except OSError as error:
        raise failure("write", path, error, "The label was not saved.") from error


def read_labels(directory: RunDirectory) -> Labels:
    """The labels of a run. Damaged lines are skipped and counted; a run without labels has none."""
    latest: dict[tuple[RowKey, str], HumanLabel] = {}
    damaged = 0
    for label in _lines(directory):
        if label is None:
            damaged += 1
            continue
        latest.pop((label.key, label.by), None)  # moved to the end
        if label.label is not None:
            latest[label.key, label.by] = label
    return Labels(tuple(latest.values()), damaged)


def _lines(directory: RunDirectory) -> Iterator[HumanLabel | None]:
    """Every label in the file, and None for each line that is damaged. The last line may be written just now."""
    try:
        with open_recorded(directory.labels) as file:
            while line := file.readline(LONGEST_LABEL_LINE):
                if line.endswith(b"\n"):
                    yield from _labels_in(line)
                    continue
                while (rest := file.readline(LONGEST_LABEL_LINE)) and not rest.endswith(b"\n"):
                    pass
                if rest:
                    yield None  # too long
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure("read", directory.labels, error) from error


def _labels_in(line: bytes) -> Iterator[HumanLabel | None]:
    """The label of a line. If an incomplete line is before it, that one is damaged, and the label is not."""
    if not line.strip():
        return
    start = line.rfind(_START)
    if start > 0:
        yield None
    try:
        yield decode(HumanLabel, jsonio.load(line[max(0, start) :]))
    except ValueError:
        if start <= 0:
            yield None
