"""Scripts run by other interpreters, and the launcher itself in other interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentv.processes.launcher import Launcher, Script

from .warm_support import CLEAN, warm, why_cold, write

VERSIONS = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
ROOT = Path(__file__).parents[2]

OWN = frozenset({"TOKEN"})
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


OTHER = """\
import json, os, sys, threading
import shared
assert __name__ == "__main__" and sys.argv == ["judge.py"] and sys.path[0] == os.getcwd()
shared.JOBS.put(sys.stdin.read())
print(json.dumps([list(sys.version_info[:2]), shared.COPY["TOKEN"], shared.DONE.get(), shared.WORKER.is_alive()]))
"""
OTHER_SHARED = (
    SHARED
    + """\
import os, queue, threading
COPY = dict(os.environ)
JOBS, DONE = queue.Queue(), queue.Queue()
def work():
    while True:
        DONE.put(JOBS.get().upper())
WORKER = threading.Thread(target=work, daemon=True)
WORKER.start()
"""
)


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
async def test_script_of_another_interpreter_is_warm(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    write(tmp_path, OTHER)
    write(tmp_path, OTHER_SHARED, "shared.py")
    async with Launcher() as launcher:
        for number in range(3):
            env = {**CLEAN, "TOKEN": f"t{number}"}
            wanted = Script([python, "judge.py"], tmp_path, env, b"hello", 60.0, warm=True, own_variables=OWN)
            outcome = await warm(launcher, wanted)
            assert (outcome.returncode, outcome.stderr) == (0, b"")
            assert outcome.stdout == f'[[{version.replace(".", ", ")}], "t{number}", "HELLO", true]\n'.encode()
        write(tmp_path, "1 / 0")
        failed = await warm(launcher, wanted)
        assert (failed.returncode, failed.stderr.splitlines()[-1]) == (1, b"ZeroDivisionError: division by zero")
    assert (tmp_path / "imports").read_text() == "x"


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8"])
async def test_script_of_an_old_interpreter_is_started_cold_and_runs_once(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    write(tmp_path, "with open('runs', 'a') as file: file.write('x')\nprint('ok')")
    async with Launcher() as launcher:
        outcome, reasons = await why_cold(launcher, Script([python, "judge.py"], tmp_path, CLEAN, b"", 60.0, warm=True))
    assert (outcome.stdout, reasons) == (b"ok\n", ["its Python is older than 3.9"])
    assert (tmp_path / "runs").read_text() == "x"


async def test_shell_script_with_the_name_of_an_interpreter_is_started_cold(tmp_path: Path) -> None:
    program = write(tmp_path, f'#!/bin/sh\necho x >> runs\nexec {sys.executable} "$@"\n', "bin/python")
    program.chmod(0o755)
    write(tmp_path, "print('ok')")
    async with Launcher() as launcher:
        wanted = Script([str(program), "judge.py"], tmp_path, CLEAN, b"", 60.0, warm=True)
        outcome, reasons = await why_cold(launcher, wanted)
    assert (outcome.stdout, reasons) == (b"ok\n", ["it is not a Python file run by a Python interpreter"])
    assert (tmp_path / "runs").read_text() == "x\n"


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
