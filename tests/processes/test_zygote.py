"""Zygotes: what executions share, and when zygotes are started and ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.kill_runtime import KINDS, SIGNALS, marked

from agentv.processes.launcher import Launcher
from agentv.processes.run import ProcessOutcome, ProcessStartError
from tests.conftest import signals_heard
from tests.patience import patiently

from .support import children, helper_pid, marker, open_files, sh, until, zombies_of
from .warm_support import CLEAN, Cold, script, warm, why_cold, write, zygotes

COUNTING = "import shared\nshared.COUNT += 1\nprint(shared.COUNT)"


async def test_modules_are_imported_once_and_the_script_runs_every_time(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "from pathlib import Path\nwith Path('imports').open('a') as f: f.write('x')\n", "shared.py")
    write(tmp_path, "import shared\nprint('body')")
    for _ in range(5):
        assert (await warm(launcher, script(tmp_path))).stdout == b"body\n"
    assert (tmp_path / "imports").read_text() == "x"


async def test_executions_do_not_share_state(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "COUNT = 0", "shared.py")
    write(tmp_path, COUNTING + "\nimport os, sys, json\nos.environ['LEFT'] = 'x'\njson.left = sys.modules['left'] = 1")
    outcomes = await asyncio.gather(*(warm(launcher, script(tmp_path)) for _ in range(20)))
    assert {outcome.stdout for outcome in outcomes} == {b"1\n"}
    write(tmp_path, "import sys, os, json\nprint('left' in sys.modules, 'LEFT' in os.environ, hasattr(json, 'left'))")
    assert (await warm(launcher, script(tmp_path))).stdout == b"False False False\n"


async def test_random_state_is_not_shared(launcher: Launcher, tmp_path: Path):
    write(
        tmp_path,
        """
        import json, random, secrets, tempfile, uuid
        name = next(tempfile._get_candidate_names())
        print(json.dumps([random.random(), secrets.token_hex(), str(uuid.uuid4()), str(uuid.uuid1()), name]))
        """,
    )
    outcomes = await asyncio.gather(*(warm(launcher, script(tmp_path)) for _ in range(20)))
    drawn = [json.loads(outcome.stdout) for outcome in outcomes]
    assert [len(set(kind)) for kind in zip(*drawn, strict=True)] == [20] * 5


async def test_own_variables_are_set_per_execution_and_not_in_the_zygote(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "import os\nprint(os.environ['TOKEN'], os.getenv('SHARED'))\nos.system('echo $TOKEN')")

    async def run(number: int) -> bytes:
        env = {**CLEAN, "SHARED": "both", "TOKEN": f"token-{number}"}
        wanted = script(tmp_path, env={**env, "PYTHONUNBUFFERED": "1"}, own_variables=frozenset({"TOKEN"}))
        return (await warm(launcher, wanted)).stdout

    outputs = await asyncio.gather(*map(run, range(20)))
    assert outputs == [f"token-{number} both\ntoken-{number}\n".encode() for number in range(20)]
    (zygote,) = zygotes(launcher)
    environment = Path(f"/proc/{zygote}/environ").read_bytes()
    assert b"SHARED=both" in environment
    assert b"TOKEN" not in environment
    assert b"token-" not in environment


async def test_different_variables_use_another_zygote(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "import os\nprint(os.environ['KIND'])")
    for kind in ("a", "b", "a"):
        assert (await warm(launcher, script(tmp_path, env={**CLEAN, "KIND": kind}))).stdout == f"{kind}\n".encode()
    assert len(zygotes(launcher)) == 2


async def test_two_hundred_warm_executions_run_concurrently(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "import json, sys\nprint(json.load(sys.stdin) + 1)")
    wanted = (script(tmp_path, stdin=str(number).encode()) for number in range(200))
    outcomes = await asyncio.gather(*(warm(launcher, each) for each in wanted))
    assert [int(outcome.stdout) for outcome in outcomes] == list(range(1, 201))
    assert len(zygotes(launcher)) == 1


DESCENDANT = """
import os, signal, sys
kind, mark = sys.stdin.read().split()
reader, writer = os.pipe()
if os.fork() == 0:
    if kind in ('setsid', 'double-fork'): os.setsid()
    if kind == 'double-fork' and os.fork(): os._exit(0)
    if kind == 'ignoring-signals':
        for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
    os.write(writer, b'x')
    if kind == 'without-pipes':
        for descriptor in (0, 1, 2): os.close(descriptor)
    os.execvp('sleep', ['sleep', mark])
