"""One script cannot take the memory, the descriptors or the event loop that the scripts of other cases need."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import AGENTV, Project
from tests.spec.support import KIT, Ran, mock, run, scripted, write
from tests.threats.heartbeat import Heartbeat

LIMITED = """\
import json, os, resource, subprocess, sys
limits, *command = json.loads(sys.argv[1]), *sys.argv[2:]
def limit():
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
process = subprocess.Popen(command, preexec_fn=limit)
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps({"code": os.waitstatus_to_exitcode(status), "peak_kb": usage.ru_maxrss}), file=sys.stderr)
"""
"""Runs a command with limits for descriptors, and prints how much memory it needed."""

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

HOG = """
import select, socket, time
def half(size):
    head = f"POST /invoke HTTP/1.1\\r\\nHost: 127.0.0.1:{PORT}\\r\\nAuthorization: Bearer {TOKEN}\\r\\n"
    return head.encode() + f"Content-Length: {size}\\r\\n\\r\\n".encode()

def hold(count, size, piece=b"x" * 65536):
    \"\"\"Open connections, and send as much of an incomplete body on each as the proxy takes.\"\"\"
    held, unsent = [], {}
    for _ in range(count):
        try:
            connection = socket.create_connection(("127.0.0.1", PORT))
            connection.sendall(half(size))
        except OSError:
            break
        connection.setblocking(False)
        held.append(connection)
        unsent[connection] = size - 1
    sent = 0
    poll = select.poll()
    by_number = {connection.fileno(): connection for connection in unsent}
    for number in by_number:
        poll.register(number, select.POLLOUT)
    while unsent and (events := poll.poll(1000)):
        for number, _ in events:
            connection = by_number[number]
            if connection not in unsent:
                poll.unregister(number)
                continue
            try:
                count = connection.send(piece[:unsent[connection]])
            except OSError:
                unsent.pop(connection)
                continue
            sent += count
            unsent[connection] -= count
            if not unsent[connection]:
                unsent.pop(connection)
    return held, sent
"""


def limited_run(project: Project, *arguments: str, limits: tuple[int, int]) -> tuple[Ran, int]:
    """Run the suite with limits for descriptors. Returns the run and the most memory that it used, in MB."""
    command = [*AGENTV, "eval", "suite.yaml", "--run-dir", "run", *arguments]
    process = subprocess.run(
        [sys.executable, "-c", LIMITED, json.dumps(limits), *command],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    measured = json.loads(process.stderr.splitlines()[-1])
    directory = project.root / "run"
    assert (directory / "results.jsonl").exists(), process.stderr
    return Ran(process, project.rows(directory), directory), measured["peak_kb"] // 1024


def write_cases(project: Project, scripts: Mapping[str, str], **judges: Any) -> None:
    """Write one case per script, with judge access. `judges` are options of `judge` by the name of the script."""
    project.write("kit.py", KIT)
    cases = []
    for name, script in scripts.items():
        Path(project.root, f"{name}.py").write_text("from kit import *\n" + script)
        evaluator = {"type": "code_judge", "script": ["python", f"{name}.py"], "judge": judges.get(name, {})}
        cases.append({"id": name, "input": "?", "evaluators": [evaluator]})
    project.write("suite.yaml", json.dumps({"evalcases": cases}))
    project.write("agentv.config.yaml", json.dumps(scripted()))


def results(ran: Ran) -> dict[str, tuple[float, str | None]]:
    return {row["eval_id"]: (row["score"], row["evaluator_results"][0]["error"]) for row in ran.rows}


WAITING = """
import os, time
def wait_for(*names):
    while not all(os.path.exists(name) for name in names):
        time.sleep(0.01)
def note(name):
    open(name, "w").close()
"""


@pytest.mark.parametrize("hard", [1024, HARD], ids=["no more than 1024", "more than 1024"])
def test_script_with_a_thousand_connections_fails_alone(project: Project, hard: int) -> None:
    honest = [f"honest{n}" for n in range(6)]
    hog = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (min({hard}, 1200), {hard}))
held, _ = hold(1100, 1000)
for _ in range(min(5, len(held))):
    held.pop().close()  # so that this script can still open a file
note("full")
wait_for(*{honest!r})
deadline = time.monotonic() + 30
while time.monotonic() < deadline:  # a busy proxy notices later that there are too many
    try:
        socket.create_connection(("127.0.0.1", PORT)).close()
    except OSError:
        break
    time.sleep(0.05)
done(1.0)
"""
    ask_once = 'wait_for("full")\nstatus, _ = invoke()\nnote({name!r})\ndone(1.0, status=status)\n'
    scripts = {"hog": WAITING + HOG + hog, **{name: WAITING + ask_once.format(name=name) for name in honest}}
    write_cases(project, scripts, hog={"max_calls": 0})
    ran, _ = limited_run(project, "--workers", "7", limits=(1024, hard))
    scores = results(ran)
    assert {name: scores[name] for name in honest} == dict.fromkeys(honest, (1.0, None))
    score, error = scores["hog"]
    assert score == 0
    assert "connections had a request in progress" in str(error)


