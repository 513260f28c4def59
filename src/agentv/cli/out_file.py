"""Write the output of a command to stdout or to a file, which is replaced atomically."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agentv.errors import UsageError
from agentv.record.files import failure, replaced, write_all


def refuse_directory(out: str | None) -> None:
    """Raise UsageError if `--out` is a directory."""
    if out is not None and Path(out).is_dir():
        raise UsageError(
            f"--out must be a file, got the directory '{out}'.", next_step="Pass the path of a file in it."
        )


def write_out(out: str | None, pieces: Iterable[str]) -> None:
    """Write text as UTF-8. An existing file keeps its old content until the new content is complete."""
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
    """Write to stdout; empty data flushes it."""
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
    """Whether this is a pipe or a device, which is written to and never replaced."""
    with suppress(OSError):
        mode = path.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False
