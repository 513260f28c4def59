"""`agentv eval --on local:2` and `agentv nodes`: the real command with real node processes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project

CONFIG = """\
targets:
  app: {provider: cli, command: [python, app.py, "{PROMPT_FILE}", "{OUTPUT_FILE}"]}
  strict: {provider: mock, response: "yes", cost_usd: 0.5}
defaults: {target: app, judge_target: strict}
"""
APP = """\
import os, sys
question = open(sys.argv[1], encoding="utf-8").read()
open(sys.argv[2], "w", encoding="utf-8").write(f"answer to {question}")
"""
JUDGE = """\
from pathlib import Path
from agentv_eval import code_judge

@code_judge
def helpful(input, judge):
    words = Path("data/words.txt").read_text().split()
    replies = judge.invoke_batch([{"question": f"{word}: {input.question}"} for word in words])
    return {"score": sum(reply.raw_text == "yes" for reply in replies) / len(words), "hits": words}
"""
SUITE = """\
execution:
  evaluators:
    - {name: helpful, type: code_judge, script: [python, judges/helpful.py], judge: {max_calls: 5}}
    - {name: short, type: python, value: "len(answer) < 100"}
evalcases:
  - {id: a, input: A?}
  - {id: b, input: B?}
  - {id: c, input: C?}
  - {id: d, input: D?}
"""


@pytest.fixture
def shop(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project.write("agentv.config.yaml", CONFIG)
    project.write("app.py", APP)
    project.write("judges/helpful.py", JUDGE)
    project.write("data/words.txt", "one two three")
    project.write("suite.yaml", SUITE)
    return project


def essence(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says about its case, without times and places."""
    results = [
        {key: result[key] for key in ("name", "score", "verdict", "error", "hits", "misses")}
        | {"calls": (result.get("judge_proxy") or {}).get("call_count")}
        for result in row["evaluator_results"]
    ]
    kept = ("eval_id", "suite", "target", "score", "verdict", "error", "candidate_answer", "cost_usd")
    return {key: row[key] for key in kept} | {"results": results}


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["eval_id"]))


def test_rows_are_the_same_on_nodes(shop: Project) -> None:
    here = shop.run("eval", "suite.yaml", "--run-dir", "here")
    there = shop.run("eval", "suite.yaml", "--run-dir", "there", "--on", "local:2")
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    rows = by_id(shop.rows(shop.root / "there"))
    assert [essence(row) for row in rows] == [essence(row) for row in by_id(shop.rows(shop.root / "here"))]
    assert [row["evaluator_results"][0]["judge_proxy"]["call_count"] for row in rows] == [3, 3, 3, 3]
    executions = [result["execution"] for row in rows for result in row["evaluator_results"]]
    executions += [row["execution"] for row in rows]
    assert {execution["node"] for execution in executions} == {"local-1", "local-2"}
    assert all(execution["tries"] == 1 for execution in executions)
    assert "scripts and commands run on 2 nodes of local:2" in there.stderr
    nodes = shop.manifest(shop.root / "there")["nodes"]
    assert nodes["on"] == "local:2"
    assert sorted(each["node"] for each in nodes["seen"]) == ["local-1", "local-2"]
    calls = (shop.root / "there/judge_calls.jsonl").read_text().splitlines()
    assert len(calls) == 12


def test_scripts_and_commands_with_on_driver_run_here(shop: Project) -> None:
    shop.write("agentv.config.yaml", CONFIG.replace("{provider: cli,", "{provider: cli, on: driver,"))
    shop.write("suite.yaml", SUITE.replace("name: short,", "name: short, on: driver,"))
    assert shop.run("eval", "suite.yaml", "--on", "local:1").returncode == 0
    for row in shop.rows():
        assert "execution" not in row
        helpful, short = row["evaluator_results"]
        assert (helpful["execution"]["node"], "execution" in short) == ("local-1", False)


def test_nodes_of_the_configuration_are_used_unless_on_says_none(shop: Project) -> None:
    shop.write("agentv.config.yaml", CONFIG + "nodes: {on: 'local:1', slots: 3, silence_seconds: 20}\n")
    done = shop.run("eval", "suite.yaml", "--run-dir", "there")
    assert "1 node of local:1, 3 jobs at a time" in done.stderr
    assert all("execution" in row for row in shop.rows(shop.root / "there"))
    assert shop.run("eval", "suite.yaml", "--run-dir", "here", "--on", "none").returncode == 0
    assert not any("execution" in row for row in shop.rows(shop.root / "here"))


CANARIES = {
    "OPENAI_API_KEY": "sk-c4nary-in-environment-1234",
    "DATABASE_URL": "c4nary-in-plain-variable-5678",
}
LOOK = """\
import json, os, sys
from pathlib import Path
payload = sys.stdin.read()
files = {str(p): p.read_text(errors="replace") for p in Path(".").rglob("*") if p.is_file()}
found = json.dumps([payload, files, dict(os.environ)])
print(json.dumps({"score": 1, "details": {"canaries": found.count("c4" + "nary"), "files": sorted(files)}}))
"""