os.read(reader, 1)
print('answer', flush=True)
"""


@pytest.mark.parametrize("then", ["", "signal.pause()"], ids=["exit", "timeout"])
@pytest.mark.parametrize("kind", KINDS)
async def test_descendants_are_killed_with_the_execution(launcher: Launcher, tmp_path: Path, kind: str, then: str):
    write(tmp_path, DESCENDANT + then)
    await warm(launcher, script(tmp_path))  # the script fails, but its zygote is started
    with marker() as mark:

        async def ended(seconds: float) -> ProcessOutcome:
            wanted = script(tmp_path, stdin=f"{kind} {mark}".encode(), timeout=seconds if then else 60.0)
            outcome = await warm(launcher, wanted)
            assert marked(mark) == []
            return outcome

        outcome = await patiently(ended, lambda outcome: outcome.stdout != b"")
    assert (outcome.timed_out, outcome.stdout, outcome.supervisor_lost) == (bool(then), b"answer\n", False)


async def test_cancelling_kills_only_the_cancelled_execution(launcher: Launcher, tmp_path: Path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    write(
        tmp_path,
        f"""
        import sys, time
        if sys.stdin.read() == "wait":
            open("waits", "w")
            time.sleep(600)
        print(open({str(fifo)!r}).read())
        """,
    )
    other = asyncio.create_task(warm(launcher, script(tmp_path)))
    long = asyncio.create_task(warm(launcher, script(tmp_path, stdin=b"wait")))
    assert await until((tmp_path / "waits").exists)
    long.cancel()
    await asyncio.wait({long})
    await asyncio.to_thread(fifo.write_text, "fine")
    assert (await other).stdout == b"fine\n"


async def test_output_of_a_warm_script_is_capped(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "import sys\nwhile True: sys.stdout.write('x' * 65536)")
    outcome = await warm(launcher, script(tmp_path, stdout_cap=1_000_000))
    assert outcome.stdout_overflow
    assert len(outcome.stdout) == 1_000_000


async def test_next_execution_is_warm_after_a_script_killed_its_supervisor(launcher: Launcher, tmp_path: Path):
    write(
        tmp_path, "import os, sys, signal\nif sys.stdin.read(): os.kill(os.getppid(), 9); signal.pause()\nprint('ok')"
    )
    (await warm(launcher, script(tmp_path)))
    before = zygotes(launcher)
    outcome = await warm(launcher, script(tmp_path, stdin=b"kill"))
    assert outcome.supervisor_lost
    assert (await warm(launcher, script(tmp_path))).stdout == b"ok\n"
    assert zygotes(launcher) == before


WAITING = """
import os, sys, signal
if sys.stdin.read():
    os.system('sleep $MARK &')
    signal.pause()
