"""The judge cache on disk: replies in one SQLite file that several processes can use at the same time.

If the file cannot be used, the run continues without it, and `on_note` is called once with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from agentv.messages import TokenLogprob
from agentv.redact import NO_SECRETS, Redactor
from agentv.targets.provider import Reply
from agentv.targets.structured import named_model, parse_messages

CACHE = Path(".agentv") / "cache"
FILE = "judge.sqlite"
LAYOUT = 1
"""Version of the table and of the replies in it. A file with another version is set aside."""
SECONDS_TO_OPEN = 10.0
SECONDS_TO_WRITE = 10.0
SECONDS_TO_READ = 0.05
"""Readers do not wait for writers. If the file is locked anyway, the judge is called instead."""

_SETTINGS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
_TABLE = "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, reply TEXT NOT NULL, kept_at REAL NOT NULL)"
_FIND = "SELECT reply FROM replies WHERE key = ?"
_KEEP = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?)"
_SPOILED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

OnNote = Callable[[str], None]

NOTHING = "null"
"""Stored in place of a reply that could not be used."""


class ReplyStore:
    """The open cache file. Reads take microseconds; a thread commits replies in batches."""

    def __init__(self, directory: Path, *, redactor: Redactor = NO_SECRETS, on_note: OnNote | None = None) -> None:
        self.path = directory / FILE
        self._redactor, self._on_note = redactor, on_note
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._uncommitted: dict[bytes, str] = {}
        self._committing: asyncio.Task[None] | None = None
        self._inode = 0
        self._stopped = self._spoiled = self._noted = False

    async def __aenter__(self) -> Self:
        try:
            self._reader, self._writer, aside = await asyncio.to_thread(_opened, self.path)
            self._inode = self.path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            self._note(f"the judge cache {self.path} is disabled: {_reason(error)}")
        else:
            if aside is not None:
                self._note(f"the judge cache {self.path} could not be read and was renamed to {aside.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._committing is not None:
            await asyncio.wait((self._committing,))
        for connection in (self._writer, self._reader):
            if connection is not None:
                connection.close()
        self._writer = self._reader = None
        if self._spoiled:
            with contextlib.suppress(OSError), _alone(self.path.parent):
                if self.path.stat().st_ino == self._inode:
                    _set_aside(self.path)

    def find(self, key: bytes) -> Reply | None:
        """The cached reply for this key."""
        text = self._uncommitted.get(key) or self._read(key)
        if text is None:
            return None
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return decoded(text)
        return None

    def keep(self, key: bytes, reply: Reply) -> None:
        """Store a reply, unless it contains a secret or cannot be restored exactly."""
        if self._writer is None or self._stopped:
            return
        text = encoded(reply)
        if text is not None and not self._redactor.finds(text):
            self._add(key, text)

    def forget(self, key: bytes) -> None:
        """Remove the reply for this key."""
        if self._writer is not None and not self._stopped:
            self._add(key, NOTHING)

    def _add(self, key: bytes, text: str) -> None:
        self._uncommitted[key] = text
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit())

    async def _commit(self) -> None:
        """Commit until nothing is left; each transaction contains everything added before it started."""
        while self._uncommitted and self._writer is not None and not self._stopped:
            entries = dict(self._uncommitted)
            error = await asyncio.to_thread(_written, self._writer, entries)
            for key, text in entries.items():
                if self._uncommitted.get(key) is text:  # otherwise replaced in the meantime
                    del self._uncommitted[key]
            if error is not None:
                self._stop(error)

    def _read(self, key: bytes) -> str | None:
        if self._reader is None:
            return None
        try:
            row = self._reader.execute(_FIND, (key,)).fetchone()
        except sqlite3.Error as error:
            if _code(error) not in _BUSY:
                self._stop(error)
            return None
        return row[0] if row is not None and isinstance(row[0], str) else None

    def _stop(self, error: sqlite3.Error) -> None:
        """Stop reading and writing."""
        self._spoiled = self._spoiled or _code(error) in _SPOILED
        self._note(f"the judge cache {self.path} is disabled from now on: {_reason(error)}")
        self._stopped = True  # the thread may still use the writer, which is closed at the end
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _note(self, text: str) -> None:
        if self._on_note is not None and not self._noted:
            self._noted = True
            self._on_note(text)


def _written(connection: sqlite3.Connection, entries: Mapping[bytes, str]) -> sqlite3.Error | None:
    """Write the entries in one transaction and return the error, if any."""
    now = time.time()
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_KEEP, [(key, text, now) for key, text in entries.items()])
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        return error
    return None


# -- replies as text


def encoded(reply: Reply) -> str | None:
    """The reply as JSON; None if it could not be restored exactly."""
    data = {
        "output_messages": [message.to_dict() for message in reply.output_messages],
        "token_usage": reply.token_usage.to_dict() if reply.token_usage else None,
        "cost_usd": reply.cost_usd,
        "finish_reason": reply.finish_reason,
        "model": reply.model,
        "logprobs": None if reply.logprobs is None else [token.to_dict() for token in reply.logprobs],
        "dropped_options": list(reply.dropped_options),
    }
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
        same = decoded(text).output_messages == tuple(reply.output_messages)
    except (ValueError, TypeError, RecursionError):
        return None
    return text if same else None


def decoded(text: str) -> Reply:
    """A cached reply. Its cost is 0, whatever the original call cost."""
    data: dict[str, Any] = json.loads(text)
    messages, reason = parse_messages(data["output_messages"]), data["finish_reason"]
    if not isinstance(reason, str | None):
        raise TypeError("the finish reason must be a string")
    tokens = data.get("logprobs")
    logprobs = None if tokens is None else tuple(map(TokenLogprob.from_dict, tokens))
    reply = Reply(messages, finish_reason=reason, model=named_model(data.get("model")), logprobs=logprobs)
    return free(replace(reply, dropped_options=tuple(map(str, data.get("dropped_options", ())))))


def free(reply: Reply) -> Reply:
    """The same reply for a caller that did not cause the call."""
    return Reply(
        reply.output_messages,
        cost_usd=0.0,
        finish_reason=reply.finish_reason,
        model=reply.model,
        logprobs=reply.logprobs,
        dropped_options=reply.dropped_options,
        cache_hit=True,
    )


# -- the file


def _opened(path: Path) -> tuple[sqlite3.Connection, sqlite3.Connection, Path | None]:
    """A reading connection, a writing connection, and the new name of a file that was not a usable cache."""
    directory, aside = path.parent, None
    for missing in (directory.parent, directory):
        missing.mkdir(mode=0o700, exist_ok=True)
    ignore = directory / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")
    with _alone(directory):
        try:
            writing = _connected(path)
        except sqlite3.Error as error:
            if _code(error) not in _SPOILED:
                raise
            aside = _set_aside(path)
            writing = _connected(path)
        reading = sqlite3.connect(path, SECONDS_TO_READ, isolation_level=None, check_same_thread=False)
    return reading, writing, aside


def _connected(path: Path) -> sqlite3.Connection:
    if path.is_symlink():
        raise OSError("it is a symbolic link, which is not followed")
    with contextlib.suppress(FileExistsError):
        # Not opened if it exists: closing it again would drop the locks that SQLite holds in this process.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, SECONDS_TO_WRITE, isolation_level=None, check_same_thread=False)
    try:
        connection.executescript(_SETTINGS)
        connection.execute("BEGIN IMMEDIATE")  # fails immediately if the file cannot be written
        _check_layout(*connection.execute("PRAGMA user_version").fetchone())
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
        connection.execute("COMMIT")
        connection.execute(_FIND, (b"",)).fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _check_layout(layout: int) -> None:
    if layout not in (0, LAYOUT):
        error = sqlite3.DatabaseError("it was written by another version of agentv")
        error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
        raise error


def _set_aside(path: Path) -> Path:
    """Rename the file and delete its write-ahead log."""
    aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Lock the directory, so that two processes cannot set aside each other's new file."""
    descriptor = os.open(directory / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + SECONDS_TO_OPEN
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _code(error: sqlite3.Error) -> int:
    """The primary SQLite error code, without the extended bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _reason(error: OSError | sqlite3.Error) -> str:
    return (getattr(error, "strerror", None) or str(error)) + "; the run continues without a cache"
