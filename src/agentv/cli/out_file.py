"""Where a report goes: a file, replaced as a whole, or stdout."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agentv.errors import UsageError
from agentv.record.files import failure, replaced, write_all


def refuse_directory(out: str | None) -> None:
    """UsageError for an `--out` that no file can be written to."""
    if out is not None and Path(out).is_dir():
        raise UsageError(f"--out {out} is a directory.", next_step="Name a file in it.")


def write_out(out: str | None, pieces: Iterable[str]) -> None:
    """Write text as UTF-8. A file has its old contents until the new ones are complete."""
    if out is None or out == "-":
        for piece in pieces:
            _print(piece.encode("utf-8", "backslashreplace"))
        _print(b"")
        return
    refuse_directory(out)
    path = Path(out)
    try:
        if _is_stream(path):
            with path.open("wb") as file:
                file.writelines(piece.encode("utf-8", "backslashreplace") for piece in pieces)
            return
        with replaced(path) as descriptor:
            for piece in pieces:
                write_all(descriptor, piece.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise failure("write", path, error, "Choose another --out.") from error


def _print(data: bytes) -> None:
    """To stdout; nothing flushes what is there."""
    try:
        if data:
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise failure("write", Path("stdout"), error) from error


def _is_stream(path: Path) -> bool:
    """A pipe or a device: it is written to, never replaced."""
    with suppress(OSError):
        mode = path.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False
