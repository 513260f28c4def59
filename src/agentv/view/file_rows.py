"""Which rows have details in the HTML file, and how large it would be with all of them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentv.record.files import open_recorded
from agentv.record.run_dir import RunDirectory

LARGEST = 25_000_000
"""Bytes of a file that is written with the details of all rows unless the user chooses."""
_PASS = 0
_SAMPLES, _SAMPLE = 16, 1 << 17


class CaseRows:
    """The cases of the rows of a run. Attempts have the same case."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        numbers: dict[tuple[int, str, int], int] = {}
        keys = zip(columns["suite"], columns["eval_id"], columns["target"], strict=True)
        self._case = [numbers.setdefault(key, len(numbers)) for key in keys]
        self.chosen = {case for case, outcome in zip(self._case, columns["outcome"], strict=True) if outcome != _PASS}
        """The cases with an attempt that did not pass or errored."""

    def __len__(self) -> int:
        return len(self._case)

    def case(self, row: int) -> int:
        return self._case[row]

    def rows(self) -> list[int]:
        """All rows of the chosen cases."""
        return [row for row, case in enumerate(self._case) if case in self.chosen]


def choose_counterparts(run: CaseRows, baseline: CaseRows, compared: Mapping[str, Any]) -> None:
    """Choose the cases whose counterpart in the other run is chosen: all that can be opened is there from both runs."""
    pairs = compared["pairs"]
    places = list(zip(pairs["row1"], pairs["row2"], strict=True))
    places += [(case["row1"], case["row2"]) for case in compared["unjudged"]]
    for row1, row2 in places:
        one, other = baseline.case(row1), run.case(row2)
        if one in baseline.chosen or other in run.chosen:
            baseline.chosen.add(one)
            run.chosen.add(other)


def estimated_size(directory: RunDirectory, rows: int) -> int:
    """About how many bytes the details of all rows of a run have in the file."""
    cases = _compressed(directory.cases)
    if cases:
        cases = cases * rows // max(1, _line_count(directory.cases))
    return cases + _compressed(directory.results) + _compressed(directory.judge_calls)


def _compressed(path: Path) -> int:
    """About how many bytes a file has when it is compressed and encoded, from samples of it."""
    with suppress(OSError), open_recorded(path) as file:
        size = os.fstat(file.fileno()).st_size
        step = max(_SAMPLE, size // _SAMPLES)
        samples = [os.pread(file.fileno(), _SAMPLE, offset) for offset in range(0, size, step)]
        sampled = sum(map(len, samples))
        if sampled:
            return sum(len(zlib.compress(sample)) for sample in samples) * size * 4 // (3 * sampled)
    return 0


def _line_count(path: Path) -> int:
    with suppress(OSError), open_recorded(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_SAMPLE), b""))
    return 0
