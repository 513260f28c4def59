"""A warm script cannot read more than a cold one, and its zygote contains no secrets."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentv.processes.protection import capabilities
from tests.conftest import Project
from tests.processes.test_isolation import as_user, interpreter
from tests.spec.support import KEY, fake_model, judged, models, write
from tests.threats.support import Watch, alive_with, assert_clean, assert_no_key

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scripts are warm on Linux only")

TELLING = """\
import json, os, shared
from pathlib import Path

def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

above = [os.getppid()]
while len(above) < 4 and above[-1] > 1:  # 1 is the supervisor in a PID namespace
    above.append(parent(above[-1]))
seen = {"environment": dict(os.environ), "initial": Path("/proc/self/environ").read_text(), "imported": shared.FOUND,
        "above": [Path(f"/proc/{pid}/environ").read_text() for pid in above]}
Path(f"seen-{os.getpid()}.json").write_text(json.dumps(seen))
print('{"score": 1}')
"""
SHARED = "from pathlib import Path\nFOUND = Path('/proc/self/environ').read_text()\n"


async def test_key_and_token_are_not_in_a_zygote_or_any_parent_process(
    project: Project,
) -> None:
    """As root, the script can read all of these processes, so they must not contain secrets."""
    async with fake_model() as server:
        write(project, "", {"judge": True, "warm": True}, config=models(server), cases=6)
        Path(project.root, "judge.py").write_text(TELLING)
        Path(project.root, "shared.py").write_text(SHARED)
        with Watch() as watch:
            ran = await judged(project, env={"COPY": f"x{KEY}y"})
    assert ran.process.returncode == 0, ran.words
    assert [row["evaluator_results"][0]["warnings"] for row in ran.rows] == [[]] * 6
    reports = [json.loads(path.read_text()) for path in project.root.glob("seen-*.json")]
    tokens = {seen["environment"]["AGENTV_JUDGE_PROXY_TOKEN"] for seen in reports}
    assert len(reports) == len(tokens) == 6
    for seen in reports:
        assert_no_key(json.dumps([seen["environment"], seen["initial"], seen["imported"], seen["above"]]))
        assert "PATH=" in seen["imported"]
        for token in tokens:
            assert not any(token in text for text in (seen["initial"], seen["imported"], *seen["above"]))
    assert not [line for line in watch.seen if KEY in line or any(token in line for token in tokens)]
    assert_clean(ran)


RUNTIME = """
import asyncio, os, sys
from pathlib import Path
from agentv.processes.launcher import Launcher, Script
from agentv.processes.protection import protect_runtime
async def main(folder, namespaces):
    def script(word):
        return Script([sys.executable, 'judge.py'], folder, {'A': 'b', 'TOKEN': word}, stdin=word.encode(), timeout=30,
                      isolate=True, warm=True, own_variables=frozenset({'TOKEN'}))
    cold = []
    with protect_runtime():
        async with Launcher(namespaces=namespaces == '1') as launcher:
            sibling = asyncio.create_task(launcher.run(script('sleep'), on_cold=cold.append))
            while not Path(folder, 'sibling').exists() or not Path(folder, 'sibling').read_text().endswith('\\n'):
                await asyncio.sleep(0.005)
            outcome = await launcher.run(script('look'), on_cold=cold.append)
            sibling.cancel()
            await asyncio.wait({sibling})
    assert not cold, cold
    sys.stdout.write(outcome.stdout.decode() or outcome.stderr.decode())
asyncio.run(main(*sys.argv[1:]))
"""
LOOK = """\
import json, os, sys, time
import shared

if sys.stdin.read() == "sleep":
    with open("sibling", "w") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(60)
around = {"itself": os.getpid(), "sibling": int(open("sibling").read()), "supervisor": os.getppid()}
for name, below in (("zygote", "supervisor"), ("upper", "zygote"), ("helper", "upper"), ("runtime", "helper"),
                    ("wrapper", "runtime")):
    if around.get(below, 1) > 1:
        around[name] = shared.parent(around[below])
