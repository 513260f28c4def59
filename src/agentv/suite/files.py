"""Files a suite refers to: found near the suite, kept inside its repository, read with a bound."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 16 * 1024 * 1024


def repository_root(start: Path) -> Path | None:
    """The nearest directory at or above `start` with a `.git`."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def upward(start: Path, stop: Path) -> Iterator[Path]:
    """`start`, its parent, ... up to `stop`; only `start` when `stop` is not above it."""
    yield start
    if stop in start.parents:
        for folder in start.parents:
            yield folder
            if folder == stop:
                return


def search_root(start: Path, working_directory: Path) -> Path:
    """How far up to look for configuration: the repository, else the working directory above `start`, else `start`."""
    if root := repository_root(start):
        return root
    return working_directory if working_directory in start.parents else start


@dataclass(frozen=True, slots=True)
class SuiteFiles:
    """Resolves the file references of one suite."""

    directory: Path
    root: Path
    allow_outside: bool = False

    @classmethod
    def of(cls, suite: Path, *, allow_outside: bool = False) -> SuiteFiles:
        directory = suite.resolve().parent
        return cls(directory, repository_root(directory) or directory, allow_outside)

    def resolve(self, reference: str, *, limit: int | None = MAX_FILE_BYTES) -> Path:
        """The file a reference means. ValueError says why there is none that may be read."""
        if "\0" in reference or not reference.strip():
            raise ValueError("a file reference must be a path")
        outside: Path | None = None
        tried: list[str] = []
        for candidate in self._candidates(reference):
            tried.append(str(candidate))
            try:
                real = candidate.resolve(strict=True)
            except (OSError, RuntimeError):
                continue
            if not self.allow_outside and not real.is_relative_to(self.root):
                outside = outside or real
                continue
            _check_readable(real, reference, limit)
            return real
        if outside is not None:
            raise ValueError(
                f"'{reference}' is outside {self.root}; move it inside, or set `execution.allow_outside_files: true`"
            )
        raise ValueError(f"no file '{reference}'; looked for {', '.join(dict.fromkeys(tried))}")

    def read_text(self, path: Path) -> str:
        """The text of a resolved file, with \\n line ends."""
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"'{path}' is larger than {MAX_FILE_BYTES // 2**20} MiB")
        try:
            return data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"'{path}' is not UTF-8 text (byte {error.start})") from None

    def _candidates(self, reference: str) -> Iterator[Path]:
        if reference.startswith("/"):
            yield Path(reference)
            reference = reference.lstrip("/")
        for folder in upward(self.directory, self.root):
            yield folder / reference


def _check_readable(path: Path, reference: str, limit: int | None) -> None:
    try:
        status = path.stat()
    except OSError as error:
        raise ValueError(f"'{reference}' cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"'{reference}' is not a regular file")
    if limit is not None and status.st_size > limit:
        raise ValueError(
            f"'{reference}' is {status.st_size / 2**20:.0f} MiB; a referenced file may have {limit // 2**20} MiB"
        )


def digest(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
