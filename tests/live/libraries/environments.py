"""The environments of the judge scripts in `judges/`, which import libraries that agentv does not depend on.

    python -m tests.live.libraries.environments

installs them from their lock files. Without a reachable package index, it prints a line; their tests are then skipped.
TruLens has its own, because it does not work with version 2 of `openai`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
CURRENT, TRULENS, NODE = "current", "trulens", "node"
INSTALLER = ROOT / ".venv-libraries" / "installer"
UNREACHABLE = re.compile(
    r"Failed to fetch|error sending request|dns error|NewConnectionError|ConnectTimeout|No matching distribution"
    r"|E(NOTFOUND|CONNREFUSED|CONNRESET|TIMEDOUT|AI_AGAIN)"
)
SECONDS = 900


class UnreachableError(Exception):
    """The package index cannot be reached."""


def folder_of(name: str) -> Path:
    """Where an environment is."""
    return FOLDER / "node_modules" if name == NODE else ROOT / ".venv-libraries" / name


def lock_of(name: str) -> Path:
    return FOLDER / ("package-lock.json" if name == NODE else f"{name}.lock")


def interpreter(name: str) -> Path:
    """The program that runs scripts in an environment."""
    node = shutil.which("node")
    return Path(node or "node") if name == NODE else folder_of(name) / "bin" / "python"


def is_installed(name: str) -> bool:
    """Whether the environment has what its lock file lists."""
    stamp = folder_of(name) / ".installed"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == _state(name)


def _state(name: str) -> str:
    return hashlib.sha256(lock_of(name).read_bytes()).hexdigest()


def install(name: str) -> None:
    """Install an environment. Raises `UnreachableError`."""
    folder = folder_of(name)
    if name == NODE:
        _run(["npm", "ci", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1"], cwd=FOLDER)
    else:
        uv = INSTALLER / "bin" / "uv"
        if not uv.exists():
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--retries", "1"]
            _run([*pip, "install", "--require-hashes", "--target", str(INSTALLER), "-r", str(lock_of("installer"))])
        if not interpreter(name).exists():
            venv.create(folder, symlinks=True)
        _run([str(uv), "pip", "sync", "--quiet", "--require-hashes", "--python", str(folder), str(lock_of(name))])
    (folder / ".installed").write_text(_state(name), encoding="utf-8")


def _run(command: Sequence[str], cwd: Path = ROOT) -> None:
    environment = {"UV_CACHE_DIR": str(INSTALLER / "cache"), "UV_HTTP_RETRIES": "1", **os.environ}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        error = UnreachableError if UNREACHABLE.search(done.stderr) else RuntimeError
        raise error(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    names = [CURRENT, TRULENS, *([NODE] if shutil.which("npm") else [])]
    for name in names:
        if is_installed(name):
            continue
        started = time.monotonic()
        try:
            install(name)
        except UnreachableError:
            print(f"Tests of libraries ({name}) will be skipped: the package index is unreachable.", flush=True)
            continue
        print(f"Installed the libraries ({name}) in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
