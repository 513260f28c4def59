"""A job behaves the same on this machine and on a node."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agentv.errors import PlaceLostError
from agentv.nodes.engines import EngineAddress
from agentv.nodes.engines.local import LocalEngine
from agentv.nodes.node import NodeVariables
from agentv.nodes.remote import RemotePlace
from agentv.places.local import LocalPlace
from agentv.places.place import Place
from agentv.processes.job import PYTHON, Job, file_mark
from agentv.processes.launcher import Launcher
from agentv.processes.run import STDERR_KEEP, STDOUT_CAP, ProcessOutcome, ProcessStartError
from agentv.redact import Redactor
from agentv.targets.nodes_section import NodesModel
from tests.judge.support import Judge, make_session
from tests.processes.support import alive, until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="nodes need Linux"),
]

SETTINGS = NodesModel(files="shared", silence_seconds=20, dead_man_seconds=20)
FORKS = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), file=open(sys.argv[1] + ".new", "w"), flush=True)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    signal.pause()
"""
PAUSES = FORKS + "signal.pause()\n"
ASKS = """
import json, os, sys, urllib.error, urllib.request
def ask(route, body):
    request = urllib.request.Request(os.environ["AGENTV_JUDGE_PROXY_URL"] + route, json.dumps(body).encode(), {
        "Authorization": "Bearer " + os.environ["AGENTV_JUDGE_PROXY_TOKEN"], "Content-Type": "application/json"})
    try:
        return 200, json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request))
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["local", "nodes"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        if request.param == "local":
            yield LocalPlace(await stack.enter_async_context(Launcher(isolate=True)), NodeVariables())
        else:
            engine = LocalEngine(EngineAddress("local:2", SETTINGS))
            yield await stack.enter_async_context(RemotePlace(engine, SETTINGS))


async def run(place: Place, code: str, *words: str, folder: Path, judge: Any = None, **options: Any) -> ProcessOutcome:
    options.setdefault("timeout", 60.0)
    async with asyncio.timeout(100), place.slot() as slot:
        job = Job([slot.path(sys.executable), "-c", code, *words], slot.path(str(folder)), **options)
        return await slot.run(job, judge=judge)


def all_free(place: RemotePlace) -> bool:
    connections = [member.connection for member in place.members.values()]
    return all(each is not None and each.free == each.slots for each in connections)


async def test_exit_code_output_and_input_arrive(place: Place, tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read()[::-1]); print('note', file=sys.stderr); sys.exit(7)"
    outcome = await run(place, code, folder=tmp_path, stdin=b"input")
    assert (outcome.returncode, outcome.signal, outcome.stdout, outcome.stderr) == (7, None, b"tupni\n", b"note\n")
    assert not outcome.timed_out
    assert outcome.duration_ms > 0


async def test_signal_of_a_job_is_named(place: Place, tmp_path: Path) -> None:
    outcome = await run(place, "import os; os.kill(os.getpid(), 15)", folder=tmp_path)
    assert (outcome.returncode, outcome.signal) == (None, "SIGTERM")


async def test_job_is_killed_at_its_timeout(place: Place, tmp_path: Path) -> None:
    outcome = await run(place, "import signal; signal.pause()", folder=tmp_path, timeout=0.5)
    assert outcome.timed_out
    assert outcome.signal == "SIGKILL"


async def test_job_that_prints_too_much_is_killed(place: Place, tmp_path: Path) -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 100_000)"
    outcome = await run(place, code, folder=tmp_path)
    assert outcome.stdout_overflow
    assert 0 < len(outcome.stdout) <= STDOUT_CAP
    outcome = await run(place, code, folder=tmp_path, stdout_cap=1_000)
    assert outcome.stdout_overflow
    assert len(outcome.stdout) <= 1_000


async def test_end_of_long_stderr_is_kept(place: Place, tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('x' * 1_000_000 + 'end')"
    outcome = await run(place, code, folder=tmp_path)
    assert outcome.stderr_cut
    assert outcome.stderr.endswith(b"xend")
    assert len(outcome.stderr) <= 2 * STDERR_KEEP


async def test_job_need_not_read_its_input(place: Place, tmp_path: Path) -> None:
    assert (await run(place, "pass", folder=tmp_path, stdin=b"x" * 3_000_000)).returncode == 0


async def test_descendants_are_killed_at_the_end(place: Place, tmp_path: Path) -> None:
    code = FORKS + "import time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
    outcome = await run(place, code, str(tmp_path / "pid"), folder=tmp_path)
    assert outcome.returncode == 0, outcome
    pid = int((tmp_path / "pid").read_text())
    assert await until(lambda: not alive(pid))


async def test_missing_program_is_a_start_error(place: Place, tmp_path: Path) -> None:
    async with place.slot() as slot:
        with pytest.raises(ProcessStartError, match="no-such-program"):
            await slot.run(Job(["no-such-program"], str(tmp_path)))


async def test_python_and_files_are_those_of_the_place(place: Place, tmp_path: Path) -> None:
    code = (
        "import sys; data = open(sys.argv[1], 'rb').read(); open(sys.argv[2], 'wb').write(data + b' out')\n"
        "print(sys.executable)"
    )
    async with place.slot() as slot:
        words = [PYTHON, "-c", code, file_mark("prompt"), file_mark("output")]
        job = Job(words, str(tmp_path), inputs={"prompt": b"\xff in"}, outputs=["output", "other"])
        outcome = await slot.run(job)
    assert outcome.files == {"output": b"\xff in out"}
    assert outcome.file_problems == {}
    assert outcome.stdout.decode().strip() == sys.executable


async def test_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-1")
    code = "import os; print(dict(os.environ))"
    engine = LocalEngine(EngineAddress("local:1", SETTINGS))
    async with RemotePlace(engine, SETTINGS) as place:
        outcome = await run(place, code, folder=tmp_path, isolate=True, env={"ADDED": "yes"})
        everything = await run(place, code, folder=tmp_path)
    assert b"'ADDED': 'yes'" in outcome.stdout
    assert b"'PATH'" in outcome.stdout
    assert b"canary" not in outcome.stdout + everything.stdout


@pytest.mark.parametrize("kind", [{}, {"warm": True}])
async def test_judge_calls_are_answered_and_limited(place: Place, tmp_path: Path, kind: dict[str, bool]) -> None:
    judge = Judge()
    session = make_session(judge, max_calls=4)
    code = (
        ASKS
        + """
