"""The npm package `agentv`, installed in a temporary directory, for the same one-case evaluation."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.workload import ANSWER

SUITE = """\
description: one case
execution:
  target: scripted
tests:
  - id: case-000000
    criteria: Names the capital of France
    input: What is the capital of France?
    assertions:
      - {type: contains, value: Paris}
"""
TARGETS = f"targets:\n  - name: scripted\n    provider: mock\n    response: {ANSWER}\n"


def install(directory: Path, say: Callable[[str], None]) -> list[str]:
    """Install the package and write the suite next to it; returns the command that evaluates one case."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("--peers needs npm on the PATH. Install Node.js, or omit the option.")
    (directory / ".agentv").mkdir(parents=True)
    (directory / ".agentv" / "targets.yaml").write_text(TARGETS)
    (directory / "suite.eval.yaml").write_text(SUITE)
    say("installing the npm package agentv")
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "agentv"]
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return [str(directory / "node_modules" / ".bin" / "agentv"), "eval", "suite.eval.yaml"]
