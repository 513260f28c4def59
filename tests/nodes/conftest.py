"""A Dask cluster for all tests of this directory that need one, and the files of a suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentv.nodes.trees import Tree, read_tree
from tests.nodes.dask_cluster import Cluster


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("dask") / "cluster")
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(session_cluster: Cluster) -> Cluster:
    """A cluster of two workers."""
    session_cluster.whole()
    return session_cluster


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root = tmp_path / "suite"
    root.mkdir()
    (root / "a.txt").write_text("the file")
    return read_tree(root, max_bytes=10**6)
