"""A runtime whose script tries to read every process around it. Run by `test_isolation.py`, not by pytest.

    looking_runtime.py FOLDER PROTECT ISOLATE NAMESPACES

Prints which of `environ`, `mem` and `maps` the script could open, for each process around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from agentv.processes.launcher import Launcher, Script
from agentv.processes.protection import protect_runtime

SIBLING = "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()}\\n'); time.sleep(60)"
LOOK = """
import json, os, sys
def parent(pid): return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
def seen(pid):
    found = []
    for name in ('environ', 'mem', 'maps'):
        try:
            with open(f'/proc/{pid}/{name}', 'rb') as file:
                if name == 'mem' or file.read(): found.append(name)
        except OSError:
            pass
    return found
around = {'sibling': int(sys.argv[1]), 'supervisor': os.getppid()}
for name, below in (('helper', 'supervisor'), ('runtime', 'helper'), ('wrapper', 'runtime')):
    if around.get(below, 1) > 1: around[name] = parent(around[below])
around['itself'] = os.getpid()
print(json.dumps({name: seen(pid) for name, pid in around.items()}))
"""


async def main(folder: str, protect: bool, isolate: bool, namespaces: bool) -> None:
    def script(code: str, argument: str) -> Script:
        return Script([sys.executable, "-c", code, argument], cwd="/", env={"A": "b"}, timeout=30, isolate=isolate)

    pid_file = Path(folder, f"sibling-{os.getpid()}")
    with protect_runtime() if protect else contextlib.nullcontext():
        async with Launcher(namespaces=namespaces) as launcher:
            sibling = asyncio.create_task(launcher.run(script(SIBLING, str(pid_file))))
            while not pid_file.exists() or not pid_file.read_text().endswith("\n"):
                await asyncio.sleep(0.005)
            outcome = await launcher.run(script(LOOK, pid_file.read_text().strip()))
            sibling.cancel()
            await asyncio.wait({sibling})
    sys.stdout.write(outcome.stdout.decode() or outcome.stderr.decode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *(word == "1" for word in sys.argv[2:])))
