"""`agentv eval --on tls://...` on a Dask cluster: whatever is killed, each case has one row, and calls stay counted."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.nodes.dask_cluster import Cluster, ancestors, outer_pid

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy

CASES = 24
SCRIPT = """\
import json, os, sys, time
from pathlib import Path
from agentv_eval import create_judge_proxy_client

barrier = Path({barrier!r})
case = json.load(sys.stdin)["question"]
client = create_judge_proxy_client()
client.invoke(question="first")
with (barrier / "starts").open("a") as file:
    file.write(f"{{case}} {{os.getpid()}}\\n")
while (barrier / "hold").exists():
    time.sleep(0.02)
client.invoke(question="second")
print(json.dumps({{"score": 1}}))
"""


class Held:
    """A project whose scripts wait while the file `hold` exists."""

    def __init__(self, project: Project, barrier: Path, nodes: str, cases: int = CASES) -> None:
        self.project, self.barrier, self.cases = project, barrier, cases
        barrier.mkdir()
        (barrier / "hold").touch()
        (barrier / "starts").touch()
        project.write(
            "agentv.config.yaml",
            "targets:\n"
            "  bot: {provider: mock, response: ok}\n"
            "  strict: {provider: mock, response: fine, cost_usd: 0.01}\n"
            "defaults: {target: bot, judge_target: strict}\n" + nodes,
        )
        project.write("judge.py", SCRIPT.format(barrier=str(barrier)))
        project.write(
            "suite.yaml",
            "execution:\n"
            "  evaluators: [{name: j, type: code_judge, script: [python, judge.py], judge: {max_calls: 2}}]\n"
            "evalcases:\n" + "".join(f"  - {{id: case-{n}, input: case-{n}}}\n" for n in range(cases)),
        )

    def starts(self) -> list[tuple[str, int]]:
        lines = (self.barrier / "starts").read_text().splitlines()
        return [(case, int(pid)) for case, pid in map(str.split, lines)]

    def let_go(self) -> None:
        (self.barrier / "hold").unlink()

    def scripts(self) -> list[int]:
        """The processes of the scripts that are running."""
        return [pid for _, inner in self.starts() if (pid := outer_pid(inner)) is not None]

    def check_rows(self, *, lost: int | None = None) -> list[dict[str, Any]]:
        """Each case has one row with a score, and every judge call is recorded."""
        rows = self.project.rows()
        assert sorted(row["eval_id"] for row in rows) == sorted(f"case-{n}" for n in range(self.cases))
        results = [row["evaluator_results"][0] for row in rows]
        assert {result["score"] for result in results} == {1}, results
        assert {result["judge_proxy"]["call_count"] for result in results} == {2}
        again = [result["execution"] for result in results if result["execution"]["tries"] > 1]
        if lost is not None:
            assert len(again) == lost
            assert sum(execution["lost_calls"] for execution in again) == lost
        return again


def wait(condition: Callable[[], Any], seconds: float = 40) -> Any:
    """Wait until something is true in other processes."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return result


@pytest.fixture
def held(project: Project, tmp_path: Path, cluster: Cluster) -> Iterator[Held]:
    yield Held(project, tmp_path / "barrier", cluster.configuration(dead_man=20))
    (tmp_path / "barrier" / "hold").unlink(missing_ok=True)


def test_scripts_of_a_killed_node_run_again_and_their_calls_stay_counted(held: Held, cluster: Cluster) -> None:
    run = held.project.start("eval", "suite.yaml")
    wait(lambda: len(held.starts()) == 8)  # all slots of both nodes
    victim = cluster.workers[0]
    on_victim = [pid for pid in held.scripts() if victim.pid in ancestors(pid)]
    assert len(on_victim) == 4
    victim.kill()
    wait(lambda: not set(on_victim) & set(held.scripts()))
    held.let_go()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    again = held.check_rows(lost=4)
    assert {execution["tries"] for execution in again} == {2}
    assert len(held.starts()) == held.cases + 4
    calls = (held.project.run_dirs()[-1] / "judge_calls.jsonl").read_text().splitlines()
    assert len(calls) == 2 * held.cases + 4
    assert "its 4 jobs run elsewhere" in err
    assert "cannot be sent" not in err  # the configuration is not, and need not be
    assert "Traceback" not in err
    assert "distributed" not in err


@pytest.mark.soak  # tests/nodes/test_command.py has the budget of calls that were lost on another engine
def test_calls_of_a_killed_node_stay_in_the_budget(held: Held, cluster: Cluster) -> None:
    # Without lost calls, this budget would be enough.
    run = held.project.start("eval", "suite.yaml", "--max-judge-calls", str(2 * held.cases))
    wait(lambda: len(held.starts()) == 1)  # the first one runs alone, to find out what it costs
    held.let_go()
    wait(lambda: held.project.run_dirs() and held.project.rows())
    (held.barrier / "hold").touch()
    victim = cluster.workers[0]
    wait(lambda: [pid for pid in held.scripts() if victim.pid in ancestors(pid)])
    victim.kill()
    held.let_go()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 3, err
    calls = (held.project.run_dirs()[-1] / "judge_calls.jsonl").read_text().splitlines()
    assert len(calls) <= 2 * held.cases
    resumed = held.project.run("eval", "--resume", "latest", "--max-judge-calls", "500")
    assert resumed.returncode == 0, resumed.stderr
    assert held.check_rows()