@pytest.mark.parametrize("access", [True, False])
def test_keys_of_the_driver_never_reach_a_node(shop: Project, tmp_path: Path, access: bool) -> None:
    shop.write(".env", "FROM_DOTENV=c4nary-in-dotenv-9999\nSERVICE_TOKEN=c4nary-token-in-dotenv\n")
    shop.write("nested/.env.local", "X=c4nary")
    config = """\
    targets:
      app: {provider: cli, on: driver, command: [printenv, ECHOED], env: {ECHOED: "${{ OPENAI_API_KEY }}"}}
      real: {provider: openai, model: gpt-4o, api_key: "${{ OPENAI_API_KEY }}"}
      strict: {provider: mock, response: "yes"}
    defaults: {target: app, judge_target: strict}
    """
    shop.write("agentv.config.yaml", config)
    shop.write("look.py", LOOK)
    judge = ", judge: true" if access else ""
    shop.write(
        "suite.yaml",
        "evalcases: [{id: a, input: A?, evaluators: "
        f"[{{name: look, type: code_judge, script: [python, look.py]{judge}}}]}}]\n",
    )
    done = shop.run("eval", "suite.yaml", "--on", "local:1", env=CANARIES)
    assert done.returncode == 0, done.stderr
    (row,) = shop.rows()
    details = row["evaluator_results"][0]["details"]
    assert "look.py" in details["files"]
    assert not [name for name in details["files"] if ".env" in name]
    assert details["canaries"] == 0
    stored = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert stored
    assert not any(b"c4nary" in content for content in stored)


def test_commands_with_keys_need_send_secrets(shop: Project) -> None:
    key = 'env: {APP_KEY: "${{ APP_KEY }}"}'
    shop.write("app.py", "import os, sys\nopen(sys.argv[2], 'w').write(os.environ['APP_KEY'][:3])\n")
    env = {"APP_KEY": "abcdefgh12345678"}
    shop.write("agentv.config.yaml", CONFIG.replace("{provider: cli,", f"{{provider: cli, {key},"))
    refused = shop.run("eval", "suite.yaml", "--on", "local:1", env=env)
    assert refused.returncode == 2
    assert "it reads keys, which are not sent to the nodes" in refused.stderr
    assert "send_secrets: true" in refused.stderr
    shop.write("agentv.config.yaml", CONFIG.replace("{provider: cli,", f"{{provider: cli, send_secrets: true, {key},"))
    assert shop.run("eval", "suite.yaml", "--on", "local:1", env=env).returncode == 0
    assert {row["candidate_answer"] for row in shop.rows(shop.run_dirs()[-1])} == {"abc"}


def test_attached_files_and_programs_of_the_suite_are_found_on_nodes(shop: Project) -> None:
    shop.write("notes/a.txt", "attached text")
    shop.write("bin/tool", '#!/bin/sh\ncat "$1"; pwd\n').chmod(0o755)
    shop.write(
        "agentv.config.yaml",
        'targets: {app: {provider: cli, command: [bin/tool, "{FILES}"], cwd: notes}}\n',
    )
    shop.write(
        "suite.yaml",
        """\
        evalcases:
          - id: a
            input_messages: [{role: user, content: [{type: text, value: Read}, {type: file, value: notes/a.txt}]}]
            evaluators: [{type: contains, value: attached text}]
        """,
    )
    done = shop.run("eval", "suite.yaml", "--on", "local:1")
    assert done.returncode == 0, done.stderr + done.stdout
    (row,) = shop.rows()
    assert str(shop.root) not in row["candidate_answer"]


def test_repositories_that_are_too_large_are_refused_before_anything_is_called(shop: Project) -> None:
    shop.write("agentv.config.yaml", CONFIG + "nodes: {max_ship_mb: 0.01}\n")
    (shop.root / "big.bin").write_bytes(b"x" * 200_000)
    refused = shop.run("eval", "suite.yaml", "--on", "local:1")
    assert refused.returncode == 2
    assert "big.bin" in refused.stderr
    assert "max_ship_mb" in refused.stderr


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("nowhere:1", "--on must name nodes"),
        ("local:0", "a number of nodes from 1 to"),
        ("local", "--on must name nodes"),
        ("tcp:", "--on must name nodes"),
    ],
)
def test_wrong_addresses_are_refused(shop: Project, on: str, message: str) -> None:
    for command in (["eval", "suite.yaml"], ["nodes"]):
        refused = shop.run(*command, "--on", on)
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr


def test_errors_in_the_nodes_section_have_a_position(shop: Project) -> None:
    shop.write("agentv.config.yaml", CONFIG + "nodes:\n  slots: 0\n  silence: 3\n  tls: {ca: ca.pem}\n")
    refused = shop.run("validate", "suite.yaml")
    assert refused.returncode == 2
    assert "agentv.config.yaml:6:10:" in refused.stderr
    assert "unknown key `silence` (did you mean `silence_seconds`?)" in refused.stderr
    assert "`cert` is missing" in refused.stderr or "cert" in refused.stderr