print(ask("/invoke", {"question": "a"})[0], ask("/invokeBatch", {"requests": [{"question": "b"}] * 2})[0])
status, error = ask("/invokeBatch", {"requests": [{"question": "c"}] * 2})
print(status, error["code"], ask("/invoke", {"question": ""})[0], ask("/invoke", {"question": "d"})[0])
"""
    )
    outcome = await run(place, code, folder=tmp_path, judge=session, isolate=True, **kind)
    assert outcome.stdout == b"200 200\n429 max_calls_exceeded 400 200\n", outcome
    assert session.closed
    assert session.ledger.call_count == judge.calls == 4
    assert session.ledger.refused_calls == 2


async def test_apis_of_vendors_reach_the_judge_with_their_form_and_limit(place: Place, tmp_path: Path) -> None:
    judge = Judge()
    session = make_session(judge, max_calls=5, redactor=Redactor(["sk-canary-12345678"]))
    code = (
        ASKS
        + """
body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "q"}], "temperature": 0.5}
assert os.environ["OPENAI_BASE_URL"] == os.environ["AGENTV_JUDGE_PROXY_URL"] + "/v1"
assert os.environ["OPENAI_API_KEY"] == os.environ["AGENTV_JUDGE_PROXY_TOKEN"]
chat = lambda **more: ask("/v1/chat/completions", {**body, **more})
print(chat(n=2)[1]["choices"][1]["message"]["content"], *(chat(colour=1)[1]["error"]["param"] for _ in range(3)))
large = {"requests": [{"question": "x" * 200_000}] * 2}  # the node counts it before it is forwarded
print(ask("/invokeBatch", large)[0], chat(n=3)[1]["error"]["code"])
print(chat(stream_options=None)[0], ask("/v1/files", {})[0])
print("canary" in json.dumps(chat(response_format={"type": "sk-canary-12345678"})[1]))
"""
    )
    outcome = await run(place, code, folder=tmp_path, judge=session, isolate=True, vendors=session.vendors)
    assert outcome.stdout == b"yes colour colour colour\n200 max_calls_exceeded\n200 404\nFalse\n", outcome
    assert session.ledger.models == {"gpt-4o": {"strict": 3}}
    assert judge.requests[0].options.temperature == 0.5
    assert session.ledger.refused_calls == 3


async def test_time_of_waiting_judge_calls_is_not_that_of_the_job(place: Place, tmp_path: Path) -> None:
    judge = Judge(held=True)
    session = make_session(judge)
    code = ASKS + 'print(ask("/invoke", {"question": "a"})[0])'
    session.waiting.begin()
    running = asyncio.create_task(run(place, code, folder=tmp_path, judge=session, isolate=True, timeout=3.0))
    await judge.has_calls(1)
    session.waiting.end()
    session.waiting.begin()
    await asyncio.sleep(3.5)
    judge.let_go()
    session.waiting.end()
    outcome = await running
    assert outcome.stdout == b"200\n", outcome


async def test_script_that_serves_lines_runs_several_jobs(place: Place, tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text(
        "import json, os, sys\nfor line in sys.stdin:\n"
        "    print(json.dumps({'n': json.loads(line)['n'], 'pid': os.getpid()}), flush=True)\n"
    )
    for number in range(6):
        async with place.slot() as slot:
            words = [slot.path(sys.executable), "lines.py"]
            job = Job(words, str(tmp_path), stdin=b'{"n": %d}\n' % number, lines=True, timeout=60.0)
            outcome = await slot.run(job)
        assert b'"n": %d' % number in outcome.stdout, outcome


async def test_cancelled_job_is_killed(place: Place, tmp_path: Path) -> None:
    running = asyncio.create_task(run(place, PAUSES, str(tmp_path / "pid"), folder=tmp_path))
    assert await until((tmp_path / "pid").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = int((tmp_path / "pid").read_text())
    assert await until(lambda: not alive(pid))
    if isinstance(place, RemotePlace):
        assert await until(lambda: all_free(place))


async def test_jobs_cancelled_immediately_leave_their_slots(place: Place, tmp_path: Path) -> None:
    for steps in range(8):
        tasks = [asyncio.create_task(run(place, "pass", folder=tmp_path)) for _ in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(place, RemotePlace):
        assert await until(lambda: all_free(place))
    assert (await run(place, "pass", folder=tmp_path)).returncode == 0


async def test_leaving_the_nodes_kills_everything(tmp_path: Path) -> None:
    async with RemotePlace(LocalEngine(EngineAddress("local:2", SETTINGS)), SETTINGS) as place:
        tasks = [
            asyncio.create_task(run(place, PAUSES, str(tmp_path / f"{number}"), folder=tmp_path)) for number in range(4)
        ]
        assert await until(lambda: all((tmp_path / f"{number}").exists() for number in range(4)))
    pids = [int((tmp_path / f"{number}").read_text()) for number in range(4)]
    assert not any(map(alive, pids)), "processes were alive after the nodes had been left"
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, PlaceLostError)


async def test_killed_node_loses_its_jobs_which_die_and_is_used_again(tmp_path: Path) -> None:
    engine = LocalEngine(EngineAddress("local:1", SETTINGS))
    notes: list[str] = []
    async with RemotePlace(engine, SETTINGS, on_note=notes.append) as place:
        running = asyncio.create_task(run(place, PAUSES, str(tmp_path / "pid"), folder=tmp_path))
        assert await until((tmp_path / "pid").exists)
        node = engine.processes["local-1"].pid
        assert node is not None
        os.kill(node, signal.SIGKILL)
        with pytest.raises(PlaceLostError):
            await running
        pid = int((tmp_path / "pid").read_text())
        assert await until(lambda: not alive(pid))
        assert (await run(place, "print(1)", folder=tmp_path)).stdout == b"1\n"
    assert any("is used again" in note for note in notes), notes
