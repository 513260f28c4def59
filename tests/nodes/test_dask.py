"""The Dask engine on a real cluster: jobs, members, refusals, and nodes that lie."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import NodesLostError, UsageError
from agentv.nodes.engines import EngineAddress, open_channel
from agentv.nodes.remote import RemotePlace
from agentv.nodes.trees import Tree, read_tree
from agentv.places.place import PlaceLostError
from agentv.processes.job import Job
from agentv.targets.nodes_section import NodesModel
from tests.judge.support import Judge, make_session
from tests.nodes.dask_cluster import (
    Certificates,
    Cluster,
    ancestors,
    in_use,
    processes_with,
    until,
    worker_of,
)

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy

CALLS = """
import sys
from agentv_eval import create_judge_proxy_client
client = create_judge_proxy_client()
for number in range(int(sys.argv[1])):
    client.invoke(question=f"{number}?")
print("done")
"""


@contextmanager
def extra_worker(cluster: Cluster, **options: Any):
    """A worker that leaves at the end of the test."""
    worker = cluster.worker(listed=False, **options)
    try:
        cluster.joined(worker)
        yield worker
    finally:
        worker.end()


async def run(place: RemotePlace, tree: Tree, code: str, *words: str, judge: Any = None) -> Any:
    """Run Python code in a slot; returns the node and the outcome."""
    async with place.slot() as slot:
        argv = [slot.path(sys.executable), "-c", code, *words]
        job = Job(argv, slot.path(str(tree.root)), isolate=judge is not None)
        return slot.node, await slot.run(job, judge=judge)


async def test_job_runs_on_a_worker_with_files_and_judge(cluster: Cluster, tree: Tree) -> None:
    code = """