def test_nodes_shows_the_handshake_of_each_node(shop: Project) -> None:
    shown = shop.run("nodes", "--on", "local:2")
    assert shown.returncode == 0, shown.stderr
    assert "local-1" in shown.stdout
    assert "ready" in shown.stdout
    listed = json.loads(shop.run("nodes", "--on", "local:2", "--json").stdout)
    assert [row["node"] for row in listed] == ["local-1", "local-2"]
    assert all(row["used"] and row["cpus"] >= 1 and row["free_bytes"] > 0 for row in listed)


def test_an_interrupted_run_ends_its_scripts_and_continues_elsewhere(shop: Project) -> None:
    shop.write(
        "judges/helpful.py",
        """\
        import os, time
        from pathlib import Path
        started = Path(os.environ["STARTED"])
        (started / str(os.getpid())).touch()
        while not (started / "go").exists():
            time.sleep(0.02)
        print('{"score": 1}')
        """,
    )
    started = shop.root.parent / "started"
    started.mkdir()
    script = SUITE.replace("judge: {max_calls: 5}", f"env: {{STARTED: '{started}'}}")
    shop.write("suite.yaml", script)
    running = shop.start("eval", "suite.yaml", "--on", "local:2", "--run-dir", "there")
    deadline = time.monotonic() + 60
    while len(list(started.iterdir())) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    pids = [int(path.name) for path in started.iterdir()]
    assert len(pids) == 4
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    (started / "go").touch()
    done = shop.run("eval", "--resume", "there", "--on", "local:1")
    assert done.returncode == 0, done.stderr
    assert sorted(row["eval_id"] for row in shop.rows(shop.root / "there")) == ["a", "b", "c", "d"]


def node_processes(driver: int) -> list[int]:
    """The pids of the node processes of a driver."""
    children = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, command in commands.items() if b"agentv.nodes.process" in command]


def test_scripts_of_a_killed_node_run_elsewhere_and_their_calls_count(shop: Project) -> None:
    shop.write(
        "judges/helpful.py",
        """\
        import os, time
        from pathlib import Path
        from agentv_eval import code_judge

        @code_judge
        def helpful(input, judge):
            judge.invoke(question=f"asked once by {input.eval_id}")
            started = Path(os.environ["STARTED"])
            (started / f"{input.eval_id}-{os.getpid()}").touch()
            while not (started / "go").exists():
                time.sleep(0.02)
            return 1.0
        """,
    )
    started = shop.root.parent / "started"
    started.mkdir()
    # Nothing but these four scripts runs on the nodes, which get them in turn: two each.
    suite = SUITE.replace("judge: {max_calls: 5}", f"judge: true, env: {{STARTED: '{started}'}}")
    shop.write("suite.yaml", suite.replace("name: short,", "name: short, on: driver,"))
    config = CONFIG.replace("{provider: cli,", "{provider: cli, on: driver,")
    shop.write("agentv.config.yaml", config + "nodes: {slots: 4}\n")
    running = shop.start("eval", "suite.yaml", "--on", "local:2", "--run-dir", "there")
    deadline = time.monotonic() + 60
    while len(list(started.iterdir())) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(node_processes(running.pid)[0], signal.SIGKILL)
    while len(list(started.iterdir())) < 5 and time.monotonic() < deadline:  # runs elsewhere, while the others wait
        time.sleep(0.02)
    (started / "go").touch()
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert "was lost" in errors

    rows = shop.rows(shop.root / "there")
    assert sorted(row["eval_id"] for row in rows) == ["a", "b", "c", "d"]
    executions = {row["eval_id"]: row["evaluator_results"][0]["execution"] for row in rows}
    again = {eval_id for eval_id, execution in executions.items() if execution["tries"] == 2}
    assert again
    assert all(executions[eval_id]["lost_calls"] == (eval_id in again) for eval_id in executions)
    calls = [json.loads(line) for line in (shop.root / "there/judge_calls.jsonl").read_text().splitlines()]
    assert len(calls) == 4 + len(again)
    assert {call["eval_id"] for call in calls if call.get("try") == 2} == again
    manifest = shop.manifest(shop.root / "there")
    assert manifest["budget"]["judge_calls"] == len(calls)
    assert manifest["summary"]["judge_calls"] == len(calls)


def test_other_packages_add_engines(shop: Project) -> None:
    folder = shop.root.parent / "packages"
    metadata = folder / "mine-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text("[agentv.engines]\nmine = mine:Engine\n")
    (folder / "mine.py").write_text(
        "from agentv.nodes.engines import EngineAddress\n"
        "from agentv.nodes.engines.local import LocalEngine\n\n\n"
        "def Engine(address):\n"
        "    return LocalEngine(EngineAddress(f'local:{len(address.rest)}', address.settings))\n"
    )
    running = shop.start("nodes", "--on", "mine:xyz", env={"PYTHONPATH": str(folder)})
    output, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert [name for name in ("local-1", "local-2", "local-3", "local-4") if name in output] == [
        "local-1",
        "local-2",
        "local-3",
    ]
