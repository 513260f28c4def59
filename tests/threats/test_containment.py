"""A script with judge access cannot stop, kill or cripple the processes around it, and cannot outlive its timeout."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agentv.processes.protection import capabilities
from tests.conftest import Project
from tests.patience import DEADLINES
from tests.processes.test_isolation import NOBODY, ROOT, as_user
from tests.spec.support import scripted, write, write_suite
from tests.threats.support import alive_with, wait_for
from tests.threats.test_credentials import WITHOUT_PRIVILEGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scripts are contained on Linux only")

ACCESS: dict[str, Any] = {"judge": True}
PACKAGES = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib")])


@functools.cache
def interpreter() -> str:
    """A Python that an unprivileged user can run, and that can run agentv."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            if as_user([path, "-m", "agentv", "--help"], PYTHONPATH=PACKAGES).returncode == 0:
                return path
        except OSError:
            continue
    pytest.skip("no Python that an unprivileged user can run can import agentv")


class User:
    """Runs `agentv eval suite.yaml --run-dir run` in an open project, as a user without privileges."""

    def __init__(self, root: Path, *, namespaces: bool) -> None:
        self.project = Project(root)
        self._namespaces = namespaces

    def start(self) -> subprocess.Popen[str]:
        arguments = ["-m", "agentv", "eval", "suite.yaml", "--run-dir", "run", "--workers", "1", "--json"]
        options: dict[str, Any] = {
            "cwd": self.project.root,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        if not self._namespaces:  # root without capabilities can create none, and keeps its id
            command = [sys.executable, "-c", WITHOUT_PRIVILEGE, sys.executable, *arguments]
            return subprocess.Popen(command, env=self.project.environment(), **options)
        if os.geteuid() == 0:
            options |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        env = {"PYTHONPATH": PACKAGES, "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
        return subprocess.Popen([interpreter(), *arguments], env=env, **options)

    def rows(self) -> list[dict[str, Any]]:
        return self.project.rows(self.project.root / "run")


@pytest.fixture(params=[True, False], ids=["in a namespace", "without namespace"])
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    if not request.param and os.geteuid() != 0:
        pytest.skip("only root can be denied a namespace here")
    with tempfile.TemporaryDirectory(prefix="agentv-test-", dir="/tmp") as name:
        root = Path(name)
        root.chmod(0o777)
        (root / ".git").mkdir()
        yield User(root, namespaces=request.param)


def write_script(project: Project, script: str, options: dict[str, Any], cases: int = 1) -> None:
    """Like `write`, but without functions for the judge: importing them would prevent a warm start."""
    write(project, "", options, cases=cases)
    done = "import json, os, sys\n\ndef done(**details):\n    print(json.dumps({'score': 1, 'details': details}))\n"
    (project.root / "judge.py").write_text(done + dedent(script))


def children(pid: int) -> list[int]:
    """Pids of the children of a process, as seen from here."""
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


ATTACKS = """
    import ctypes, resource, signal, subprocess, time

    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = libc.process_vm_readv.argtypes = None
    PTRACE_ATTACH, PTRACE_DETACH = 16, 17

    def checked(result):
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def read_memory(pid):
        target = ctypes.create_string_buffer(8)
        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
        local, remote = (Vector(ctypes.addressof(target), 8) for _ in range(2))
        checked(libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))

    def lower(pid, number=resource.RLIMIT_NOFILE):
        resource.prlimit(pid, number, (8, 8))

    def by_descriptor(pid):
        signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGSTOP)

    def by_owner_of_a_pipe(pid):
        import fcntl
        reader, writer = os.pipe()
        fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
        fcntl.fcntl(reader, 10, signal.SIGSTOP)  # F_SETSIG
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(writer, b"x")

    def attach(pid):
        checked(libc.ptrace(PTRACE_ATTACH, pid, None, None))
        os.waitpid(pid, 0)
        checked(libc.ptrace(PTRACE_DETACH, pid, None, None))

    def outcome(action, pid):
        try:
            action(pid)
        except OSError as error:
            return error.strerror
        return "done"

    ATTACKS = {
        "prlimit": lower,
        "ptrace": attach,
        "process_vm_readv": read_memory,
        "owner": by_owner_of_a_pipe,
        "stop by descriptor": by_descriptor,
        "stop": lambda pid: os.kill(pid, signal.SIGSTOP),
        "kill": lambda pid: os.kill(pid, signal.SIGKILL),
    }
    me = json.load(sys.stdin)["eval_id"]
    if me == "case-0":
        open("ready", "w")
        while not os.path.exists("targets.json"):
            time.sleep(0.01)
        targets = json.load(open("targets.json"))
        targets["parent"] = os.getppid()
        seen = {
            name: {attack: outcome(action, pid) for attack, action in ATTACKS.items()} for name, pid in targets.items()
        }
        child = subprocess.Popen(["sleep", "60"])
        own = {name: outcome(ATTACKS[name], child.pid) for name in ("stop", "kill")}
        child.wait()
        own["limit"] = outcome(lower, 0)
        own["limit by pid"] = outcome(lambda pid: lower(pid, resource.RLIMIT_CORE), os.getpid())
        own["read limits"] = outcome(lambda pid: resource.prlimit(pid, resource.RLIMIT_CORE), os.getppid())
        done(seen=seen, own=own)
    else:
        done()
"""


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_script_with_judge_access_cannot_attack_the_processes_around_it(user: User, warm: bool) -> None:
    """It tries to stop, kill, limit, trace and read the runtime, the helper, and the supervisors."""
    if not (capabilities().signal_scope and capabilities().seccomp):
        pytest.skip("this kernel cannot prevent it")
    write_script(user.project, ATTACKS, {**ACCESS, "warm": warm}, cases=2)
    with user.start() as process:
        try:
            wait_for((user.project.root / "ready").exists)
            (helper,) = children(process.pid)
            targets = {"runtime": process.pid, "helper": helper}
            targets |= {f"supervisor {number}": pid for number, pid in enumerate(children(helper))}
            user.project.write("targets.part", json.dumps(targets)).rename(user.project.root / "targets.json")
            _, err = process.communicate(timeout=40)
        finally:
            process.kill()
    assert process.returncode == 0, err
    rows = {row["eval_id"]: row for row in user.rows()}
    assert [rows[name]["score"] for name in ("case-0", "case-1")] == [1, 1]
    assert rows["case-0"]["evaluator_results"][0]["warnings"] == []
    details = rows["case-0"]["evaluator_results"][0]["details"]
    assert {"runtime", "helper", "parent", "supervisor 0"} <= details["seen"].keys()
    for name, attacks in details["seen"].items():
        attacks.pop("owner")  # the kernel accepts any owner of a pipe, but sends it no signal
        assert set(attacks.values()) <= {"Operation not permitted", "No such process"}, (name, attacks)
    warm_limit = "Operation not permitted" if warm else "done"  # with warm scripts, the number is that of the zygote
    expected = {"stop": "done", "kill": "done", "limit": "done", "limit by pid": warm_limit, "read limits": "done"}
    assert details["own"] == expected


def test_script_without_judge_access_is_not_contained(user: User) -> None:
    """Verifies that the targets above are the right ones: without judge access, all of them can be reached."""
    script = """
        import time
        open("ready", "w")
        while not os.path.exists("targets.json"):
            time.sleep(0.01)
        for pid in json.load(open("targets.json")):
            os.kill(pid, 0)
        done()
    """
    write(user.project, script)
    with user.start() as process:
        try:
            wait_for((user.project.root / "ready").exists)
            (helper,) = children(process.pid)
            targets = [process.pid, helper, *children(helper)]
            user.project.write("targets.part", json.dumps(targets)).rename(user.project.root / "targets.json")
            _, err = process.communicate(timeout=40)
        finally:
            process.kill()
    assert process.returncode == 0, err


SLEEPS = """
    import subprocess
    def sleep(_):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", MARKER], start_new_session=True)
        open("ready", "w")
        child.wait()
"""
WAYS = {
    "plain": ({}, "sleep(None)"),
    "with judge": (ACCESS, "sleep(None)"),
    "warm": ({**ACCESS, "warm": True}, "sleep(None)"),
    "jsonl": ({**ACCESS, "protocol": "jsonl"}, "for line in sys.stdin: sleep(line)"),
}


@pytest.mark.parametrize("way", WAYS)
def test_timeout_is_kept_while_the_runtime_is_stopped(project: Project, way: str) -> None:
    options, call = WAYS[way]
    marker = f"marker-{uuid.uuid4().hex}"
    for seconds in (1.0, *DEADLINES[1:]):
        script = SLEEPS.replace("MARKER", repr(marker)) + f"    {call}\n"
        write_script(project, script, {**options, "timeout_seconds": seconds})
        run = f"run-{seconds:g}"
        with project.start("eval", "suite.yaml", "--run-dir", run) as process:
            try:
                wait_for(lambda: (project.root / "ready").exists() or process.poll() is not None)
                process.send_signal(signal.SIGSTOP)
                came_so_far = bool(alive_with(marker))
                wait_for(lambda: not alive_with(marker), seconds + 20)
                process.send_signal(signal.SIGCONT)
                process.communicate(timeout=60)
            finally:
                process.kill()
        (row,) = project.rows(project.root / run)
        assert f"did not finish within {seconds:g} s" in row["error"]["message"]
        if came_so_far:
            return
        (project.root / "ready").unlink(missing_ok=True)
    pytest.fail("the script did not start in time")


ORPHANS = """
    import time

    def zombies():
        count = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                state, parent = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            count += state == "Z" and int(parent) == os.getppid()
        return count

    for _ in range(400):  # twice as many orphans
        child = os.fork()
        if child == 0:
            if os.fork() and os.fork():
                os._exit(0)
            os._exit(0)
        os.waitpid(child, 0)
    until = time.monotonic() + 20
    while (count := zombies()) and time.monotonic() < until:
        time.sleep(0.01)
    done(zombies=count)
"""


@pytest.mark.parametrize("options", [{}, ACCESS, {**ACCESS, "warm": True}], ids=["plain", "with judge", "warm"])
def test_orphans_are_reaped_while_the_script_runs(project: Project, options: dict[str, Any]) -> None:
    write_script(project, ORPHANS, options)
    with project.start("eval", "suite.yaml", "--run-dir", "run") as process:
        _, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    (result,) = project.rows(project.root / "run")[0]["evaluator_results"]
    assert (result["details"], result["warnings"]) == ({"zombies": 0}, [])


CHAINS = """
import os, sys
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:  # every process lives for a moment and leaves a successor
            if os.fork():
                os._exit(0)
os.write(1, b'{"score": 1}')
"""


def test_fork_chains_end_with_their_script(user: User) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    evaluator = {"type": "code_judge", "script": ["python", "chains.py", marker], **ACCESS}
    (user.project.root / "chains.py").write_text(CHAINS)
    write_suite(user.project, [{"id": "chains", "input": "?"}], execution={"evaluators": [evaluator]})
    user.project.write("agentv.config.yaml", json.dumps(scripted()))
    with user.start() as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert alive_with(marker) == []


def test_ordinary_programs_work_with_judge_access(user: User) -> None:
    """Limits, priorities, time limits, /proc, temporary files, threads and pools behave as usual."""
    script = """
        import concurrent.futures, multiprocessing, shutil, subprocess, tempfile, threading
        def out(*argv):
            return subprocess.check_output(argv, text=True, stderr=subprocess.STDOUT).strip()
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            pooled = list(pool.map(abs, [-1, -2]))
        with tempfile.NamedTemporaryFile() as file:
            mine = os.stat(file.name).st_uid == os.getuid()
        done(
            pooled=pooled,
            mine=mine,
            limit=out("sh", "-c", "ulimit -n 100; ulimit -n"),
            nice=out("nice", "-n", "5", "echo", "nice"),
            timeout=subprocess.call(["timeout", "0.1", "sleep", "5"]),
            proc=[os.readlink("/proc/self") == str(os.getpid()), os.path.exists(f"/proc/{os.getpid()}/stat")],
            shell=out("sh", "-c", "sleep 0 & wait; trap 'echo trapped' TERM; kill -TERM $$"),
            pinned=os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0)),
            uid=out("id", "-u") == str(os.getuid()),
        )
    """
    write(user.project, script, ACCESS)
    with user.start() as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert user.rows()[0]["evaluator_results"][0]["details"] == {
        "pooled": [1, 2],
        "mine": True,
        "limit": "100",
        "nice": "nice",
        "timeout": 124,
        "proc": [True, True],
        "shell": "trapped",
        "pinned": None,
        "uid": True,
    }


CRAWLING = (
    """
import os, sys
sys.stdin.read()
for _ in range(50):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
"""
    + CHAINS
)


@pytest.mark.soak
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_many_scripts_with_orphans_and_fork_chains_leave_nothing(user: User, warm: bool) -> None:
    """150 executions, one after the other in the same namespaces: 50 orphans and 4 fork chains each."""
    marker = f"marker-{uuid.uuid4().hex}"
    evaluator = {"type": "code_judge", "script": ["python", "chains.py", marker], **ACCESS, "warm": warm}
    (user.project.root / "chains.py").write_text(CRAWLING)
    cases = [{"id": f"case-{number}", "input": "?"} for number in range(150)]
    write_suite(user.project, cases, execution={"evaluators": [evaluator]})
    user.project.write("agentv.config.yaml", json.dumps(scripted()))
    with user.start() as process:
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert alive_with(marker) == []
    assert [row["score"] for row in user.rows()] == [1] * 150
