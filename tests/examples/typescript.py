"""Build the TypeScript judges if Node and the built SDK are available."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SDK = ROOT / "sdk/typescript"
COMPILER = SDK / "node_modules/.bin/tsc"

needed = pytest.mark.skipif(
    not (shutil.which("node") and COMPILER.exists() and (SDK / "dist/index.js").exists()),
    reason="node, or the built SDK in sdk/typescript, is not there",
)


def build(folder: Path) -> None:
    """Do what `npm install` and `npm run build` do, in a copy of the examples and without network access."""
    scope = folder / "examples/node_modules/@agentv"
    scope.mkdir(parents=True)
    (scope / "eval").symlink_to(SDK, target_is_directory=True)
    done = subprocess.run(
        [COMPILER, "--project", "examples"], cwd=folder, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
