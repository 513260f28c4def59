"""Scripts run by other interpreters, and the launcher itself in other interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentv.processes.launcher import Launcher, Script

from .warm_support import CLEAN, why_cold, write

VERSIONS = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
ROOT = Path(__file__).parents[2]

JUDGE = """\
import json, random, sys, warnings
import shared
assert __name__ == "__main__" and sys.argv == ["judge.py"]
print(json.dumps({"score": 1, "version": list(sys.version_info[:2]), "said": sys.stdin.read()}))
"""
SHARED = "with open('imports', 'a') as file: file.write('x')\n"

RUNTIME = """\
import asyncio, json, os, sys
from agentv.processes.launcher import Launcher, Script

async def main():
    cold, outcomes = [], []
    async with Launcher() as launcher:
        for n in range(4):
            script = Script([sys.executable, "judge.py"], ".", dict(os.environ), f"{n}".encode(), 60.0, warm=True)
            outcomes.append(await launcher.run(script, on_cold=cold.append))
        failing = Script([sys.executable, "failing.py"], ".", dict(os.environ), b"", 60.0, warm=True)
        failed = [await launcher.run(failing, on_cold=cold.append) for _ in range(2)]
    print(json.dumps({
        "cold": cold,
        "said": [json.loads(outcome.stdout) for outcome in outcomes],
        "stderr": "".join(outcome.stderr.decode() for outcome in outcomes),
        "failed": [[outcome.returncode, outcome.stderr.decode().splitlines()[-1]] for outcome in failed],
    }))

asyncio.run(main())
"""


def interpreter(version: str) -> str:
    interpreters = sorted(VERSIONS.glob(f"{version}.*/bin/python"))
    if not interpreters or sys.platform != "linux":
        pytest.skip(f"Python {version} is not installed")
    return str(interpreters[-1])


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
async def test_script_of_another_interpreter_is_started_cold_with_a_note(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    write(tmp_path, JUDGE)
    write(tmp_path, SHARED, "shared.py")
    notes: list[str] = []
    async with Launcher(on_note=notes.append) as launcher:
        wanted = Script([python, "judge.py"], tmp_path, CLEAN, b"hello", 60.0, warm=True)
        outcome, reasons = await why_cold(launcher, wanted)
        again, told_again = await why_cold(launcher, wanted)
    assert outcome.returncode == again.returncode == 0, outcome.stderr
    assert f'"version": [{version.replace(".", ", ")}], "said": "hello"'.encode() in again.stdout
    assert (len(reasons), told_again) == (1, [])
    assert "agentv's own interpreter" in reasons[0]
    assert len(notes) == 1
    assert f"{python} judge.py" in notes[0]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_scripts_are_warm_without_warnings_in_every_supported_interpreter(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    write(tmp_path, JUDGE)
    write(tmp_path, SHARED, "shared.py")
    write(tmp_path, "import shared\nraise ValueError('broken')\n", "failing.py")
    write(tmp_path, RUNTIME, "runtime.py")
    env = {**CLEAN, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"}
    command = [python, "runtime.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    number = f"[{version.replace('.', ', ')}]"
    results = ", ".join(f'{{"score": 1, "version": {number}, "said": "{n}"}}' for n in range(4))
    failed = '[1, "ValueError: broken"]'
    assert ran.stdout == f'{{"cold": [], "said": [{results}], "stderr": "", "failed": [{failed}, {failed}]}}\n'
    assert (tmp_path / "imports").read_text() == "xx"
