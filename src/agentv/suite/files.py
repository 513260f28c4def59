"""Files that a suite refers to: searched for near the suite, restricted to its repository, and limited in size."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentv.regular_files import FileUnusableError, as_text, open_regular, read_regular

MAX_FILE_BYTES = 16 * 1024 * 1024
REPLACED = "; it was replaced after the suite was validated"
_SETTLED_NS = 100_000_000
"""A file written less than this before it was read may be written again within the same clock tick."""


def repository_root(start: Path) -> Path | None:
    """The nearest directory at or above `start` that contains `.git`."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def upward(start: Path, stop: Path) -> Iterator[Path]:
    """`start` and its parents up to `stop`; only `start` if `stop` is not above it."""
    yield start
    if stop in start.parents:
        for folder in start.parents:
            yield folder
            if folder == stop:
                return


def search_root(start: Path, working_directory: Path) -> Path:
    """Where the upward search for configuration ends: the repository, or the working directory if above `start`."""
    if root := repository_root(start):
        return root
    return working_directory if working_directory in start.parents else start


class FileReferenceError(ValueError):
    """A file reference in a suite that does not lead to a readable file. The message includes the reference."""


class FileMissingError(FileReferenceError):
    """No file exists at any place that a reference can mean."""


def digest(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Seen(NamedTuple):
    digest: str
    identity: tuple[int, ...]
    settled: bool


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev)


