"""The seccomp filter, evaluated here for every architecture, and what the kernel of this machine does with it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess

import pytest

from agentv.processes import protection
from agentv.processes.confinement import ALLOW, ARCHITECTURES, OWN_PID, REFUSE, UNKNOWN, X32, _program

from .support import python, sh
from .test_isolation import ROOT, interpreter

KINDS = {
    "x86-64": ("x86_64", 0xC000003E),
    "i386": ("x86_64", 0x40000003),
    "arm64": ("aarch64", 0xC00000B7),
    "arm": ("aarch64", 0x40000028),
}
NAMES = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd")


def verdict(machine: str, kind: int, number: int, *arguments: int) -> int:
    """Evaluate the filter for one system call, as the kernel would."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = b"".join(
        value.to_bytes(size, "little", signed=False)
        for value, size in [(number, 4), (kind, 4), (0, 8), *((word & (1 << 64) - 1, 8) for word in words)]
    )
    program = _program(ARCHITECTURES[machine][1])
    accumulator, at = 0, 0
    while True:
        operation, yes, no, value = program[at]
        at += 1
        if operation == 0x20:
            accumulator = int.from_bytes(data[value : value + 4], "little")
        elif operation == 0x06:
            return value
        else:
            at += yes if (accumulator == value if operation == 0x15 else accumulator >= value) else no


@pytest.mark.parametrize("name", KINDS)
def test_filter_refuses_calls_that_reach_into_other_processes(name):
    machine, kind = KINDS[name]
    prlimit, refused = ARCHITECTURES[machine][1][kind]
    assert [verdict(machine, kind, number) for number in refused] == [REFUSE] * len(NAMES)
    other, limit, old = 4321, 0x1000, 0x2000
    assert verdict(machine, kind, prlimit, other, 7, limit, old) == REFUSE
    assert verdict(machine, kind, prlimit, other, 7, 0, old) == ALLOW
    assert verdict(machine, kind, prlimit, 0, 7, limit, old) == ALLOW
    assert verdict(machine, kind, prlimit, OWN_PID, 7, limit, old) == ALLOW
    assert [verdict(machine, kind, number) for number in range(600) if number not in (*refused, prlimit)] == (
        [ALLOW] * (600 - len(refused) - 1)
    )


def test_filter_uses_the_half_of_an_argument_that_the_kernel_uses():
    prlimit = ARCHITECTURES["x86_64"][1][0xC000003E][0]
    assert verdict("x86_64", 0xC000003E, prlimit, (1 << 32) + 4321, 7, 0x1000) == REFUSE
    assert verdict("x86_64", 0xC000003E, prlimit, 4321, 7, 1 << 32) == REFUSE


def test_filter_has_no_way_around_it_through_other_calling_conventions():
    ptrace = ARCHITECTURES["x86_64"][1][0xC000003E][1][0]
    assert verdict("x86_64", 0xC000003E, X32 | ptrace) == UNKNOWN
    assert verdict("x86_64", 0xC000003E, 0xFFFFFFFF) == UNKNOWN
    assert verdict("x86_64", 0xC00000B7, 1) == REFUSE


CALLS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in map(int, sys.argv[1:]):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), ctypes.c_long(-1), ctypes.c_long(-1), ctypes.c_long(1))
    print(result, ctypes.get_errno())
"""


@pytest.mark.skipif(not protection.capabilities().seccomp, reason="this system has no seccomp filters")
async def test_kernel_accepts_the_filter(launcher):
    prlimit, refused = next(iter(ARCHITECTURES[os.uname().machine][1].values()))
    arguments = [str(number) for number in (*refused, prlimit)]
    isolated = await launcher.run(python(CALLS, *arguments, isolate=True))
    assert isolated.stdout.split() == [b"-1", b"1"] * 6, isolated.stderr
    plain = await launcher.run(python(CALLS, *arguments))
    assert b"-1 1\n" not in plain.stdout


async def test_tested_namespace_agrees_with_scripts(launcher):
    offered = protection.tested_capabilities()
    script = python("import os; print(os.getppid() == 1, os.readlink('/proc/self') == str(os.getpid()))", isolate=True)
    first, second = (await launcher.run(script)).stdout.split()
    assert (first == b"True", second) == (offered.pid_namespace, b"True")


async def test_isolated_scripts_have_different_pids(launcher):
    """Programs use their pid in names of temporary files. 80 scripts are more than one supervisor has pids for."""
    slots = asyncio.Semaphore(4)

    async def pid() -> int:
        async with slots:
            return int((await launcher.run(sh("echo $$", isolate=True))).stdout)

    pids = await asyncio.gather(*(pid() for _ in range(80)))
    assert len(set(pids)) == 80


MASKED = 'mount --bind /dev/null /proc/meminfo && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"'
ISOLATED = """
import asyncio, os
from agentv.processes import protection
from agentv.processes.launcher import Launcher, Script
async def main():
    async with Launcher() as launcher:
        script = Script(['/bin/sh', '-c', 'kill -9 $PPID; echo alive'], '/', {}, timeout=30, isolate=True)
        print(protection.tested_capabilities().pid_namespace, (await launcher.run(script)).stdout)
asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mask a part of /proc")
def test_isolated_scripts_run_without_a_namespace_where_proc_is_masked():
    """As in most containers: the kernel then refuses to mount another /proc."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs unshare and setpriv")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", MASKED, "sh", interpreter(), "-c", ISOLATED],
        env={"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "mount" in done.stderr:
        pytest.skip(done.stderr)
    alive = "b'alive\\n'" if protection.capabilities().signal_scope else "b''"
    assert (done.stdout, done.stderr) == (f"False {alive}\n", "")