print('ok')
"""


async def test_executions_fail_when_their_zygote_is_killed_and_later_ones_use_a_new_one(
    launcher: Launcher, tmp_path: Path
):
    write(tmp_path, WAITING)
    with marker() as mark:
        env = {**CLEAN, "MARK": mark}
        await warm(launcher, script(tmp_path, env=env))
        (first,) = zygotes(launcher)
        running = [asyncio.create_task(launcher.run(script(tmp_path, env=env, stdin=b"wait"))) for _ in range(5)]
        assert await until(lambda: len(marked(mark)) == 5)
        os.kill(first, signal.SIGKILL)
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        assert marked(mark) == []
        assert [type(outcome) for outcome in outcomes] == [ProcessStartError] * 5
        assert "was killed while it ran" in str(outcomes[0])
        outcome, reasons = await why_cold(launcher, script(tmp_path, env=env))
        assert (outcome.stdout, reasons) == (b"ok\n", [])
        (second,) = zygotes(launcher)
        assert second != first
        os.kill(second, signal.SIGKILL)
        assert await until(lambda: zygotes(launcher) == [])
        outcome, reasons = await why_cold(launcher, script(tmp_path, env=env))
        assert outcome.stdout == b"ok\n"
        assert [reason for reason in reasons if "died 2 times" in reason] == reasons != []
        assert zygotes(launcher) == []


async def test_stopped_zygote_is_woken(launcher: Launcher, tmp_path: Path):
    """In a namespace, where its own pid and its pid outside differ."""
    write(tmp_path, "import time\ntime.sleep(1)\nprint('ok')")
    await warm(launcher, script(tmp_path, isolate=True))
    (zygote,) = zygotes(launcher)
    os.kill(zygote, signal.SIGSTOP)
    first = await asyncio.gather(*(warm(launcher, script(tmp_path, timeout=3, isolate=True)) for _ in range(20)))
    assert any(outcome.timed_out for outcome in first)
    assert (await warm(launcher, script(tmp_path, isolate=True))).stdout == b"ok\n"


async def test_zygotes_survive_the_helper_and_end_with_the_launcher(tmp_path: Path):
    write(tmp_path, "import sys\nprint('ok')")
    with marker() as mark:
        async with Launcher() as launcher:
            assert (await warm(launcher, script(tmp_path, mark))).stdout == b"ok\n"
            before = set(marked(mark))
            os.kill(helper_pid(launcher), signal.SIGKILL)
            assert (await launcher.run(sh("echo next"))).stdout == b"next\n"
            assert (await warm(launcher, script(tmp_path, mark))).stdout == b"ok\n"
            assert before & set(marked(mark))
        assert marked(mark) == []


async def test_launcher_with_zygotes_leaks_no_processes_or_descriptors(tmp_path: Path):
    write(tmp_path, "print('ok')")
    files, processes = open_files(), sorted(children())
    async with Launcher() as launcher:
        await asyncio.gather(*(warm(launcher, script(tmp_path)) for _ in range(20)))
        settled = open_files()
        await asyncio.gather(*(warm(launcher, script(tmp_path)) for _ in range(50)))
        assert open_files() == settled
    assert open_files() == files
    assert set(children()) <= set(processes)  # one of an earlier test may have ended meanwhile
    assert zombies_of(os.getpid()) == []


RUNTIME = """
import asyncio, os, sys
from agentv.processes.launcher import Launcher, Script
async def main(folder, mark):
    async with Launcher() as launcher:
        env = {'PATH': os.environ['PATH'], 'MARK': mark}
        wanted = Script([sys.executable, 'judge.py', mark], folder, env, stdin=b'wait', warm=True)
        await asyncio.gather(*(launcher.run(wanted) for _ in range(3)))
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
async def test_no_process_survives_a_killed_runtime(tmp_path: Path, number: signal.Signals):
    write(tmp_path, WAITING.replace("sleep $MARK", "setsid sleep $MARK"))
    with marker() as mark:
        for _ in range(3):
            with signals_heard():
                command = [sys.executable, "-c", RUNTIME, str(tmp_path), mark]
                runtime = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                assert await until(lambda: sum(b"sleep\0" in _line(pid) for pid in marked(mark)) == 3)
                runtime.send_signal(number)
                assert await until(lambda: marked(mark) == [])
            finally:
                runtime.kill()
                runtime.wait()


@pytest.mark.parametrize("moment", [0.1, 0.2, 0.3])
async def test_no_process_survives_a_runtime_killed_while_a_zygote_starts(tmp_path: Path, moment: float):
    write(tmp_path, "import time\ntime.sleep(60)", "slow.py")
    write(tmp_path, "import slow")
    with marker() as mark:
        runtime = subprocess.Popen([sys.executable, "-c", RUNTIME, str(tmp_path), mark], stderr=subprocess.DEVNULL)
        try:
            await asyncio.sleep(moment)
            runtime.kill()
            runtime.wait()
            assert await until(lambda: marked(mark) == [])
        finally:
            runtime.kill()


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_script_that_kills_all_processes_above_it_is_killed(launcher: Launcher, tmp_path: Path):
    """The script kills its supervisor, the zygote, and the zygote's supervisor."""
    code = """
import os, signal, sys
def parent(pid): return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
mark = sys.stdin.read()
if mark:
    above = [os.getppid()]
    for _ in range(2): above.append(parent(above[-1]))
    if os.fork() == 0:
        os.setsid()
        os.execvp('sleep', ['sleep', mark])
    for pid in reversed(above): os.kill(pid, 9)
    signal.pause()
print('ok')
"""
    write(tmp_path, code)
    with marker() as mark:
        await warm(launcher, script(tmp_path))
        with pytest.raises(ProcessStartError, match="was killed while it ran"):
            await launcher.run(script(tmp_path, stdin=mark.encode()))
        assert marked(mark) == []
    assert (await launcher.run(script(tmp_path))).stdout == b"ok\n"


