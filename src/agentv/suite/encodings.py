"""What to do about a file that is not UTF-8."""

from __future__ import annotations

from typing import IO

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
UTF_16 = (
    "the file is UTF-16 and must be UTF-8; convert it with `iconv -f UTF-16 -t UTF-8`, or save it as `CSV UTF-8` in "
    "Excel"
)


def utf_16_problem(stream: IO[bytes]) -> str | None:
    """A message if a file begins like UTF-16, with or without a byte order mark. The stream is rewound."""
    head = stream.read(4)
    stream.seek(0)
    return UTF_16 if head[:2] in _UTF_16 or (len(head) > 1 and head[:2].count(0) == 1) else None


def not_utf_8(byte: int) -> str:
    """The message for a byte that is not UTF-8."""
    shown = bytes([byte]).decode("cp1252", "replace")
    meant = f" ({shown!r} in Windows-1252)" if shown.isprintable() and shown != "\ufffd" else ""
    return (
        f"not UTF-8: the byte 0x{byte:02X}{meant}; convert the file, for example with `iconv -f WINDOWS-1252 -t UTF-8`"
    )