class Fingerprints:
    """The contents of files, as digests, when they were first read."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note(self, path: Path) -> None:
        """Remember the contents of the file; FileUnusableError if they have changed since an earlier `note`."""
        before = self._seen.get(str(path))
        try:
            if before is not None and before.settled and before.identity == _identity(path.stat()):
                return
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
                now = _Seen(hashlib.file_digest(file, "sha256").hexdigest(), _identity(status), settled)
        except OSError as error:
            raise FileUnusableError(f"cannot be read: {error.strerror}") from None
        if before is not None and before.digest != now.digest:
            raise FileUnusableError("has changed since it was checked")
        self._seen[str(path)] = now

    def read(self, path: Path) -> bytes:
        """The contents of the file, which must be those of an earlier `note` or `read`.

        One descriptor is checked and read, so the file cannot be replaced in between.
        """
        before = self._seen.get(str(path))
        try:
            data = read_regular(path, MAX_FILE_BYTES)
        except FileUnusableError as error:
            raise FileUnusableError(f"{error}{REPLACED if before else ''}") from None
        now = hashlib.sha256(data).hexdigest()
        if before is None:
            self._seen[str(path)] = _Seen(now, (), settled=False)
        elif before.digest != now:
            raise FileUnusableError("has changed since it was checked")
        return data

    def knows(self, path: Path) -> bool:
        return str(path) in self._seen

    def note_once(self, path: Path) -> None:
        """Remember the contents of the file unless they are remembered already; the file may change during the run."""
        if str(path) not in self._seen:
            self.note(path)

    def verify(self, path: Path) -> None:
        """FileUnusableError if the file was noted and its contents have changed since."""
        if str(path) in self._seen:
            self.note(path)

    def digest_of(self, path: Path) -> str | None:
        """The digest of a file that was noted or read; None for others."""
        seen = self._seen.get(str(path))
        return None if seen is None else seen.digest

    def digests(self) -> dict[str, str]:
        return {path: seen.digest for path, seen in self._seen.items()}


@dataclass(frozen=True, slots=True)
class SuiteFiles:
    """Resolves the file references of one suite."""

    directory: Path
    root: Path
    allow_outside: bool = False
    is_guideline: Callable[[Path, Path], bool] | None = field(default=None, repr=False, compare=False)
    """Whether a file contains instructions rather than material; takes the file and the root."""
    fingerprints: Fingerprints = field(default_factory=Fingerprints, repr=False, compare=False)
    """The contents of the files that the suite depends on."""
    running: bool = False
    """Whether the suite has been validated: its files must then be the same as before."""
    references: set[str] = field(default_factory=set, repr=False, compare=False)
    """The references that led to a file when the suite was validated."""
    failures: list[str] = field(default_factory=list, repr=False, compare=False)
    """While running: what is wrong with files of the case that is being read."""

    @classmethod
    def of(cls, suite: Path, *, allow_outside: bool = False, home: Path | None = None) -> SuiteFiles:
        """The files of a suite. `home` replaces the suite's own directory as the start of file references."""
        directory = (home or suite.parent).resolve()
        return cls(directory, repository_root(directory) or directory, allow_outside)

    def find(self, reference: str, *, limit: int | None = MAX_FILE_BYTES) -> Path:
        """Like `resolve`, and remembers the contents of the file: the suite depends on them."""
        with self._noting_failures():
            path = self._resolve_again(reference, limit)
            try:
                self.fingerprints.note(path)
            except FileUnusableError as error:
                raise FileReferenceError(f"'{_short(reference)}' {error}") from None
            return path

    def locate(self, reference: str) -> Path:
        """While running: the file that a reference leads to, without reading it. `read_text` checks its contents."""
        with self._noting_failures():
            return self._resolve_again(reference, MAX_FILE_BYTES)

    def attach(self, reference: str) -> tuple[Path, str]:
        """Like `find`, with the text of the file."""
        with self._noting_failures():
            path = self._resolve_again(reference, MAX_FILE_BYTES)
            return path, self.read_text(path)

    def _resolve_again(self, reference: str, limit: int | None) -> Path:
        """Like `resolve`. While running, a reference must lead to the same file as before, or still to none."""
        if not self.running:
            path = self.resolve(reference, limit=limit)
            self.references.add(reference)
            return path
        if reference not in self.references:
            raise FileMissingError(f"there was no file '{_short(reference)}' when the suite was validated")
        try:
            path = self.resolve(reference, limit=limit)
        except FileReferenceError as error:
            raise FileReferenceError(f"{error}{REPLACED}") from None
        if not self.fingerprints.knows(path):
            raise FileReferenceError(f"'{_short(reference)}' leads to {path}{REPLACED}")
        return path

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        try:
            yield
        except FileReferenceError as error:
            if self.running and not isinstance(error, FileMissingError):  # text that is not a reference
                self.failures.append(str(error))
            raise

    def resolve(self, reference: str, *, limit: int | None = MAX_FILE_BYTES) -> Path:
        """The file that a reference leads to. FileReferenceError explains why there is none that may be read."""
        if "\0" in reference or not reference.strip():
            raise FileReferenceError("a file reference must be a non-empty path without NUL characters")
        outside = False
        for candidate in self._candidates(reference):
            try:
                real = candidate.resolve(strict=True)
            except (OSError, RuntimeError):
                continue
            if self.allow_outside or real.is_relative_to(self.root):
                _check_readable(real, reference, limit)
                return real
            outside = True
        if outside:
            raise FileReferenceError(
                f"'{_short(reference)}' is outside {self.root}; "
                "move it inside, or set `execution.allow_outside_files: true` in the suite"
            )
        above = f", the directories above it up to {self.root}," if self.root != self.directory else ""
        raise FileMissingError(
            f"there is no file '{_short(reference)}' in {self.directory}{above} or the working directory"
        )

    def read_text(self, path: Path) -> str:
        """The text of a resolved file, with \\n as line ending; FileReferenceError if its contents have changed."""
        try:
            return as_text(self.fingerprints.read(path))
        except FileUnusableError as error:
            raise FileReferenceError(f"'{path}' {error}") from None

    def guidelines_among(self, paths: Sequence[Path]) -> tuple[Path, ...]:
        """The guidelines among these files, without duplicates."""
        if self.is_guideline is None or not paths:
            return ()
        return tuple(dict.fromkeys(path for path in paths if self.is_guideline(path, self.root)))

    def _candidates(self, reference: str) -> Iterator[Path]:
        if reference.startswith("/"):
            yield Path(reference)
            reference = reference.lstrip("/")
        for folder in upward(self.directory, self.root):
            yield folder / reference
        yield Path.cwd() / reference


def _check_readable(path: Path, reference: str, limit: int | None) -> None:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
    except FileUnusableError as error:
        raise FileReferenceError(f"'{_short(reference)}' {error}") from None
    if limit is not None and size > limit:
        raise FileReferenceError(
            f"'{_short(reference)}' is {size / 2**20:,.0f} MiB; a referenced file may be at most {limit // 2**20} MiB"
        )


def _short(reference: str) -> str:
    return reference if len(reference) <= 200 else reference[:197] + "..."