@pytest.mark.parametrize(("connections", "passes"), [(3, True), (200, False)])
def test_half_sent_bodies_use_little_memory(project: Project, connections: int, passes: bool) -> None:
    script = f"held, sent = hold({connections}, 8 << 20)\ndone(1.0, held=len(held), sent=sent)\n"
    write_cases(project, {"hog": HOG + script}, hog={"max_calls": 0})
    ran, peak = limited_run(project, limits=(1024, HARD))
    score, error = results(ran)["hog"]
    assert peak < 150
    if passes:
        assert (score, error) == (1.0, None)
        assert ran.rows[0]["evaluator_results"][0]["details"]["sent"] == connections * ((8 << 20) - 1)
    else:
        assert score == 0
        assert "32 MiB of request bodies" in str(error)


def test_large_concurrent_calls_all_succeed(project: Project) -> None:
    """Together they are larger than what the proxy reads at the same time."""
    script = """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(12) as pool:
            statuses = list(pool.map(lambda n: invoke("x" * (6 << 20))[0], range(12)))
        done(statuses=statuses)
    """
    write(project, script, {"judge": True}, config=scripted(judge=mock("yes")))
    ran = run(project)
    assert ran.details["statuses"] == [200] * 12


@pytest.mark.parametrize(("requests", "passes"), [(900, True), (1100, False)])
def test_script_whose_requests_are_always_refused_is_stopped(project: Project, requests: int, passes: bool) -> None:
    script = f"""
statuses = []
connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
try:
    for _ in range({requests}):
        connection.request("POST", "/invoke", b"{{}}", {{"Authorization": "Bearer " + TOKEN}})
        reply = connection.getresponse()
        reply.read()
        statuses.append(reply.status)
except (OSError, http.client.HTTPException):
    pass
done(1.0, refused=statuses.count(400))
"""
    write_cases(project, {"noisy": script, "honest": "done(1.0, status=invoke()[0])"})
    ran = run(project)
    scores = results(ran)
    assert scores["honest"] == (1.0, None)
    score, error = scores["noisy"]
    assert score == (1.0 if passes else 0.0)
    if not passes:
        assert "more than 1,000 of its requests were refused, the last one with 400: `question` is" in str(error)


@pytest.mark.parametrize("size", [1 << 20, pytest.param(8 << 20, marks=pytest.mark.soak)])
def test_huge_bodies_do_not_delay_the_judge_calls_of_others(project: Project, tmp_path: Path, size: int) -> None:
    hostile = f"""
SIZE = {size} - 100
def lists(item, count, last):
    return b'{{"question": [' + (item + b",") * count + last + b"]}}"
bodies = [
    ("/invoke", lists(b"[]", SIZE // 3, b"")),
    ("/invoke", lists(b'{{"a":1}}', 20_000, b'{{"a":1,"a":1}}')),
    ("/invoke", b'{{"question": ' + b'{{"a":' * (SIZE // 5)),
    ("/invokeBatch", b'{{"requests": [' + b",".join([b'{{"question":"q"}}'] * (SIZE // 17)) + b"]}}"),
]
statuses = [ask(path, body)[0] for path, body in bodies]
note("hostile-done")
done(1.0, statuses=statuses)
"""
    honest = """
times = []
while not (os.path.exists("hostile-done") and len(times) > 20):
    started = time.perf_counter()
    status, _ = invoke()
    times.append(time.perf_counter() - started)
    assert status == 200
done(1.0, worst=max(times))
"""
    write_cases(project, {"hostile": WAITING + hostile, "honest": WAITING + honest}, honest={"max_calls": 100_000})
    heartbeat = Heartbeat(tmp_path)
    ran = run(project, "--workers", "2", env=heartbeat.env)
    scores = results(ran)
    assert scores["honest"] == (1.0, None)
    if size == 1 << 20:  # the largest batch cannot be parsed in time, and is refused with 400
        assert "exceeded its judge call limit of 50" in str(scores["hostile"][1])
    heartbeat.assert_steady()


def test_scripts_wait_when_descriptors_run_out(project: Project) -> None:
    write(project, "done(1.0, status=invoke()[0])", {"judge": True}, cases=30)
    ran, _ = limited_run(project, "--workers", "30", limits=(64, 64))
    assert [row["evaluator_results"][0]["error"] for row in ran.rows] == [None] * 30


def test_programs_start_with_the_original_descriptor_limit(project: Project) -> None:
    script = "import resource\ndone(1.0, limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    write_cases(project, {"script": script})
    ran, _ = limited_run(project, limits=(1000, HARD))
    assert ran.rows[0]["evaluator_results"][0]["details"] == {"limit": 1000}
