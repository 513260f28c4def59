"""JSON Lines scripts: one process serves many executions, and their results are never mixed up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentv.processes.launcher import Launcher, Script
from agentv.processes.run import ProcessOutcome, ProcessStartError
from agentv.wire.output import OutputError, parse_output
from tests.patience import patiently
from tests.threats.support import wait_for

from .support import alive

ECHO = """\
import json, os, sys
count = 0
for line in sys.stdin:
    count += 1
    payload = json.loads(line)
    exec(payload.get("do", ""))
    print(json.dumps({"score": 1, "pid": os.getpid(), "count": count, "said": payload.get("say")}), flush=True)
    exec(payload.get("then", ""))
"""


@pytest.fixture
async def launcher() -> AsyncIterator[Launcher]:
    async with Launcher() as launcher:
        yield launcher


def script(folder: Path, payload: dict[str, Any], **options: Any) -> Script:
    path = folder / "judge.py"
    if not path.exists():
        path.write_text(ECHO)
    line = json.dumps(payload).encode() + b"\n"
    return Script([sys.executable, "judge.py"], folder, dict(os.environ), stdin=line, lines=True, **options)


async def ask(launcher: Launcher, folder: Path, **payload: Any) -> dict[str, Any]:
    outcome = await launcher.run(script(folder, payload, timeout=60.0))
    assert outcome.returncode == 0, outcome
    result: dict[str, Any] = json.loads(outcome.stdout.splitlines()[-1])
    return result


async def test_one_process_serves_consecutive_executions(launcher: Launcher, tmp_path: Path) -> None:
    replies = [await ask(launcher, tmp_path, say=n) for n in range(5)]
    assert [one["count"] for one in replies] == [1, 2, 3, 4, 5]
    assert len({one["pid"] for one in replies}) == 1
    assert [one["said"] for one in replies] == list(range(5))


async def test_concurrent_executions_use_separate_processes(launcher: Launcher, tmp_path: Path) -> None:
    replies = await asyncio.gather(*(ask(launcher, tmp_path, say=n) for n in range(4)))
    assert [one["said"] for one in replies] == [0, 1, 2, 3]
    again = await ask(launcher, tmp_path)
    assert again["pid"] in {one["pid"] for one in replies}


async def test_processes_are_killed_when_the_launcher_closes(tmp_path: Path) -> None:
    async with Launcher() as launcher:
        replies = await asyncio.gather(*(ask(launcher, tmp_path) for _ in range(3)))
        assert all(alive(one["pid"]) for one in replies)
    assert not any(alive(one["pid"]) for one in replies)


async def test_lines_that_are_not_objects_are_log_output(launcher: Launcher, tmp_path: Path) -> None:
    assert (await ask(launcher, tmp_path, do="print('hello'); print('[1]'); print('{not json')"))["count"] == 1


FIRST = '{"score": 1}'
SECONDS = {
    "the same write": f"os.write(1, b'{FIRST}\\n{{\"score\": 0}}\\n')",
    "a later write": f"os.write(1, b'{FIRST}\\n'); import time; time.sleep(0.1); os.write(1, b'{{\"score\": 0}}\\n')",
    "no end of line": f"os.write(1, b'{FIRST}\\n{{\"score\": 0}}')",
    "several lines": f"os.write(1, b'{FIRST}\\n{{\\n\"score\":\\n0}}\\n')",
    "several lines first": f"os.write(1, b'{{\\n\"score\": 0\\n}}\\n{FIRST}\\n')",
    "after log output": f"os.write(1, b'{FIRST}\\ndone\\n' + b'log\\n' * 1000 + b'{{\"score\": 0}}\\n')",
    "right id": 'os.write(1, b\'{"score": 1, "execution_id": "mine"}\\n{"score": 0, "execution_id": "mine"}\\n\')',
    "id in the first only": 'os.write(1, b\'{"score": 1, "execution_id": "mine"}\\n{"score": 0}\\n\')',
    "id in the second only": f'os.write(1, b\'{FIRST}\\n{{"score": 0, "execution_id": "mine"}}\\n\')',
    "a thread": "import threading, time; print(json.dumps({'score': 1}), flush=True); "
    "other = threading.Thread(target=lambda: (time.sleep(0.1), os.write(1, b'{\"score\": 0}\\n'))); "
    "other.start(); other.join()",
    "a child": f"os.write(1, b'{FIRST}\\n'); os.system('sleep 0.1; echo \\'{{\"score\": 0}}\\'')",
}
READING = "import json, os, sys\nfor line in sys.stdin:\n    exec(json.loads(line)['do'])\n"


@pytest.mark.parametrize("do", SECONDS.values(), ids=SECONDS)
async def test_second_object_of_an_execution_is_an_error(launcher: Launcher, tmp_path: Path, do: str) -> None:
    (tmp_path / "judge.py").write_text(READING)
    outcome = await launcher.run(script(tmp_path, {"do": do}, timeout=60.0, execution_id="mine"))
    with pytest.raises(OutputError) as error:
        parse_output(outcome.stdout)
    assert error.value.kind == "second_object"
    honest = script(tmp_path, {"do": "print(json.dumps({'score': 0.5}), flush=True)"}, timeout=60.0)
    assert parse_output((await launcher.run(honest)).stdout).score == 0.5


async def test_late_result_is_never_the_result_of_the_next_execution(launcher: Launcher, tmp_path: Path) -> None:
    """A thread of the first execution prints while the process works on the second one."""
    (tmp_path / "judge.py").write_text(READING)
    late = (
        "import threading\ngo = threading.Event()\nprinted = threading.Event()\n"
        "def late():\n    go.wait()\n    os.write(1, b'{\"score\": 0}\\n')\n    printed.set()\n"
        "threading.Thread(target=late, daemon=True).start()\nos.write(1, b'{\"score\": 1}\\n')"
    )
    first = await launcher.run(script(tmp_path, {"do": late}, timeout=60.0))
    assert parse_output(first.stdout).score == 1
    own = "import time; go.set(); printed.wait(); time.sleep(0.2); os.write(1, b'{\"score\": 0.5}\\n')"
    second = await launcher.run(script(tmp_path, {"do": own}, timeout=60.0))
    with pytest.raises(OutputError, match="more than one JSON object"):
        parse_output(second.stdout)


async def test_result_printed_while_the_process_is_idle_ends_it_with_a_note(tmp_path: Path) -> None:
    notes: list[str] = []
    async with Launcher(on_note=notes.append) as launcher:
        late = "import threading; threading.Timer(0.2, os.write, (1, b'{\"score\": 0}\\n')).start()"
        first = await ask(launcher, tmp_path, do=late)
        while alive(first["pid"]):
            await asyncio.sleep(0.01)
        second = await ask(launcher, tmp_path, say="mine")
    assert (second["said"], second["count"]) == ("mine", 1)
    assert notes == [
        f"`{Path(sys.executable).name} judge.py` printed a result after its execution had ended; the recorded result "
        "is the first one, and the process was replaced. Print one JSON object per payload, before reading the next "
        "one."
    ]


async def test_log_line_after_the_result_keeps_the_process(launcher: Launcher, tmp_path: Path) -> None:
    outcome = await launcher.run(script(tmp_path, {"then": "print('done', flush=True)"}, timeout=60.0))
    assert parse_output(outcome.stdout).score == 1
    assert (await ask(launcher, tmp_path))["count"] == 2


async def test_flood_of_an_idle_process_ends_it(launcher: Launcher, tmp_path: Path) -> None:
    flood = (
        "import threading; threading.Timer(0.1, lambda: [os.write(1, b'x' * 65536) for _ in range(100_000)]).start()"
    )
    first = await ask(launcher, tmp_path, do=flood)
    for _ in range(1000):
        if not alive(first["pid"]):
            break
        await asyncio.sleep(0.01)
    assert not alive(first["pid"])


async def test_flood_of_a_process_that_does_not_read_its_payload_is_capped(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("import os\nwhile True: os.write(1, b'x' * 65536)\n")
    outcome = await launcher.run(script(tmp_path, {"say": "y" * 500_000}, stdout_cap=1_000_000, timeout=60.0))
    assert outcome.stdout_overflow


async def test_process_that_prints_a_result_and_neither_reads_on_nor_exits_times_out(
    launcher: Launcher, tmp_path: Path
) -> None:
    async def ended(seconds: float) -> ProcessOutcome:
        return await launcher.run(script(tmp_path, {"then": "import time; time.sleep(600)"}, timeout=seconds))

    outcome = await patiently(ended, lambda outcome: outcome.stdout != b"")
    assert outcome.timed_out


@pytest.mark.parametrize(("code", "returncode"), [(0, 0), (3, 3)])
async def test_exit_code_counts_when_the_process_exits_after_its_result(
    launcher: Launcher, tmp_path: Path, code: int, returncode: int
) -> None:
    outcome = await launcher.run(script(tmp_path, {"then": f"os._exit({code})"}, timeout=60.0))
    assert (outcome.returncode, parse_output(outcome.stdout).score) == (returncode, 1)
    assert (await ask(launcher, tmp_path))["count"] == 1


async def test_result_with_another_execution_id_is_ignored(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    payload = json.loads(line)\n"
        "    print(json.dumps({'score': 0, 'execution_id': 'another'}))\n"
        "    print(json.dumps({'score': 1, 'execution_id': payload['execution_id']}), flush=True)\n"
    )
    execution = script(tmp_path, {"execution_id": "mine"}, timeout=60.0, execution_id="mine")
    assert json.loads((await launcher.run(execution)).stdout) == {"score": 1, "execution_id": "mine"}


async def test_timeout_kills_the_process_and_its_descendants(launcher: Launcher, tmp_path: Path) -> None:
    first = await ask(launcher, tmp_path)
    do = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'], start_new_session=True); "
        "open('child', 'w').write(str(child.pid)); import time; time.sleep(600)"
    )
    child = tmp_path / "child"

    async def ended(seconds: float) -> ProcessOutcome:
        return await launcher.run(script(tmp_path, {"do": do}, timeout=seconds))

    outcome = await patiently(ended, lambda _: child.exists() and child.read_text() != "")
    assert outcome.timed_out
    assert not alive(first["pid"])
    assert not alive(int(child.read_text()))
    assert (await ask(launcher, tmp_path))["count"] == 1


@pytest.mark.parametrize(
    ("do", "returncode", "signal"),
    [("sys.exit(3)", 3, None), ("os.kill(os.getpid(), 11)", None, "SIGSEGV"), ("os._exit(0)", 0, None)],
)
async def test_process_exit_fails_the_execution_and_the_next_starts_a_new_process(
    launcher: Launcher, tmp_path: Path, do: str, returncode: int | None, signal: str | None
) -> None:
    await ask(launcher, tmp_path)
    outcome = await launcher.run(script(tmp_path, {"do": f"print('last', file=sys.stderr, flush=True); {do}"}))
    assert (outcome.returncode, outcome.signal, outcome.stdout) == (returncode, signal, b"")
    assert outcome.stderr == b"last\n"
    assert (await ask(launcher, tmp_path))["count"] == 1


async def test_process_is_killed_when_it_exceeds_the_output_cap(launcher: Launcher, tmp_path: Path) -> None:
    outcome = await launcher.run(script(tmp_path, {"do": "print('x' * 10_000_000)"}, stdout_cap=100_000))
    assert outcome.stdout_overflow


async def test_stderr_belongs_to_the_execution_that_wrote_it(launcher: Launcher, tmp_path: Path) -> None:
    await launcher.run(script(tmp_path, {"do": "print('one', file=sys.stderr, flush=True)"}))
    outcome = await launcher.run(script(tmp_path, {"do": "print('two', file=sys.stderr, flush=True)"}))
    assert outcome.stderr == b"two\n"


async def test_changed_file_starts_a_new_process(launcher: Launcher, tmp_path: Path) -> None:
    first = await ask(launcher, tmp_path)
    (tmp_path / "judge.py").write_text(ECHO + "# changed\n")
    assert (await ask(launcher, tmp_path))["pid"] != first["pid"]


async def test_different_environment_starts_another_process(launcher: Launcher, tmp_path: Path) -> None:
    first = await ask(launcher, tmp_path)
    other = script(tmp_path, {}, timeout=60.0)
    outcome = await launcher.run(Script(other.argv, other.cwd, {**other.env, "X": "1"}, other.stdin, lines=True))
    assert json.loads(outcome.stdout)["pid"] != first["pid"]


async def test_long_payload_and_long_result_are_transferred(launcher: Launcher, tmp_path: Path) -> None:
    assert len((await ask(launcher, tmp_path, say="x" * 3_000_000))["said"]) == 3_000_000


async def test_cancelling_an_execution_kills_its_process(launcher: Launcher, tmp_path: Path) -> None:
    first = await ask(launcher, tmp_path)
    hanging = asyncio.create_task(
        launcher.run(script(tmp_path, {"do": "open('in', 'w'); import time; time.sleep(600)"}))
    )
    while not (tmp_path / "in").exists():
        await asyncio.sleep(0.01)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    for _ in range(2000):
        if not alive(first["pid"]):
            break
        await asyncio.sleep(0.01)
    assert not alive(first["pid"])


async def test_missing_program_raises_start_error(launcher: Launcher, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no-such-program"):
        await launcher.run(Script(["no-such-program"], tmp_path, {}, b"{}\n", lines=True))


async def test_idle_processes_are_ended(tmp_path: Path) -> None:
    async with Launcher(idle_seconds=0.05) as launcher:
        pid = (await ask(launcher, tmp_path))["pid"]
        for _ in range(2000):
            if not alive(pid):
                break
            await asyncio.sleep(0.01)
        assert not alive(pid)


async def test_process_is_started_per_execution_without_supervision(tmp_path: Path) -> None:
    async with Launcher(supervise=False) as launcher:
        outcomes: list[ProcessOutcome] = [await launcher.run(script(tmp_path, {})) for _ in range(2)]
    assert [json.loads(outcome.stdout)["count"] for outcome in outcomes] == [1, 1]


async def test_process_that_stopped_its_supervisor_is_killed(launcher: Launcher, tmp_path: Path) -> None:
    stop = "open('stopped', 'w').write(str(os.getpid())); os.kill(os.getppid(), 19); import time; time.sleep(600)"
    stopped = tmp_path / "stopped"

    async def ended(seconds: float) -> ProcessOutcome:
        return await asyncio.wait_for(launcher.run(script(tmp_path, {"do": stop}, timeout=seconds)), 60)

    outcome = await patiently(ended, lambda _: stopped.exists() and stopped.read_text() != "")
    assert outcome.timed_out
    assert not alive(int(stopped.read_text()))
    assert (await ask(launcher, tmp_path))["count"] == 1


async def test_idle_process_that_stopped_its_supervisor_is_killed_with_the_launcher(tmp_path: Path) -> None:
    async with asyncio.timeout(60), Launcher() as launcher:
        reply = await ask(launcher, tmp_path, do="os.kill(os.getppid(), 19)")
    assert not alive(reply["pid"])


async def test_execution_moves_to_another_process_when_the_first_exits_unread(
    launcher: Launcher, tmp_path: Path
) -> None:
    leave = "import select; os.read(0, 1); select.select([0], [], []); os._exit(3)"  # input is available but not read
    first = await ask(launcher, tmp_path, then=leave)
    second = await ask(launcher, tmp_path, say="mine")
    assert (second["said"], second["count"]) == ("mine", 1)
    assert second["pid"] != first["pid"]


async def test_process_that_closes_stdout_and_stays_alive_times_out(launcher: Launcher, tmp_path: Path) -> None:
    closed = tmp_path / "closed"

    async def ended(seconds: float) -> ProcessOutcome:
        do = "os.close(1); open('closed', 'w'); import time; time.sleep(600)"
        return await launcher.run(script(tmp_path, {"do": do}, timeout=seconds))

    assert (await patiently(ended, lambda _: closed.exists())).timed_out


async def test_process_that_closes_stdout_keeps_its_exit_code(launcher: Launcher, tmp_path: Path) -> None:
    outcome = await launcher.run(script(tmp_path, {"do": "os.close(1); import time; time.sleep(0.2); os._exit(3)"}))
    assert (outcome.returncode, outcome.signal) == (3, None)


@pytest.mark.parametrize(
    "printed",
    [
        b'\xef\xbb\xbf{"score": 1}',
        b'{"score": 1, "reasoning": "caf\xe9"}',
        b'{"score": ' + b"9" * 5000 + b"}",
        b'{"score": 1}{"score": 0}',
        b'{"score": 1, "score": 0}',
    ],
)
async def test_invalid_result_is_not_treated_as_log_output(launcher: Launcher, tmp_path: Path, printed: bytes) -> None:
    do = f"os.write(1, {printed + bytes([10])!r}); os._exit(0)"
    outcome = await launcher.run(script(tmp_path, {"do": do}, timeout=60.0))
    assert (outcome.stdout, outcome.timed_out) == (printed + b"\n", False)


async def test_invalid_variable_names_raise_start_error(launcher: Launcher, tmp_path: Path) -> None:
    for env in ({"A=B": "x"}, {"A": "x\0"}):
        with pytest.raises(ProcessStartError, match="cannot be passed"):
            await launcher.run(Script([sys.executable, "-V"], tmp_path, env, b"{}\n", lines=True))


STOPPED_RUNTIME = """\
import asyncio, os, sys
from agentv.processes.launcher import Launcher, Script

async def main():
    lines = sys.argv[2] == "lines"
    script = Script([sys.executable, "judge.py"], sys.argv[1], dict(os.environ), stdin=b"{}\\n", timeout=3.0,
                    lines=lines, warm=not lines)
    async with Launcher() as launcher:
        outcome = await launcher.run(script)
        print(outcome.timed_out)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["lines", "warm"])
def test_timeout_is_kept_while_the_runtime_is_stopped(tmp_path: Path, kind: str) -> None:
    pids = tmp_path / "pids"
    pids.touch()
    (tmp_path / "judge.py").write_text(
        "import os, signal\nopen('pids', 'w').write(f'{os.getpid()}\\n')\nwhile True: signal.pause()\n"
    )
    command = [sys.executable, "-c", STOPPED_RUNTIME, str(tmp_path), kind]
    runtime = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: pids.read_text().endswith("\n"))
        os.kill(runtime.pid, signal.SIGSTOP)
        wait_for(lambda: not alive(int(pids.read_text())))
        os.kill(runtime.pid, signal.SIGCONT)
        assert runtime.communicate(timeout=60)[0] == "True\n"
    finally:
        runtime.kill()
        runtime.wait()
