"""Ask an interpreter for its version and its packages."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentv.interpreters.errors import InterpreterError

OLDEST = (3, 9)
"""The oldest Python that the SDK for scripts supports."""
SECONDS = 60.0
_SHOWN = 500
_PROGRAM = """
import sys
sys.path[:] = [entry for entry in sys.path if entry not in ("", ".")]
said = {"version": list(sys.version_info[:3]), "prefix": sys.prefix}
if sys.version_info >= (3, 9):
    import importlib.metadata, importlib.util
    pairs = [(each.metadata["Name"], each.version) for each in importlib.metadata.distributions()]
    said["packages"] = dict(sorted(((name, version) for name, version in reversed(pairs) if name), key=str))
    said["sdk"] = importlib.util.find_spec("agentv_eval") is not None
import json
print("\\n" + json.dumps(said))
"""
"""Runs in any Python, also in one that is too old."""


class Probed(NamedTuple):
    """What an interpreter reported about itself."""

    version: str
    packages: Mapping[str, str]
    has_sdk: bool


def probe(executable: str, environment: Mapping[str, str], options: Sequence[str] = ()) -> Probed:
    """Run the interpreter once. Raises InterpreterError if it is not a Python that can run scripts."""
    try:
        ended = subprocess.run(
            [executable, *options, "-"],
            env=dict(environment),
            input=_PROGRAM.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
            cwd="/",
        )
    except OSError as error:
        raise InterpreterError(f"could not start {executable}: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise InterpreterError(f"{executable} did not report its version within {SECONDS:g} s") from None
    data = _parsed(ended.stdout)
    if ended.returncode != 0 or data is None:
        output = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()[-_SHOWN:]
        raise InterpreterError(
            f"{executable} is not a Python interpreter that works (exit code {ended.returncode})"
            + (f":\n{output}" if output else ""),
            next_step="Set `python` of the evaluator to an interpreter, such as `.venv/bin/python`.",
        )
    version = ".".join(map(str, data["version"]))
    if tuple(data["version"]) < OLDEST:
        raise InterpreterError(
            f"{executable} must be Python {'.'.join(map(str, OLDEST))} or newer, got {version}",
            next_step="Set `python` of the evaluator to a newer interpreter.",
        )
    return Probed(version, data["packages"], bool(data["sdk"]))


def _parsed(stdout: bytes) -> dict[str, Any] | None:
    lines = stdout.decode("utf-8", "replace").strip().splitlines()
    try:
        data = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return data if isinstance(data, dict) and isinstance(data.get("version"), list) else None
