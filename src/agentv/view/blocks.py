"""Blocks of data in the HTML file: compressed JSON and columns in inert elements, opened when a page needs them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from agentv import jsonio

ROWS_IN_A_BLOCK = 32
BYTES_IN_A_BLOCK = 1 << 19
"""A block of details ends early when its rows have this length, so that a case in it still opens quickly."""
_LEVEL = 5
_PIECE = 3 << 18
"""Bytes that are encoded together; a multiple of 3, so that only the end of base64 is padded."""

Mask = Callable[[str], str]


def packed(name: str, contents: str | bytes) -> Iterator[str]:
    """A block with compressed JSON or columns, in pieces."""
    yield f'<script type="text/plain" id="data-{name}">'
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    rest = b""
    for start in range(0, len(contents), _PIECE):
        piece = contents[start : start + _PIECE]
        rest += compressor.compress(piece.encode("utf-8") if isinstance(piece, str) else piece)
        whole = len(rest) - len(rest) % 3
        yield base64.b64encode(rest[:whole]).decode("ascii")
        rest = rest[whole:]
    yield f"{base64.b64encode(rest + compressor.flush()).decode('ascii')}</script>\n"


def plain(name: str, value: Any) -> str:
    """A block that the page reads while it starts: JSON that is not compressed."""
    text = base64.b64encode(jsonio.dump_line(value).encode("utf-8")).decode("ascii")
    return f'<script type="text/plain" id="data-{name}">{text}</script>\n'


class DetailBlocks:
    """The details of rows, in blocks. Which row is in which block is known before the details are read."""

    def __init__(self, name: str, rows: Sequence[int], length: Callable[[int], int]) -> None:
        """`rows` are ascending. `length` returns the bytes of a row."""
        self._name = name
        self._counts: list[int] = []
        self.starts: list[int] = []
        """The first row of each block."""
        count = room = 0
        for row in rows:
            if count in (0, ROWS_IN_A_BLOCK) or room <= 0:
                self.starts.append(row)
                self._counts.append(0)
                count, room = 0, BYTES_IN_A_BLOCK
            count += 1
            room -= length(row)
            self._counts[-1] = count

    def pack(self, entries: Iterable[str]) -> Iterator[str]:
        """The blocks, from the JSON of the entries of all rows."""
        waiting = iter(entries)
        for number, count in enumerate(self._counts):
            yield from packed(f"{self._name}-{number}", f"[{','.join(islice(waiting, count))}]")
