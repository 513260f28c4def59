"""Kill `recover` at every system call while it moves superseded rows, and print the damage as one JSON object.

python -m tests.record.kill_moves DIRECTORY
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentv.record.recovery import recover
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseError, CaseResult, Verdict
from tests.record.rows import make_row

CALLS = ("open", "write", "fsync", "fdatasync", "ftruncate", "replace", "rename", "unlink", "close")
CASES = 12


def errored(row: CaseResult) -> bool:
    return row.error is not None


def rows() -> tuple[list[bytes], list[bytes]]:
    """The lines of rows without an error, and of errored rows."""
    error = CaseError("target", "down")
    good = [encode_row(make_row(f"good-{n}")) for n in range(CASES)]
    bad = [encode_row(make_row(f"bad-{n}", score=0.0, verdict=Verdict.FAIL, error=error)) for n in range(CASES)]
    return good, bad


def killed_at(point: int, moment: str, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed at its system call number `point`. Returns whether it was killed."""
    child = os.fork()
    if child == 0:
        count = -1

        def dying(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count != point:
                return call(*arguments, **options)
            if moment == "halfway" and call is originals["write"]:
                call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            elif moment == "after":
                call(*arguments, **options)
            os._exit(9)

        originals = {name: getattr(os, name) for name in CALLS}
        for name, original in originals.items():
            setattr(os, name, lambda *a, _call=original, **o: dying(_call, *a, **o))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def kill_everywhere(directory: Path) -> dict[str, int]:
    counts = dict.fromkeys(["kills", "lost", "not_moved", "repeated", "changed"], 0)
    good, bad = rows()
    mixed = [line for pair in zip(good, bad, strict=True) for line in pair]
    for moment in ("before", "halfway", "after"):
        point, killed = 0, True
        while killed:
            run = RunDirectory.create(directory / f"{moment}-{point}", {})
            run.results.write_bytes(b"".join(mixed))
            killed = killed_at(point, moment, lambda run=run: recover(run, supersede=errored))  # type: ignore[misc]
            counts["kills"] += killed
            counts["lost"] += not {*mixed} <= {*lines(run.results), *lines(run.superseded)}
            # Half of the runs are resumed, the others run errored cases again.
            recover(run, supersede=errored if point % 2 else lambda _: False)
            recover(run, supersede=errored)
            counts["not_moved"] += lines(run.superseded) != bad
            counts["repeated"] += len(lines(run.superseded)) != len({*lines(run.superseded)})
            counts["changed"] += lines(run.results) != good
            point += 1
    return counts


if __name__ == "__main__":
    print(json.dumps(kill_everywhere(Path(sys.argv[1]))))