def test_scripts_of_a_killed_driver_end_and_the_run_is_resumed_elsewhere(
    project: Project, tmp_path: Path, cluster: Cluster
) -> None:
    held = Held(project, tmp_path / "barrier", cluster.configuration(silence=3, dead_man=3))
    run = held.project.start("eval", "suite.yaml")
    wait(lambda: len(held.starts()) == 8)
    pids = held.scripts()
    assert len(pids) == 8
    run.kill()
    run.communicate()
    begin = time.monotonic()
    wait(lambda: not held.scripts(), 20)
    assert time.monotonic() - begin < 3 + 8  # dead_man_seconds, and the time to end processes on a busy machine
    held.let_go()
    resumed = held.project.run("eval", "--resume", "latest", "--on", "local:2")
    assert resumed.returncode == 0, resumed.stderr
    held.check_rows()


def test_interrupted_run_ends_all_scripts_and_prints_no_traceback(held: Held) -> None:
    run = held.project.start("eval", "suite.yaml")
    wait(lambda: len(held.starts()) == 8)
    begin = time.monotonic()
    run.send_signal(signal.SIGINT)
    wait(lambda: not held.scripts(), 20)
    assert time.monotonic() - begin < 10  # they do not wait for dead_man_seconds
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "Traceback" not in err
    assert "distributed" not in err
    held.let_go()
    resumed = held.project.run("eval", "--resume", "latest")
    assert resumed.returncode == 0, resumed.stderr
    held.check_rows()


def test_run_needs_a_node_and_a_scheduler_and_is_resumed_elsewhere(project: Project, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "own")
    try:
        held = Held(project, tmp_path / "barrier", cluster.configuration(silence=2, dead_man=2), cases=8)
        refused = project.run("eval", "suite.yaml")
        assert refused.returncode in (2, 3)
        assert f"no node of {cluster.address} has joined" in refused.stderr
        assert not held.starts()
        cluster.whole(1)
        run = project.start("eval", "suite.yaml", "--workers", "8")
        wait(lambda: len(held.starts()) == 4)
        held.let_go()
        wait(lambda: project.run_dirs() and len(project.rows()) >= 2)
        (held.barrier / "hold").touch()
        wait(lambda: len(held.starts()) > len(project.rows()) or len(project.rows()) == 8)
        rows = len(project.rows())
        cluster.scheduler.kill()
        _, err = run.communicate(timeout=60)
        if rows < 8:
            assert run.returncode == 3, err
            assert "the run has lost its nodes" in err
            assert "--resume" in err
        assert "Traceback" not in err
        assert len(project.rows()) >= rows
        held.let_go()
        resumed = project.run("eval", "--resume", "latest", "--on", "local:1")
        assert resumed.returncode == 0, resumed.stderr
        held.check_rows()
    finally:
        cluster.close()


def test_nodes_shows_both_workers(held: Held, cluster: Cluster) -> None:
    shown = held.project.run("nodes")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("tls://127.0.0.1:") == 2
    assert "8 jobs at a time" in shown.stdout
    assert shown.stderr == ""


def test_canaries_reach_neither_a_node_nor_the_wire(project: Project, tmp_path: Path, cluster: Cluster) -> None:
    canaries = [f"canary-{name}-{os.urandom(8).hex()}" for name in ("environ", "dotenv", "target")]
    environ, dotenv, target = canaries
    tap = tmp_path / "tap"
    tap.mkdir()
    worker = cluster.worker(preload="dask_tap", env={"TAP": str(tap)}, listed=False)
    try:
        cluster.joined(worker)
        for other in cluster.workers:
            other.kill()
        project.write(".env", f"SHOP_API_KEY={dotenv}\nPLAIN=visible\n")
        project.write(
            "agentv.config.yaml",
            "targets:\n"
            f"  bot: {{provider: mock, response: ok, system_prompt: '{target}'}}\n"
            "  strict: {provider: mock, response: fine}\n"
            "defaults: {target: bot, judge_target: strict}\n" + cluster.configuration(),
        )
        project.write(
            "judge.py",
            "import json, os, sys\nfrom pathlib import Path\nfrom agentv_eval import create_judge_proxy_client\n"
            "create_judge_proxy_client().invoke(question='q')\n"
            f"Path({str(tap / 'environ')!r}).write_text(json.dumps(dict(os.environ)))\n"
            'print(json.dumps({"score": 1}))\n',
        )
        project.write(
            "suite.yaml",
            "execution: {evaluators: [{name: j, type: code_judge, script: [python, judge.py], judge: true}]}\n"
            "evalcases: [{id: x, input: Q}]\n",
        )
        done = project.run("eval", "suite.yaml", env={"OPENAI_API_KEY": environ})
        assert done.returncode == 0, done.stderr + done.stdout
        frames = (tap / "frames").read_bytes()
        assert b"judge.py" in frames
        assert b"AGENTV_JUDGE_PROXY_TOKEN" in (tap / "environ").read_bytes()
        token = json.loads((tap / "environ").read_text())["AGENTV_JUDGE_PROXY_TOKEN"]
        assert token.encode() not in frames  # made on the node
        kept = b"".join(path.read_bytes() for path in worker.folder.rglob("*") if path.is_file())
        assert b"create_judge_proxy_client" in kept  # the files of the suite are there
        for canary in canaries:
            for place, content in {"frames": frames, "environ": (tap / "environ").read_bytes(), "store": kept}.items():
                assert canary.encode() not in content, (canary, place)
    finally:
        worker.end()
