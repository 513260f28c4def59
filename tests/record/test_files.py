"""Files that consist of complete lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentv.record import files


@pytest.mark.parametrize("torn", [0, 1, files._CHUNK - 1, files._CHUNK, files._CHUNK + 1, 3 * files._CHUNK])
def test_last_newline_is_found_at_any_offset(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n" + b"x" * torn)
    descriptor = os.open(path, os.O_RDWR)
    try:
        assert files.whole_lines_end(descriptor) == 4
        assert files.cut_torn_line(descriptor) == torn
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"one\n"