print(json.dumps({"now": {name: shared.seen(pid) for name, pid in around.items()}, "imported": shared.ABOVE}))
"""
LOOKING = """\
import os

def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

def seen(pid):
    found = []
    for name in ("environ", "mem", "maps"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                if name == "mem" or file.read():
                    found.append(name)
        except OSError:
            pass
    return found

above = [os.getppid()]
while len(above) < 4 and above[-1] > 1:
    above.append(parent(above[-1]))
ABOVE = [seen(pid) for pid in above]
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="agentv-test-", dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.skipif(capabilities().landlock is None, reason="this kernel has no Landlock")
@pytest.mark.parametrize("namespaces", ["0", "1"], ids=["without namespace", "in a namespace"])
async def test_unprivileged_warm_script_cannot_read_other_processes(folder: Path, namespaces: str) -> None:
    (folder / "judge.py").write_text(LOOK)
    (folder / "shared.py").write_text(LOOKING)
    command = ["/bin/sh", "-c", '"$@"; exit $?', "sh", interpreter(), "-c", RUNTIME, str(folder), namespaces]
    done = await asyncio.to_thread(as_user, command, API_KEY="a-secret-of-the-wrapper")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["now"].pop("itself") == ["environ", "mem", "maps"]
    others = ("sibling", "supervisor", "zygote", "upper", "helper", "runtime", "wrapper")
    hidden = 3 if "helper" not in report["now"] else 0
    assert hidden == 0 or namespaces == "1"
    assert report["now"] == {name: [] for name in others[: len(others) - hidden]}
    assert report["imported"] == [[]] * (4 - hidden)


LEAVING = """\
import mmap
AREA = mmap.mmap(-1, 64)
"""
CARRYING = """\
import json, os, shared
before = bytes(shared.AREA[:32]).strip(b"\\0").decode()
shared.AREA[:32] = os.environ["AGENTV_JUDGE_PROXY_TOKEN"].encode()[:32]
print(json.dumps({"score": 0 if before else 1, "details": {"before": before}}))
"""
DAEMON = """\
import os, uuid
SECONDS = f"600.{uuid.uuid4().int % 10**12:012}"
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, b"x")
        os.closerange(0, 1000)
        os.execvp("sleep", ["sleep", SECONDS])
    os._exit(0)
os.wait()
os.read(reader, 1)
os.close(reader)
os.close(writer)
"""
NAMING = """\
import json, shared
print(json.dumps({"score": 1, "details": {"seconds": shared.SECONDS}}))
"""
CROSSING = {
    "memory": (LEAVING, CARRYING, "its imports create writable memory that all executions would share (anonymous)"),
    "processes": (DAEMON, NAMING, "its imports start processes"),
}


@pytest.mark.parametrize("kind", CROSSING)
async def test_imports_carry_nothing_from_one_warm_execution_to_the_next(project: Project, kind: str) -> None:
    imported, judge, reason = CROSSING[kind]
    async with fake_model() as server:
        write(project, "", {"judge": True, "warm": True}, config=models(server), cases=3)
        Path(project.root, "judge.py").write_text(judge)
        Path(project.root, "shared.py").write_text(imported)
        ran = await judged(project, "--workers", "1")
    results = [row["evaluator_results"][0] for row in ran.rows]
    assert [result["score"] for result in results] == [1, 1, 1], [result["details"] for result in results]
    assert ran.process.returncode == 0, ran.words
    warnings = [warning for result in results for warning in result["warnings"]]
    assert len(warnings) == 1
    assert warnings[0].endswith(f"cannot be kept warm and is started for every case: {reason}")
    if kind == "processes":
        daemons = {f"sleep {result['details']['seconds']}" for result in results}
        assert len(daemons) == 3
        assert not [pid for daemon in daemons for pid in alive_with(daemon)]
