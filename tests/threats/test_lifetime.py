"""Whatever a script does, its proxy and its processes end with it, and the run continues."""

from __future__ import annotations

import json
import signal
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.patience import DEADLINES
from tests.spec.support import run, scripted, write, write_suite
from tests.threats.support import alive_with, listening_ports, wait_for

ACCESS: dict[str, Any] = {"judge": True}
DESCENDANTS = """
    import subprocess, time
    sleep = [sys.executable, "-c", "import time; time.sleep(600)", MARKER]
    subprocess.Popen(sleep)
    subprocess.Popen(sleep, start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sleep[0], sleep)
        os._exit(0)
    os.wait()
"""
ALL_THREE_RUN = """
    def line(pid):
        try:
            return open(f"/proc/{pid}/cmdline").read()
        except OSError:
            return ""
    while sum(MARKER in line(pid) for pid in os.listdir("/proc") if pid.isdigit()) < 3:
        time.sleep(0.01)
    open("ready", "w")
"""


def marked() -> str:
    return f"marker-{uuid.uuid4().hex}"


def with_marker(script: str, marker: str) -> str:
    return script.replace("MARKER", repr(marker))


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_proxy_port_is_closed_when_the_script_ends(project: Project) -> None:
    script = """
        import time
        me = json.load(sys.stdin)["eval_id"]
        with open(f"{me}.part", "w") as file:
            file.write(str(PORT))
        os.rename(f"{me}.part", f"{me}.port")
        while not os.path.exists(f"{me}.go"):
            time.sleep(0.01)
        done(status=invoke()[0])
    """
    write(project, script, ACCESS, cases=2)
    process = project.start("eval", "suite.yaml", "--run-dir", "run-0")
    files = [project.root / f"case-{n}.port" for n in (0, 1)]
    try:
        wait_for(lambda: all(file.exists() for file in files))
        first, second = (int(file.read_text()) for file in files)
        assert listening_ports(process.pid) == {first, second}
        assert not refuses(first)
        (project.root / "case-0.go").touch()
        results = project.root / "run-0" / "results.jsonl"
        wait_for(lambda: results.exists() and results.read_bytes().count(b"\n") == 1)
        assert refuses(first)
        assert listening_ports(process.pid) == {second}
        (project.root / "case-1.go").touch()
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert refuses(second)
    assert [row["score"] for row in project.rows(project.root / "run-0")] == [1, 1]


@pytest.mark.parametrize("options", [{}, ACCESS], ids=["plain", "with judge"])
def test_timeout_kills_the_script_and_its_descendants(project: Project, options: dict[str, Any]) -> None:
    marker = marked()
    for seconds in DEADLINES:
        script = with_marker(DESCENDANTS + ALL_THREE_RUN, marker) + "    time.sleep(600)\n"
        write(project, script, {**options, "timeout_seconds": seconds})
        ran = run(project)
        assert alive_with(marker) == []
        assert f"did not finish within {seconds:g} s" in ran.failure
        assert seconds * 1000 <= ran.result["duration_ms"] < seconds * 1000 + 30_000
        if (project.root / "ready").exists():
            return
    pytest.fail("the descendants did not start in time")


def test_descendants_are_killed_when_the_script_succeeds(project: Project) -> None:
    marker = marked()
    write(project, with_marker(DESCENDANTS, marker) + "    done()\n", ACCESS)
    started = time.monotonic()
    ran = run(project)
    assert ran.result["score"] == 1
    assert alive_with(marker) == []
    assert time.monotonic() - started < 60


def test_script_that_closes_its_pipes_times_out(project: Project) -> None:
    script = "import time\ndone()\nsys.stdout.flush()\nos.close(1); os.close(2); os.close(0)\ntime.sleep({})"
    write(project, script.format(600), {"timeout_seconds": 1})
    ran = run(project)
    assert "did not finish within 1 s" in ran.failure
    assert ran.result["duration_ms"] < 30_000
    write(project, script.format(0.1), {"timeout_seconds": 60})
    assert run(project).result["score"] == 1


def test_child_that_keeps_the_pipes_open_does_not_delay_the_end(project: Project) -> None:
    script = """
        import subprocess
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        done()
    """
    write(project, script, ACCESS)
    ran = run(project)
    assert ran.result["score"] == 1
    assert ran.result["duration_ms"] < 30_000


def test_orphaned_child_cannot_call_the_judge(project: Project) -> None:
    script = """
        if os.fork() == 0:
            os.setsid()
            while True:
                try:
                    status = invoke()[0]
                except OSError:
                    status = "refused"
                open("late", "a").write(f"{status}\\n")
        done(status=invoke()[0])
    """
    write(project, script, {"judge": {"max_calls": 1_000_000}})
    ran = run(project)
    assert ran.details["status"] == 200
    assert ran.ledger["call_count"] == len(ran.calls)
    late = project.root / "late"
    before = late.read_text() if late.exists() else ""
    time.sleep(0.1)
    assert (late.read_text() if late.exists() else "") == before


