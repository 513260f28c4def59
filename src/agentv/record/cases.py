"""`cases.jsonl`: what was asked and expected, one line for each case of a run, written before the first call.

A resumed run keeps the file. If its suites have changed (`--allow-changed`), the lines of changed and new cases are
appended: the last line of a case is the newest, and `case_sha256` of a row tells which version it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from agentv.codec import decode
from agentv.evidence import CaseRecord, encoded_case
from agentv.jsonio import load, storable
from agentv.record.files import LONGEST_LINE, cut_torn_line, failure, open_private, open_recorded, replaced, write_all
from agentv.record.rows import map_contents
from agentv.record.run_dir import RunDirectory
from agentv.redact import Redactor

_GROUP = 1 << 20
"""Bytes that are written together."""


class CaseHashes(Protocol):
    """The hashes of the cases of a suite, by position."""

    def replace_sha256(self, position: int, sha256: bytes, /) -> None:
        """Use another hash, because the case is recorded with masked secrets."""


def record_cases(
    directory: RunDirectory,
    lines: Iterable[tuple[CaseHashes, int, str]],
    redactor: Redactor,
    *,
    add_changed: bool = False,
) -> None:
    """Write the lines of all cases, with secrets masked. If the file exists, only what is missing, and only with
    `add_changed`. Each line comes with the hashes of its suite and its position there."""
    path = directory.cases
    exists = path.exists()
    if exists and not add_changed and not redactor.active:
        return
    masked = _masked(lines, redactor)
    try:
        if not exists:
            with replaced(path) as descriptor:
                _write(descriptor, masked)
        elif add_changed:
            descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
            try:
                cut_torn_line(descriptor)
                known = _recorded(directory)
                _write(descriptor, (line for line in masked if identity_of(line) not in known))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        else:
            for _ in masked:  # for the hashes of cases that contain secrets
                pass
    except OSError as error:
        raise failure("write", path, error, f"Then resume with: {directory.resume_command}") from error


def _write(descriptor: int, lines: Iterator[str]) -> None:
    group: list[str] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if size > _GROUP:
            write_all(descriptor, "".join(group).encode("utf-8"))
            group, size = [], 0
    write_all(descriptor, "".join(group).encode("utf-8"))


def _masked(lines: Iterable[tuple[CaseHashes, int, str]], redactor: Redactor) -> Iterator[str]:
    for hashes, position, unmasked in lines:
        if not redactor.finds_in_json(unmasked):
            yield unmasked
            continue
        record = decode(CaseRecord, load(unmasked.encode("utf-8")))
        # The hash of the unmasked case would let readers verify a guess of the secret.
        hidden = map_contents(record, lambda value: redactor.value(storable(value)))
        masked = encoded_case(hidden)
        hashes.replace_sha256(position, masked.sha256)
        yield f"{masked.text}\n"


def _recorded(directory: RunDirectory) -> set[tuple[Any, ...]]:
    """The newest recorded version of each case. Invalid lines are ignored: their cases are appended again."""
    newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    with open_recorded(directory.cases) as file:
        while line := file.readline(LONGEST_LINE):
            try:
                identity = identity_of(line)
            except (ValueError, TypeError):
                continue
            newest[identity[:3]] = identity
    return set(newest.values())


def identity_of(line: str | bytes) -> tuple[Any, ...]:
    """What a line of `cases.jsonl` is about: suite, id, prompt and hash. ValueError or TypeError if it is damaged."""
    data = load(line if isinstance(line, bytes) else line.encode("utf-8"))
    if not isinstance(data, Mapping):
        raise TypeError("a case must be an object")
    return data.get("suite"), data.get("eval_id"), data.get("prompt"), data.get("sha256")
