"""What a script of the same unprivileged user can read from the processes around it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentv.processes.confinement import prctl
from agentv.processes.launcher import Launcher
from agentv.processes.protection import PR_GET_DUMPABLE, capabilities, protect_runtime

from .support import python, sh

ROOT = Path(__file__).parents[2]
ALL = ["environ", "mem", "maps"]
NOBODY = 65534

landlock = pytest.mark.skipif(capabilities().landlock is None, reason="this kernel has no Landlock")


def as_user(argv: list[str], user: int = NOBODY, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command without privileges: as the current user, or as an unprivileged one when that is root."""
    who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv,
        env={"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.defpath, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
        **who,
    )
    return done


@functools.cache
def interpreter() -> str:
    """A Python that an unprivileged user can run and that can import agentv."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            if as_user([path, "-c", "import agentv.processes.launcher"]).returncode == 0:
                return path
        except OSError:
            continue
    pytest.skip("no Python 3.11 or later that an unprivileged user can run can import agentv")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory open to all users, unlike pytest's temporary directories."""
    with tempfile.TemporaryDirectory(prefix="agentv-test-", dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def looked(folder: Path, *, protect: bool, isolate: bool, namespaces: bool = False) -> dict[str, list[str]]:
    runtime = [interpreter(), str(Path(__file__).with_name("looking_runtime.py"))]
    arguments = [str(folder), str(int(protect)), str(int(isolate)), str(int(namespaces))]
    done = as_user(["/bin/sh", "-c", '"$@"; exit $?', "sh", *runtime, *arguments], API_KEY="a-secret-of-the-wrapper")
    assert done.returncode == 0, done.stderr
    result: dict[str, list[str]] = json.loads(done.stdout)
    assert result.pop("itself") == ALL
    return result


def test_unprotected_processes_are_readable_except_helper_and_supervisor(folder):
    seen = looked(folder, protect=False, isolate=False)
    assert seen == {"sibling": ALL, "supervisor": [], "helper": [], "runtime": ALL, "wrapper": ALL}


def test_protected_runtime_is_not_readable(folder):
    seen = looked(folder, protect=True, isolate=False)
    assert seen == {"sibling": ALL, "supervisor": [], "helper": [], "runtime": [], "wrapper": ALL}


@landlock
def test_isolated_script_cannot_read_any_other_process(folder):
    seen = looked(folder, protect=True, isolate=True)
    assert seen == {"sibling": [], "supervisor": [], "helper": [], "runtime": [], "wrapper": []}


def test_script_in_a_namespace_sees_only_its_own_processes(folder):
    seen = looked(folder, protect=True, isolate=True, namespaces=True)
    if "runtime" in seen:
        pytest.skip("this system does not permit PID namespaces")
    seen.pop("sibling")  # its pid means something else here
    assert seen == {"supervisor": []}


@landlock
async def test_isolated_script_can_use_files_sockets_and_child_processes(launcher, tmp_path):
    code = """
import os, socket, subprocess, sys, threading
folder = sys.argv[1]
for name in ('a', 'b'): os.mkdir(f'{folder}/{name}')
open(f'{folder}/a/file', 'w').close()
os.rename(f'{folder}/a/file', f'{folder}/b/file')
os.link(f'{folder}/b/file', f'{folder}/a/link')
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
child = subprocess.Popen(['sleep', '60']); child.kill(); child.wait()
print(open(f'/proc/{os.getpid()}/environ').read().count('MARK=1'), subprocess.check_output(['id', '-u']).decode())
"""
    outcome = await launcher.run(python(code, str(tmp_path), env={**os.environ, "MARK": "1"}, isolate=True))
    assert outcome.stderr == b""
    assert outcome.stdout.split() == [b"1", str(os.getuid()).encode()]


DOMAIN = """
import os, sys
from agentv.processes import confinement
abi, folder = int(sys.argv[1]), sys.argv[2]
def renamed():
    try: os.rename(folder + '/a/file', folder + '/b/file')
    except OSError as error: return error.errno
    os.rename(folder + '/b/file', folder + '/a/file')
    return 0
def seen():
    try: return len(open(f'/proc/{os.getppid()}/environ').read()) > 0
    except OSError: return False
print(seen(), renamed())
confinement.enter_domain(confinement.landlock_ruleset(abi), None)
print(seen(), renamed())
"""


@landlock
@pytest.mark.parametrize(("abi", "renaming"), [(1, 18), (2, 0), (6, 0)])
def test_every_landlock_version_isolates_and_allows_renaming_from_version_2(folder, abi, renaming):
    if (capabilities().landlock or 0) < abi:
        pytest.skip(f"this kernel has no Landlock version {abi}")
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "a" / "file").touch()
    done = as_user(["/bin/sh", "-c", '"$@"; exit $?', "sh", interpreter(), "-c", DOMAIN, str(abi), str(folder)])
    assert done.stderr == ""
    assert done.stdout.split() == ["True", "0", "False", str(renaming)]


def dumpable() -> int:
    return prctl(PR_GET_DUMPABLE, 0)


def test_protection_ends_when_the_last_user_leaves():
    assert dumpable() == 1
    with protect_runtime():
        assert dumpable() == 0
        with protect_runtime():
            assert dumpable() == 0
        assert dumpable() == 0
    assert dumpable() == 1


async def test_protected_runtime_can_run_scripts():
    with protect_runtime():
        async with Launcher() as launcher:
            assert (await launcher.run(sh("echo x", isolate=True))).stdout == b"x\n"
            assert (await launcher.run(sh("kill -9 $PPID"))).supervisor_lost


FULL = """
import asyncio, resource, sys
from agentv.processes.launcher import Launcher, Script
from agentv.processes.run import ProcessStartError
async def main(limit):
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, hard))
    try:
        async with Launcher() as launcher:
            await launcher.run(Script(['true'], '/', {'PATH': '/usr/bin:/bin'}, timeout=20))
    except ProcessStartError as error:
        print(error)
asyncio.run(main(int(sys.argv[1])))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user without other processes")
@pytest.mark.parametrize(
    ("limit", "message"), [(1, "could not be started"), (2, "cannot create another"), (3, "cannot create another")]
)
def test_process_limit_is_reported(limit, message):
    """The limit is hit by the helper, by a supervisor, and by the script itself."""
    unused_id = 61000 + (4 * os.getpid() + limit) % 4000  # not used by any process, including earlier tests
    assert message in as_user([interpreter(), "-c", FULL, str(limit)], user=unused_id).stdout
