"""Runs Node with the built SDK. Tests are skipped if Node or the build is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SDK = ROOT / "sdk" / "typescript"
TESTS = Path(__file__).parent
TSC = SDK / "node_modules" / "typescript" / "bin" / "tsc"
BUILT = SDK / "dist" / ".ready"

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed; the TypeScript SDK needs Node 18 or later"
)
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed; it comes with Node")


def check_built() -> None:
    """Skip if the SDK was never built; fail if the build is out of date."""
    if not BUILT.exists():
        pytest.skip("sdk/typescript is not built: `make test` builds it where npm is installed")
    built = BUILT.stat().st_mtime
    newer = [path.name for path in SDK.glob("src/*.ts") if path.stat().st_mtime > built]
    assert not newer, (
        f"sdk/typescript/dist is older than {', '.join(newer)}: run `make test`, or `make typescript` alone"
    )


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without the variables that judges and the Node test runner read."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTV_", "NODE_", "npm_"))}
    return {**kept, "AGENTV_TEST_PYTHON": sys.executable, **extra}


def run(
    *argv: str | Path, cwd: Path = TESTS, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program. The caller checks the exit code."""
    return subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=clean_environment(**(env or {})),
        timeout=120,
        check=False,
    )