from agentv_eval import create_judge_proxy_client
client = create_judge_proxy_client()
print(open("a.txt").read(), client.invoke(question="q?").raw_text)
"""
    async with cluster.place(trees=[tree]) as place:
        assert place.channel.encrypted
        await in_use(place, 2)
        session = make_session(Judge(), max_calls=5)
        node, outcome = await run(place, tree, code, judge=session)
    assert node.startswith("tls://127.0.0.1:")
    assert outcome.stdout == b"the file yes\n", outcome
    assert session.ledger.call_count == 1


async def test_two_drivers_share_the_node_process_of_a_worker(cluster: Cluster, tree: Tree) -> None:
    async with cluster.place(trees=[tree]) as first:
        members = await in_use(first, 2)
        running = asyncio.create_task(run(first, tree, CALLS, "1", judge=make_session(judge := Judge(held=True))))
        await judge.has_calls(1)
        async with cluster.place(trees=[tree]) as second:
            others = await in_use(second, 2)
            assert {m.hello.pid for m in members if m.hello} == {m.hello.pid for m in others if m.hello}
            assert (await run(second, tree, "print(1)"))[1].stdout == b"1\n"
        judge.let_go()
        assert (await running)[1].stdout == b"done\n"


async def test_a_job_with_a_held_call_is_cancelled_within_a_second(cluster: Cluster, tree: Tree) -> None:
    async with cluster.place(trees=[tree], settings=cluster.settings(silence_seconds=30, dead_man_seconds=60)) as place:
        await in_use(place, 2)
        marker = f"cancelled-{os.getpid()}"
        running = asyncio.create_task(
            run(place, tree, CALLS, "1", marker, judge=make_session(judge := Judge(held=True)))
        )
        await judge.has_calls(1)
        running.cancel()
        await until(lambda: not processes_with(marker), 5)


async def test_worker_that_starts_later_is_used(cluster: Cluster, tree: Tree) -> None:
    async with cluster.place(trees=[tree]) as place:
        await in_use(place, 2)
        with extra_worker(cluster) as late:
            members = await in_use(place, 3)
            assert late.pid in {p for m in members if m.hello for p in ancestors(m.hello.pid)}
        await in_use(place, 2)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_job_of_a_worker_that_ends_is_lost_long_before_the_silence_limit(
    cluster: Cluster, tree: Tree, how: signal.Signals
) -> None:
    settings = cluster.settings(silence_seconds=60, dead_man_seconds=60, slots=1)
    notes: list[str] = []
    async with cluster.place(trees=[tree], settings=settings, on_note=notes.append) as place:
        members = await in_use(place, 2)
        judge = Judge(held=True)
        session = make_session(judge, max_calls=3)
        marker = f"lost-{os.getpid()}"
        running = asyncio.create_task(run(place, tree, CALLS, "3", marker, judge=session))
        await judge.has_calls(1)
        (busy,) = (m for m in members if m.connection and m.connection.running)
        worker = worker_of(cluster, busy)
        worker.kill(how)
        with pytest.raises(PlaceLostError):
            await asyncio.wait_for(running, 30)
        assert session.closed
        assert session.ledger.call_count == 1  # stays counted
        await until(lambda: not processes_with(marker) and not worker.is_alive)
        await in_use(place, 1)
        judge.let_go()
        assert (await run(place, tree, CALLS, "3", judge=make_session(judge)))[1].stdout == b"done\n"
    assert any("it left the cluster; its 1 job run" in note for note in notes), notes


async def test_node_process_that_was_killed_is_replaced_and_used_again(cluster: Cluster, tree: Tree) -> None:
    async with cluster.place(trees=[tree], settings=cluster.settings(slots=1)) as place:
        members = await in_use(place, 2)
        judge = Judge(held=True)
        running = asyncio.create_task(run(place, tree, CALLS, "1", judge=make_session(judge)))
        await judge.has_calls(1)
        (busy,) = (m for m in members if m.connection and m.connection.running)
        assert busy.hello is not None
        pid = busy.hello.pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(PlaceLostError, match="its process was replaced"):
            await asyncio.wait_for(running, 30)
        await until(lambda: busy.hello is not None and busy.hello.pid != pid)


async def test_stopped_node_is_fenced_and_used_again(cluster: Cluster, tree: Tree) -> None:
    settings = cluster.settings(silence_seconds=1, dead_man_seconds=30, slots=1)
    async with cluster.place(trees=[tree], settings=settings) as place:
        members = await in_use(place, 2)
        judge = Judge(held=True)
        session = make_session(judge, max_calls=5)
        marker = f"stopped-{os.getpid()}"
        running = asyncio.create_task(run(place, tree, CALLS, "5", marker, judge=session))
        await judge.has_calls(1)
        (busy,) = (m for m in members if m.connection and m.connection.running)
        assert busy.hello is not None
        stopped = [worker_of(cluster, busy).pid, busy.hello.pid]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(PlaceLostError, match="it was silent for 1 s"):
                await asyncio.wait_for(running, 30)
            judge.let_go()
            # The other node continues meanwhile.
            assert (await run(place, tree, CALLS, "2", judge=make_session(judge)))[1].stdout == b"done\n"
            calls = judge.calls
            assert processes_with(marker)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        await in_use(place, 2)
        await until(lambda: not processes_with(marker))
        assert (judge.calls, session.ledger.call_count) == (calls, 1)
        both = await asyncio.gather(*(run(place, tree, "import time; time.sleep(0.3)") for _ in range(4)))
        assert len({node for node, _ in both}) == 2


async def test_lost_frames_repeat_no_job_and_no_call(cluster: Cluster, tree: Tree, tmp_path: Path) -> None:
    with extra_worker(cluster, preload="dask_tap", env={"TAP": str(tmp_path)}) as tapped:
        for worker in cluster.workers:
            worker.kill()  # only this one is left
        async with cluster.place(trees=[tree]) as place:
            (member,) = await in_use(place, 1)
            assert member.hello is not None
            assert tapped.pid in ancestors(member.hello.pid)
            (tmp_path / "losing").touch()
            judge = Judge()
            sessions = [make_session(judge, max_calls=5) for _ in range(12)]
            code = f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\n{CALLS}"
            done = await asyncio.gather(*(run(place, tree, code, "5", judge=session) for session in sessions))
            (tmp_path / "losing").unlink()
            assert {outcome.stdout for _, outcome in done} == {b"done\n"}
            assert member.epochs == 1
    assert {session.ledger.call_count for session in sessions} == {5}
    assert judge.calls == 60
    assert (tmp_path / "starts").read_text() == "x" * 12
    lost = (tmp_path / "lost").read_text()
    assert "q" in lost
    assert "r" in lost


# -- refusals


def fake_package(folder: Path, name: str, code: str) -> dict[str, str]:
    """The environment of a worker that imports this module instead of the installed one."""
    folder.mkdir()
    path = folder / f"{name}.py"
    path.write_text(code)
    return {"PYTHONPATH": str(folder)}


async def test_workers_that_cannot_be_used_are_refused_by_name_and_others_are_used(
    cluster: Cluster, tmp_path: Path
) -> None:
    root, cache = tmp_path / "large", tmp_path / "cache"
    root.mkdir()
    (root / "a.txt").write_text("the file")
    (root / "large.bin").write_bytes(os.urandom(300_000))
    missing = "raise ModuleNotFoundError(\"No module named 'agentv'\")"
    cache.mkdir()
    (cache / "agentv").write_text("not a directory")
    workers: dict[str, dict[str, Any]] = {
        "No module named 'agentv'": {"env": fake_package(tmp_path / "1", "agentv", missing)},
        "it has agentv 9.9": {
            "env": fake_package(tmp_path / "2", "sitecustomize", "import agentv\nagentv.__version__ = '9.9'")
        },
        "cache/agentv": {"env": {"XDG_CACHE_HOME": str(cache)}},
    }
    if os.geteuid() == 0 and shutil.which("unshare") is not None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mount = 'mount -t tmpfs -o size=128k none "$1" && shift && exec "$@"'
        inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", str(disk)]
        workers["No space left on device"] = {"env": {"XDG_CACHE_HOME": str(disk)}, "inside": inside}
    started = [cluster.worker(listed=False, **options) for options in workers.values()]
    try:
        for worker in started:
            cluster.joined(worker)
        async with cluster.place(trees=[tree := read_tree(root, max_bytes=10**6)], look=True) as place:
            await in_use(place, 2)
            refused = {m.name: m.refused for m in place.members.values() if m.refused is not None}
            assert len(refused) == len(workers), refused
            assert all(name.startswith("tls://127.0.0.1:") for name in refused)
            for reason in workers:
                assert any(reason in str(each) for each in refused.values()), (reason, refused)
            assert any("pip install 'agentv[dask]==" in str(each) for each in refused.values())
            assert (await run(place, tree, "print(open('a.txt').read())"))[1].stdout == b"the file\n"
    finally:
        for worker in started:
            worker.end()


async def test_foreign_certificate_is_refused_before_anything_runs(cluster: Cluster, tmp_path: Path) -> None:
    foreign = Certificates.create(tmp_path / "foreign")
    with pytest.raises(NodesLostError, match=r"cannot connect to the Dask scheduler tls://.*CERTIFICATE_VERIFY_FAILED"):
        async with cluster.place(settings=cluster.settings(tls=foreign.model)):
            pass


async def test_certificate_that_the_scheduler_does_not_know_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    foreign = Certificates.create(tmp_path / "foreign")
    tls = foreign.model.model_copy(update={"ca": str(cluster.certificates.ca)})
    with pytest.raises(NodesLostError, match="cannot connect to the Dask scheduler"):
        async with cluster.place(settings=cluster.settings(tls=tls)):
            pass


async def test_scheduler_with_tls_is_named_when_the_address_has_none(cluster: Cluster) -> None:
    address = cluster.address.replace("tls://", "tcp://")
    settings = cluster.settings(tls=None)
    with pytest.raises(NodesLostError, match="its address begins with tls://"):
        async with RemotePlace(open_channel(EngineAddress(address, settings)), settings):
            pass


def test_tls_without_files_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"needs TLS files[^\0]*nodes: \{tls:"):
        open_channel(EngineAddress("tls://127.0.0.1:8786", NodesModel()))


def test_tls_file_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    files = Certificates(tmp_path / "ca", tmp_path / "cert", tmp_path / "key")
    with pytest.raises(UsageError, match="TLS files cannot be used"):
        open_channel(EngineAddress("tls://127.0.0.1:8786", NodesModel(tls=files.model)))


def test_missing_package_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed.security", None)
    with pytest.raises(UsageError, match=r"pip install 'agentv\[dask\]'"):
        open_channel(EngineAddress("tcp://127.0.0.1:8786", NodesModel()))


@pytest.mark.parametrize("address", ["tcp://", "tcp://:1", "tcp://host:port", "tcp://host:1/path", "tls://u@host:1"])
def test_address_must_be_host_and_port(address: str) -> None:
    with pytest.raises(UsageError, match="--on"):
        open_channel(EngineAddress(address, NodesModel()))


async def test_no_scheduler_is_reported_without_waiting() -> None:
    settings = NodesModel()
    channel = open_channel(EngineAddress("tcp://127.0.0.1:1", settings))
    with pytest.raises(NodesLostError, match=r"cannot connect to the Dask .*127.0.0.1:1: Connection refused"):
        async with RemotePlace(channel, settings):
            pass


# -- nodes that lie


LIES = {
    "serialized": "it sent an object instead of bytes",
    "pickled": "it sent an object instead of bytes",
    "huge": "it sent a message with 7.,...,... bytes",
    "unknown": "unknown message 'surprise'",
    "epoch": "it answers another driver",
    "garbage": "it sent an invalid frame",
}


async def test_lying_nodes_are_refused_and_run_nothing_in_the_driver(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "ran").touch()
    with extra_worker(cluster, preload="dask_liar", env={"LIES": str(tmp_path)}):
        for lie, reason in LIES.items():
            (tmp_path / "lie").write_text(lie)
            async with cluster.place(look=True) as place:
                await in_use(place, 2)
                (refused,) = [m.refused for m in place.members.values() if m.refused is not None]
                assert re.search(reason, refused), (lie, refused)
        (tmp_path / "lie").write_text("exception")  # like a node that cannot be reached
        async with cluster.place(settings=cluster.settings(silence_seconds=1), look=True) as place:
            assert {m.hello is None for m in place.members.values()} == {True, False}
        (tmp_path / "lie").write_text("event")
        async with cluster.place() as place:
            await in_use(place, 3)
            with extra_worker(cluster):  # events are still followed
                await in_use(place, 4)
    assert str(os.getpid()) not in (tmp_path / "ran").read_text().split()
