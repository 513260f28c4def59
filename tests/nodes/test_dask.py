from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentv.nodes.remote import RemotePlace
from agentv.nodes.trees import Tree, read_tree
from agentv.processes.job import Job
from tests.judge.support import Judge, make_session
from tests.nodes.dask_cluster import Cluster, in_use, until, worker_of


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("dask") / "cluster")
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(session_cluster: Cluster) -> Cluster:
    session_cluster.whole()
    return session_cluster


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root = tmp_path / "suite"
    root.mkdir()
    (root / "a.txt").write_text("the file")
    return read_tree(root, max_bytes=10**6)


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
        async with place.slot() as slot:
            assert slot.node is not None
            assert slot.node.startswith("tls://127.0.0.1:")
            outcome = await slot.run(
                Job([slot.path(sys.executable), "-c", code], slot.path(str(tree.root)), isolate=True), judge=session
            )
    assert outcome.stdout == b"the file yes\n", outcome
    assert session.ledger.call_count == 1