def test_score_is_ignored_when_the_script_fails(project: Project) -> None:
    script = "print('x' * 200_000 + 'the end of it', file=sys.stderr)\ndone(1.0)\nsys.exit({})"
    write(project, script.format(3))
    failure = run(project).failure
    assert "exited with code 3" in failure
    assert failure.endswith("the end of it")
    assert len(failure) < 5_000
    write(project, script.format(0))
    assert run(project).result["score"] == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_scripts_and_proxies_and_keeps_the_rows(
    project: Project, number: signal.Signals, code: int
) -> None:
    marker = marked()
    script = f"""
        me = json.load(sys.stdin)["eval_id"]
        if me != "case-0":
{with_marker(DESCENDANTS, marker).replace("    ", "            ")}
            open(f"{{me}}.part", "w").write(str(PORT))
            os.rename(f"{{me}}.part", f"{{me}}.port")
            time.sleep(600)
        done()
    """
    write(project, script, ACCESS, cases=3)
    process = project.start("eval", "suite.yaml", "--run-dir", "run-0")
    results = project.root / "run-0" / "results.jsonl"
    try:
        wait_for(lambda: len(list(project.root.glob("*.port"))) == 2)
        wait_for(lambda: results.exists() and results.read_bytes().count(b"\n") == 1)
        ports = {int(path.read_text()) for path in project.root.glob("*.port")}
        assert listening_ports(process.pid) == ports
        wait_for(lambda: len(alive_with(marker)) == 6)
        process.send_signal(number)
        started = time.monotonic()
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert time.monotonic() - started < 25
    assert process.returncode == code
    assert alive_with(marker) == []
    assert all(refuses(port) for port in ports)
    assert [(row["eval_id"], row["score"]) for row in project.rows(project.root / "run-0")] == [("case-0", 1)]
    assert "--resume run-0" in out


BREAKS_SCRIPTS = """\
import contextlib, os
with contextlib.suppress(FileNotFoundError):
    os.remove("missing.sh")
    os.rmdir("nowhere")
os.chmod("plain.sh", 0o644)
new = f"shebang-{os.getpid()}"  # replaced as a whole: another case may start it at this moment
with open(new, "w") as script:
    script.write("#!/no/such/interpreter\\n")
os.chmod(new, 0o755)
os.replace(new, "shebang.sh")
print("Paris")
"""


def test_start_errors_do_not_affect_other_cases(project: Project) -> None:
    """The target breaks the scripts: validation reports those that are broken before the run."""
    for name in ("missing.sh", "plain.sh", "shebang.sh"):
        project.write(name, "#!/bin/sh\n").chmod(0o755)
    (project.root / "nowhere").mkdir()
    project.write("app.py", BREAKS_SCRIPTS)
    broken: dict[str, tuple[dict[str, Any], str]] = {
        "missing": ({"script": ["./missing.sh"]}, "does not exist"),
        "not executable": ({"script": ["./plain.sh"]}, "chmod +x"),
        "bad cwd": ({"script": ["python", "-V"], "cwd": "nowhere"}, "does not exist"),
        "bad shebang": ({"script": ["./shebang.sh"]}, "/no/such/interpreter"),
    }
    good = {"script": ["sh", "-c", "echo '{\"score\": 1}'"]}
    cases = [
        {"id": name, "input": "?", "evaluators": [{"type": "code_judge", "judge": True, **options}]}
        for name, (options, _) in {**broken, "good": (good, "")}.items()
    ]
    write_suite(project, cases)
    config = scripted()
    config["targets"]["assistant"] = {"provider": "cli", "command": ["python", "app.py", "{PROMPT}"]}
    project.write("agentv.config.yaml", json.dumps(config))
    rows = {row["eval_id"]: row for row in run(project).rows}
    assert rows["good"]["score"] == 1
    for name, (_, words) in broken.items():
        assert rows[name]["score"] == 0
        assert words in rows[name]["error"]["message"]


def test_executions_with_many_children_leave_no_process(project: Project) -> None:
    """40 executions with 20 children each."""
    marker = marked()
    script = f'for i in 1 2 3 4 5 6 7 8 9 10; do sleep 601 & setsid sh -c "sleep 602; : {marker}" & done; '
    evaluator = {"type": "code_judge", "script": ["sh", "-c", script + "echo '{\"score\": 1}'"], "judge": True}
    write_suite(project, [{"id": str(n), "input": "?"} for n in range(40)], execution={"evaluators": [evaluator]})
    project.write("agentv.config.yaml", json.dumps(scripted()))
    process = project.start("eval", "suite.yaml", "--workers", "4", "--run-dir", "run-0", "--json")
    results = project.root / "run-0" / "results.jsonl"
    descriptors: list[int] = []
    try:
        for rows in (5, 35):
            wait_for(lambda rows=rows: results.exists() and results.read_bytes().count(b"\n") >= rows)  # type: ignore[misc]
            descriptors.append(len(list(Path(f"/proc/{process.pid}/fd").iterdir())))
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert json.loads(out)["passed"] == 40, err
    assert alive_with(marker) == []
    # Up to 40 executions run concurrently, each with a few descriptors; leaks from all of them would exceed this.
    assert descriptors[1] - descriptors[0] < 60


def test_script_is_not_started_without_a_judge(project: Project) -> None:
    write(project, "open('started', 'w')\ndone()", {"use_judge_provider": True})
    ran = run(project, "--judge-target", "none")
    assert "no judge is available" in ran.failure
    assert "Set `judge_target` under `defaults`" in ran.failure
    assert not (project.root / "started").exists()
    assert run(project).result["score"] == 1
    assert (project.root / "started").exists()


def test_script_that_kills_its_supervisor_fails_and_the_run_continues(project: Project) -> None:
    script = """
        me = json.load(sys.stdin)["eval_id"]
        if me == "case-0":
            os.kill(os.getppid(), 9)
        done()
    """
    write(project, script, ACCESS, cases=3)
    rows = {row["eval_id"]: row for row in run(project, "--workers", "1").rows}
    assert rows["case-0"]["error"]["stage"] == "evaluator"
    assert [rows[name]["score"] for name in ("case-0", "case-1", "case-2")] == [0, 1, 1]
