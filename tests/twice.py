"""Runs the tests with several workers, and each test that failed once more, alone.

    python -m tests.twice [OPTIONS OF PYTEST]

Some tests need a deadline, and a machine that lends its CPUs to others can miss any deadline once. A test that fails
twice fails; one that passes the second time is listed as flaky. If more than `MOST` tests failed, something is broken,
and nothing is repeated.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

WORKERS = 4
"""Twice as many as the cores of the smallest machine: tests wait for processes and deadlines half of the time."""
MOST = 8
FAILED = 1
"""The exit code of pytest if tests failed; others mean that the tests could not be run."""


def main(options: Sequence[str]) -> int:
    """Run pytest, twice if a few tests failed; returns the exit code of the last run."""
    with tempfile.TemporaryDirectory() as cache:
        pytest = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", *options]
        code = subprocess.call(pytest if "-n" in options else [*pytest, "-n", str(WORKERS)])
        failed = _failed(Path(cache))
        if code != FAILED or not 0 < len(failed) <= MOST:
            return code
        print(
            f"\n{len(failed)} failed. Running again, one at a time:",
            *failed,
            sep="\n  ",
            flush=True,
        )
        code = subprocess.call([*pytest, "--last-failed", "--last-failed-no-failures", "none", "-n", "0"])
        flaky = set(failed) - set(_failed(Path(cache)))
        if flaky:
            print("Flaky, failed once and passed the second time:", *sorted(flaky), sep="\n  ", flush=True)
        return code


def _failed(cache: Path) -> list[str]:
    file = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
