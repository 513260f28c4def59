"""A network that is cut between a driver and a node, in network namespaces of this test."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import AGENTV, Project
from tests.nodes.dask_cluster import Cluster, ancestors
from tests.nodes.test_dask_runs import Held, wait

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy

DRIVER, NODE = "10.77.0.1", "10.77.0.2"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Two namespaces with a cable between them. The first has `DRIVER`, the second `NODE`."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and `ip`")
    names = [f"agentv-{secrets.token_hex(4)}" for _ in range(2)]
    created = []
    try:
        for name in names:
            try:
                _ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"network namespaces cannot be created: {error.stderr!r}")
            created.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, (DRIVER, NODE), strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
        yield names[0], names[1]
    finally:
        for name in created:
            _ip("netns", "delete", name)


def test_node_behind_a_cut_network_ends_its_scripts_and_is_used_again(
    project: Project, tmp_path: Path, namespaces: tuple[str, str]
) -> None:
    here, there = (["ip", "netns", "exec", name] for name in namespaces)
    cluster = Cluster(tmp_path / "own", host=DRIVER, inside=here)
    try:
        near = cluster.worker(host=DRIVER, inside=here)
        far = cluster.worker(host=NODE, inside=there)
        for worker in (near, far):
            cluster.joined(worker)
        held = Held(project, tmp_path / "barrier", cluster.configuration(silence=2, dead_man=3))
        with (tmp_path / "stderr").open("wb") as stderr:
            run = subprocess.Popen(
                [*here, *AGENTV, "eval", "suite.yaml"],
                cwd=project.root,
                env=project.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        wait(lambda: len(held.starts()) == 8)
        cut = [pid for pid in held.scripts() if far.pid in ancestors(pid)]
        assert len(cut) == 4
        _ip("-n", namespaces[0], "link", "set", "cable", "down")
        wait(lambda: not set(cut) & set(held.scripts()))  # their node hears nothing of the driver
        assert len(held.scripts()) == 4  # those of the other node continue
        _ip("-n", namespaces[0], "link", "set", "cable", "up")
        wait(lambda: "is used again" in (tmp_path / "stderr").read_text())
        held.let_go()
        assert run.wait(60) == 0, (tmp_path / "stderr").read_text()
        held.check_rows(lost=4)
        assert "Traceback" not in (tmp_path / "stderr").read_text()
    finally:
        cluster.close()
