"""The Ray engine: addresses and variables, and a real cluster (`make soak`, in a network namespace of its own)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import NodesLostError, UsageError
from agentv.nodes.engines import EngineAddress
from agentv.nodes.engines.ray import RayEngine, bridge_variables
from agentv.targets.nodes_section import NodesModel
from tests.conftest import Project
from tests.nodes.ray_cluster import HEAD, RayCluster, children_of, command_of, kill, parent_of, until

CANARY = "sk-canary-7f3a91c0"
CASES = 40
HAS_RAY = importlib.util.find_spec("ray") is not None
CAN_ISOLATE = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("unshare") is not None


def engine(text: str) -> RayEngine:
    return RayEngine(EngineAddress(text, NodesModel()))


@pytest.mark.parametrize("text", ["ray:head", "ray:///", "ray://head", "ray:head:0", "ray:head:port", "ray:://x:1"])
def test_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="ray:auto, ray:HOST:PORT or ray://HOST:PORT"):
        engine(text)


def test_missing_ray_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentv.nodes.engines.ray.importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'agentv\[ray\]'"):
        engine("ray:auto")


def test_variables_for_ray_have_settings_but_no_keys() -> None:
    variables = bridge_variables(
        {
            "PATH": "/bin",
            "OPENAI_API_KEY": CANARY,
            "RAY_ADDRESS": "head:6379",
            "RAY_TLS_CA_CERT": "ca.pem",
            "RAY_RUNTIME_ENV_HOOK": "module.hook",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "1",
        }
    )
    assert variables == {
        "PATH": "/bin",
        "RAY_ADDRESS": "head:6379",
        "RAY_TLS_CA_CERT": str(Path("ca.pem").absolute()),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }


@pytest.mark.parametrize(("value", "encrypted"), [("1", True), ("true", True), ("0", False), (None, False)])
def test_frames_are_encrypted_only_with_tls_of_ray(
    monkeypatch: pytest.MonkeyPatch, value: str | None, encrypted: bool
) -> None:
    monkeypatch.setattr("agentv.nodes.engines.ray.importlib.util.find_spec", lambda _: True)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    if value is not None:
        monkeypatch.setenv("RAY_USE_TLS", value)
    assert engine("ray:auto").encrypted is encrypted


async def test_address_without_server_is_reported_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentv.nodes.engines.ray.importlib.util.find_spec", lambda _: True)
    with pytest.raises(NodesLostError, match=r"cannot connect to Ray at ray://127\.0\.0\.1:1: "):
        async with engine("ray://127.0.0.1:1"):
            pass


# -- on a real cluster


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    if not HAS_RAY:
        pytest.skip("Ray is not installed: run `make soak`, or pip install 'agentv[ray]'")
    if not CAN_ISOLATE:
        pytest.skip("needs Linux, root and unshare: outside a network namespace, Ray listens on the machine's address")
    folder = Path(os.path.realpath(tmp_path_factory.mktemp("r")))
    cluster = RayCluster(folder)
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(running: RayCluster) -> RayCluster:
    running.whole()
    return running


@pytest.fixture
def evals(project: Project) -> Project:
    """A suite whose scripts call the judge three times and take a second."""
    project.write(
        "agentv.config.yaml",
        """
        targets:
          app: {provider: mock, response: an answer}
          strict: {provider: mock, response: "yes"}
        defaults: {target: app, judge_target: strict}
        nodes: {silence_seconds: 15, dead_man_seconds: 60, slots: 4}
        """,
    )
    project.write(
        "judge.py",
        """
        import os, time
        from agentv_eval import code_judge

        @code_judge
        def judge(input, judge):
            time.sleep(0.5)
            answers = [judge.invoke(question=f"{number}?").raw_text for number in range(3)]
            time.sleep(0.5)
            leaked = [name for name, value in os.environ.items() if "canary" in value or name.startswith("RAY_")]
            return {"score": float(answers == ["yes"] * 3 and not leaked), "reasoning": ",".join(leaked)}
        """,
    )
    cases = "\n".join(f"  - {{id: c{number}, input: Question {number}?}}" for number in range(CASES))
    project.write(
        "s.yaml",
        "execution:\n"
        "  evaluators: [{name: j, type: code_judge, script: [python, judge.py], judge: {max_calls: 5}}]\n"
        f"evalcases:\n{cases}\n",
    )
    return project


def start(cluster: RayCluster, project: Project, *words: str) -> subprocess.Popen[str]:
    env = cluster.environment({"NO_COLOR": "1", "OPENAI_API_KEY": CANARY, "RAY_ADDRESS": HEAD})
    return subprocess.Popen(
        cluster.command(sys.executable, "-m", "agentv", *words),
        cwd=project.root,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(cluster: RayCluster, project: Project, rows: int = 4, on: str = "ray:auto") -> subprocess.Popen[str]:
    """A run that has recorded some rows."""
    process = start(cluster, project, "eval", "s.yaml", "--on", on)
    until(lambda: process.poll() is not None or len(rows_of(project)) >= rows, 120)
    assert process.poll() is None, process.communicate()
    return process


def rows_of(project: Project) -> list[dict[str, Any]]:
    return project.rows() if list(project.root.glob(".agentv/runs/*/results.jsonl")) else []


def check_complete(project: Project, code: int, output: str, errors: str) -> None:
    assert code == 0, output + errors
    rows = project.rows()
    assert len(rows) == len({row["eval_id"] for row in rows}) == CASES
    assert {row["score"] for row in rows} == {1.0}, output


def of_agentv(cluster: RayCluster) -> list[int]:
    """Processes of nodes and jobs, and the one that is connected to Ray."""
    found = [(pid, command_of(pid, all_words=True)) for pid in cluster.processes()]
    return [pid for pid, words in found if "agentv.nodes." in words or "judge.py" in words]


def actors(cluster: RayCluster) -> list[int]:
    """The processes of Ray in which actors run: the parents of the node processes."""
    found = [pid for pid in cluster.processes() if "-m agentv.nodes.process" in command_of(pid, all_words=True)]
    return [parent_of(pid) for pid in found if "ray::" in command_of(parent_of(pid), all_words=True)]


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("on", ["ray:auto", "ray://127.0.0.1:10001"])
def test_suite_runs_on_nodes_and_keys_stay_with_the_driver(cluster: RayCluster, evals: Project, on: str) -> None:
    process = start(cluster, evals, "nodes", "--on", on)
    output, errors = process.communicate(timeout=200)
    assert (process.returncode, errors) == (0, ""), output + errors
    assert output.count(" ready") == 2, output

    process = start(cluster, evals, "eval", "s.yaml", "--on", on)
    output, errors = process.communicate(timeout=200)
    check_complete(evals, process.returncode, output, errors)
    assert "ray" not in errors.replace(on, "").lower()
    until(lambda: not of_agentv(cluster), 10)
    for path in cluster.session.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert CANARY.encode() not in path.read_bytes(), path


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_jobs_run_elsewhere_after_a_raylet_was_killed(cluster: RayCluster, evals: Project) -> None:
    process = started(cluster, evals)
    kill(cluster.nodes[0].child("raylet"))
    output, errors = process.communicate(timeout=200)
    check_complete(evals, process.returncode, output, errors)
    assert "was lost: its" in errors


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("on", ["ray:auto", "ray://127.0.0.1:10001"])
def test_new_actor_is_used_after_one_was_killed(cluster: RayCluster, evals: Project, on: str) -> None:
    process = started(cluster, evals, on=on)
    kill(actors(cluster)[0])
    output, errors = process.communicate(timeout=200)
    check_complete(evals, process.returncode, output, errors)
    assert "was lost: its actor on the Ray node has died" in errors
    assert any(each["node"].endswith("-2") for each in evals.manifest()["nodes"]["seen"]), errors


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_node_that_joins_late_is_used(cluster: RayCluster, evals: Project) -> None:
    cluster.nodes.pop().end()
    process = started(cluster, evals)
    cluster.node()
    output, errors = process.communicate(timeout=200)
    check_complete(evals, process.returncode, output, errors)
    assert len(evals.manifest()["nodes"]["seen"]) == 2


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("on", ["ray:auto", "ray://127.0.0.1:10001"])
def test_nothing_is_left_after_the_driver_was_killed(cluster: RayCluster, evals: Project, on: str) -> None:
    process = started(cluster, evals, on=on)
    process.kill()
    process.communicate()
    until(lambda: not of_agentv(cluster), 20)
    assert len(rows_of(evals)) < CASES
    resumed = start(cluster, evals, "eval", "--resume", evals.run_dirs()[-1].name, "--on", on)
    output, errors = resumed.communicate(timeout=200)
    check_complete(evals, resumed.returncode, output, errors)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_interrupted_run_ends_its_jobs(cluster: RayCluster, evals: Project) -> None:
    process = started(cluster, evals)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, output + errors
    until(lambda: not of_agentv(cluster), 5)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_node_without_agentv_is_refused_by_name(cluster: RayCluster, evals: Project, tmp_path: Path) -> None:
    package = tmp_path / "other" / "agentv"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'agentv'\")\n")
    bare = cluster.node(env={"PYTHONPATH": str(package.parent)}, listed=False)
    try:
        process = start(cluster, evals, "nodes", "--on", "ray:auto")
        output, errors = process.communicate(timeout=200)
    finally:
        bare.end()
    assert process.returncode == 3, output + errors
    assert output.count(" ready") == 2
    assert "No module named 'agentv'" in output
    assert "pip install 'agentv[ray]==" in output


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_run_stops_with_its_rows_after_the_head_was_killed(cluster: RayCluster, evals: Project) -> None:
    """The last test: the cluster is gone afterwards. Nodes work for another minute without a head."""
    script = evals.root / "judge.py"
    script.write_text(script.read_text().replace("sleep(0.5)", "sleep(12)"))
    process = started(cluster, evals)
    cluster.is_broken = True
    for pid in children_of(cluster.head.process.pid):
        kill(pid)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 3, output + errors
    assert "the run has lost its nodes" in output + errors
    assert "Continue with --resume" in output + errors
    assert 4 <= len(evals.rows()) < CASES