# -- outdated zygotes, and the limit on their number


@pytest.mark.parametrize("file", ["judge.py", "shared.py"])
async def test_changed_file_starts_a_new_zygote(launcher: Launcher, tmp_path: Path, file: str):
    write(tmp_path, "WORD = 'old'", "shared.py")
    write(tmp_path, "import shared\nprint(shared.WORD)")
    assert (await warm(launcher, script(tmp_path))).stdout == b"old\n"
    (first,) = zygotes(launcher)
    write(tmp_path, {"judge.py": "import shared\nprint('new')", "shared.py": "WORD = 'new'  # longer"}[file], file)
    assert (await warm(launcher, script(tmp_path))).stdout == b"new\n"
    assert await until(lambda: len(zygotes(launcher)) == 1)
    assert zygotes(launcher) != [first]


async def test_executions_of_an_outdated_zygote_continue(launcher: Launcher, tmp_path: Path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    write(tmp_path, f"open('runs', 'w')\nprint(open({str(fifo)!r}).read())")
    running = asyncio.create_task(warm(launcher, script(tmp_path)))
    assert await until((tmp_path / "runs").exists)
    write(tmp_path, "print('new')")
    assert (await warm(launcher, script(tmp_path))).stdout == b"new\n"
    await asyncio.to_thread(fifo.write_text, "old")
    assert (await running).stdout == b"old\n"
    assert await until(lambda: len(zygotes(launcher)) == 1)


async def test_least_recently_used_zygote_is_ended_at_the_limit(tmp_path: Path):
    async with Launcher(most_zygotes=2) as launcher:
        for name in ("a.py", "b.py", "a.py", "c.py"):
            write(tmp_path, "print('ok')", name)
            assert (await warm(launcher, script(tmp_path, file=name))).stdout == b"ok\n"
        assert await until(lambda: [len(zygotes(launcher, name)) for name in ("a.py", "b.py", "c.py")] == [1, 0, 1])


async def test_script_is_started_cold_when_all_zygotes_are_in_use(tmp_path: Path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    write(tmp_path, f"print(open({str(fifo)!r}).read())", "a.py")
    write(tmp_path, "print('ok')", "b.py")
    async with Launcher(most_zygotes=1) as launcher:
        running = asyncio.create_task(warm(launcher, script(tmp_path, file="a.py")))
        assert await until(lambda: len(zygotes(launcher, "a.py")) == 1)
        outcome, reasons = await why_cold(launcher, script(tmp_path, file="b.py"))
        assert (outcome.stdout, reasons) == (b"ok\n", ["1 other warm scripts are in use"])
        await asyncio.to_thread(fifo.write_text, "")
        await running
        assert (await warm(launcher, script(tmp_path, file="b.py"))).stdout == b"ok\n"
        assert len(zygotes(launcher, "b.py")) == 1


async def test_idle_zygote_is_ended_and_restarted_when_needed(tmp_path: Path):
    write(tmp_path, "print('ok')")
    async with Launcher(idle_seconds=0.2) as launcher:
        for _ in range(3):
            assert (await warm(launcher, script(tmp_path))).stdout == b"ok\n"
            assert await until(lambda: zygotes(launcher) == [])


# -- scripts that cannot be kept warm

REFUSED = {
    "sockets": ("import socket\nkept = socket.create_server(('127.0.0.1', 0))", "open files or sockets"),
    "files": ("kept = open(__file__)", "open files or sockets"),
    "loops": ("import asyncio\nkept = asyncio.new_event_loop()", "open files or sockets"),
    "processes": ("import subprocess\nkept = subprocess.Popen(['sleep', '9'])", "start processes"),
    "the token": ("import os\nkept = os.environ.get('TOKEN')", "differ between executions (TOKEN)"),
    "the token, tested": ("import os\nkept = 'TOKEN' in os.environ", "differ between executions (TOKEN)"),
    "the directory": ("import os\nos.chdir('/')", "working directory"),
    "the path": ("import sys\nsys.path.insert(0, '/x')", "sys.path"),
    "fork": ("import os\nos.fork = lambda: 0", "functions of `os`"),
    "SIGCHLD": ("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)", "SIGCHLD"),
    "output": ("print('x' * 2_000_000)", "print more than 1 MiB"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_unsafe_imports_start_the_script_cold_and_are_reported_once(
    launcher: Launcher, tmp_path: Path, name: str
):
    code, wanted = REFUSED[name]
    write(tmp_path, code, "imported.py")
    write(tmp_path, "import imported, os\nprint(os.environ['TOKEN'])")
    cold = Cold()
    for number in range(3):
        env = {**CLEAN, "TOKEN": f"t{number}"}
        execution = script(tmp_path, env=env, own_variables=frozenset({"TOKEN"}))
        outcome = await launcher.run(execution, on_cold=cold)
        assert outcome.stdout.endswith(f"t{number}\n".encode())
    (reason,) = cold.reasons
    assert wanted in reason


async def test_import_that_kills_the_process_is_attempted_twice(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "import os\nif os.getppid() and not os.environ.get('FINE'): os._exit(3)", "imported.py")
    write(tmp_path, "import imported\nprint('ok')")
    outcome, reasons = await why_cold(launcher, script(tmp_path))
    assert outcome.returncode == 3
    assert len(reasons) == 1
    assert "exited with code 3" in reasons[0]


async def test_imports_that_take_too_long_start_the_script_cold(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "import os, time\nif not os.path.exists('fine'): time.sleep(60)", "imported.py")
    write(tmp_path, "import imported\nprint('ok')")
    started = time.monotonic()
    outcome, reasons = await why_cold(launcher, script(tmp_path, timeout=2))
    assert outcome.timed_out
    assert time.monotonic() - started < 30
    assert "longer than 1 s" in reasons[0]
    assert await until(lambda: zygotes(launcher) == [])


@pytest.mark.parametrize(
    "argv",
    [["sh", "-c", "echo ok"], [sys.executable, "-c", "print('ok')"], [sys.executable, "-I", "judge.py"]],
    ids=["sh", "-c", "-I"],
)
async def test_command_without_a_python_file_is_started_cold(launcher: Launcher, tmp_path: Path, argv: list[str]):
    write(tmp_path, "print('ok')")
    wanted = type(script(tmp_path))(argv, tmp_path, CLEAN, warm=True)
    outcome, reasons = await why_cold(launcher, wanted)
    assert (outcome.stdout, reasons) == (b"ok\n", ["it is not a Python file run by a Python interpreter"])
    assert (await why_cold(launcher, wanted))[1] == []


async def test_scripts_are_started_cold_without_supervision(tmp_path: Path):
    write(tmp_path, "print('ok')")
    notes: list[str] = []
    async with Launcher(supervise=False, on_note=notes.append) as launcher:
        outcome, reasons = await why_cold(launcher, script(tmp_path))
        assert (outcome.stdout, reasons) == (b"ok\n", ["this system cannot supervise scripts"])
        assert (await why_cold(launcher, script(tmp_path)))[1] == []
    assert notes == [
        "`judge.py` cannot be kept warm and is started from scratch each time: this system cannot supervise scripts"
    ]


async def test_execution_cancelled_while_its_zygote_starts_leaves_no_process(tmp_path: Path):
    write(tmp_path, "import time\ntime.sleep(60)", "slow.py")
    write(tmp_path, "import slow")
    with marker() as mark:
        async with Launcher(idle_seconds=0) as launcher:
            running = asyncio.create_task(launcher.run(script(tmp_path, mark)))
            assert await until(lambda: marked(mark) != [])
            running.cancel()
            await asyncio.wait({running})
            assert await until(lambda: marked(mark) == [])


async def test_launcher_closes_after_a_script_stopped_every_process_above_it(tmp_path: Path):
    write(
        tmp_path,
        """\
        import os, sys
        from pathlib import Path

        def parent(pid):
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

        above = [os.getppid()]
        while len(above) < 3:
            above.append(parent(above[-1]))
        assert b"judge.py" in Path(f"/proc/{above[1]}/cmdline").read_bytes(), "not warm"
        if sys.stdin.read() == "stop":
            for pid in reversed(above):
                os.kill(pid, 19)
        """,
    )
    async with asyncio.timeout(60), Launcher() as launcher:
        assert (await warm(launcher, script(tmp_path))).returncode == 0
        (zygote,) = zygotes(launcher)
        outcome = await warm(launcher, script(tmp_path, stdin=b"stop", timeout=4.0))
    assert outcome.timed_out
    assert not Path(f"/proc/{zygote}").exists()


DAEMON = """
import os
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, b"x")
        {detach}
        os.execvp("sleep", ["sleep", os.environ["MARK"]])
    os._exit(0)
os.wait()
os.read(reader, 1)
os.close(reader)
os.close(writer)
"""
UNADOPTED = "import ctypes\nctypes.CDLL(None).prctl(36, 0, 0, 0, 0)\n"
DAEMONS = {
    "detached": DAEMON.format(detach="os.closerange(0, 1000)"),
    "with its pipes": DAEMON.format(detach="pass"),
    "not adopted": UNADOPTED + DAEMON.format(detach="os.closerange(0, 1000)"),
    "adoption restored": UNADOPTED
    + DAEMON.format(detach="os.closerange(0, 1000)")
    + UNADOPTED.replace("36, 0", "36, 1"),
    "by a child": f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {DAEMON.format(detach='pass')!r}])",
}


@pytest.mark.parametrize("code", DAEMONS.values(), ids=DAEMONS)
async def test_import_that_leaves_a_daemon_behind_starts_the_script_cold_and_the_daemon_is_killed(
    launcher: Launcher, tmp_path: Path, code: str
):
    write(tmp_path, code, "shared.py")
    write(tmp_path, "import shared\nprint('ok')")
    with marker() as mark:
        for expected in (["its imports start processes"], []):
            outcome, reasons = await why_cold(launcher, script(tmp_path, env={**CLEAN, "MARK": mark}))
            assert (outcome.stdout, reasons) == (b"ok\n", expected)
            assert marked(mark) == []
        assert zygotes(launcher) == []


LIBC = "import ctypes, mmap\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = libc.shmat.restype = ctypes.c_void_p\n"
ADDRESS = "\nAREA = (ctypes.c_char * 64).from_address(address)"
SHARED = {
    "anonymous": "import mmap\nAREA = mmap.mmap(-1, 64)",
    "made writable later": LIBC + "address = libc.mmap(None, 4096, 1, 0x21, -1, 0)" + ADDRESS,
    "file": "import mmap\nwith open('area', 'w+b') as file:\n    file.truncate(64)\n"
    "    AREA = mmap.mmap(file.fileno(), 64)",
    "memory file": LIBC
    + "import os\nfile = os.memfd_create('area')\nos.truncate(file, 4096)\n"
    + "address = libc.mmap(None, 4096, 3, 1, file, 0)\nos.close(file)"
    + ADDRESS,
    "System V": LIBC
    + "key = libc.shmget(0, 4096, 0o1600)\naddress = libc.shmat(key, None, 0)\nlibc.shmctl(key, 0, None)"
    + ADDRESS,
    "multiprocessing": "import multiprocessing\nAREA = multiprocessing.Array('c', 64, lock=False)",
    "semaphore": "import multiprocessing\nLOCK = multiprocessing.Lock()\nAREA = bytearray(64)",
}


@pytest.mark.parametrize("code", SHARED.values(), ids=SHARED)
async def test_import_that_creates_shared_memory_starts_the_script_cold(launcher: Launcher, tmp_path: Path, code: str):
    write(tmp_path, code, "shared.py")
    write(tmp_path, "import shared\nprint(bytes(shared.AREA[:1]))")
    outcome, (reason,) = await why_cold(launcher, script(tmp_path))
    assert outcome.stdout == b"b'\\x00'\n"
    assert reason.startswith("its imports create writable memory that all executions would share (")


async def test_warm_execution_has_no_memory_in_common_with_another(launcher: Launcher, tmp_path: Path):
    write(tmp_path, "print([line for line in open('/proc/self/maps') if line.split()[1][1::2] == 'ws'])")
    assert (await warm(launcher, script(tmp_path))).stdout == b"[]\n"


async def test_private_and_read_only_mappings_are_warm(launcher: Launcher, tmp_path: Path):
    read_only = "with open(__file__, 'rb') as file:\n    address = libc.mmap(None, 4096, 1, 1, file.fileno(), 0)\n"
    private = "PRIVATE = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"
    write(tmp_path, LIBC + read_only + private, "shared.py")
    write(tmp_path, "import shared\nprint('ok')")
    assert (await warm(launcher, script(tmp_path))).stdout == b"ok\n"
