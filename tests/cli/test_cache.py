"""`agentv eval --cache`: judge replies are cached, targets are always called."""

from __future__ import annotations

import json
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project

CONFIG = """\
targets:
  app: {provider: cli, command: [sh, -c, 'cat > /dev/null; echo app >> calls; echo Paris']}
  strict:
    provider: cli
    command: [sh, -c, 'cat > /dev/null; echo strict >> calls; echo "{\\"text\\": \\"yes\\", \\"cost_usd\\": 0.5}"']
defaults: {target: app, judge_target: strict}
"""
JUDGE = """\
from agentv_eval import code_judge


@code_judge
def friendly(input, judge):
    reply = judge.invoke(question=f"Is this friendly? {input.candidate_answer}", system_prompt="You are strict.")
    return {"score": 1 if reply.raw_text == "yes" else 0}
"""
SUITE = """\
evalcases:
  - id: france
    input: What is the capital of France?
    evaluators:
      - {name: friendly, type: code_judge, script: [python, judge.py], judge: {max_calls: 1}}
"""


@pytest.fixture
def judged(project: Project) -> Project:
    """A suite with one case and a judge command that writes a line to `calls`."""
    project.write("agentv.config.yaml", CONFIG)
    project.write("judge.py", JUDGE)
    project.write("suite.yaml", SUITE)
    return project


def calls(project: Project) -> list[str]:
    return (project.root / "calls").read_text().split()


def evaluate(project: Project, name: str, *options: str) -> dict[str, Any]:
    """Run the suite and return the ledger of its judge."""
    done = project.run("eval", "suite.yaml", "--run-dir", name, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = project.rows(project.root / name)
    proxy: dict[str, Any] = row["evaluator_results"][0]["judge_proxy"]
    return proxy


def call_record(project: Project, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((project.root / name / "judge_calls.jsonl").read_text())
    return record


def test_second_run_calls_the_target_but_not_the_cached_judge(judged: Project) -> None:
    first, second = evaluate(judged, "one", "--cache"), evaluate(judged, "two", "--cache")
    assert calls(judged) == ["app", "strict", "app"]
    assert (first["call_count"], first["cache_hits"], first["cost_usd"]) == (1, 0, 0.5)
    assert (second["call_count"], second["cache_hits"], second["cost_usd"]) == (1, 1, 0.0)
    assert [call_record(judged, name)["cache_hit"] for name in ("one", "two")] == [False, True]
    file = judged.root / ".agentv" / "cache" / "judge.sqlite"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_cache_is_neither_written_nor_read_without_the_option(judged: Project) -> None:
    evaluate(judged, "one")
    assert not (judged.root / ".agentv" / "cache").exists()
    evaluate(judged, "two", "--cache")
    assert evaluate(judged, "three")["cache_hits"] == 0
    assert calls(judged).count("strict") == 3


def test_deleting_the_directory_clears_the_cache(judged: Project) -> None:
    evaluate(judged, "one", "--cache")
    directory = judged.root / ".agentv" / "cache"
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    assert evaluate(judged, "two", "--cache")["cache_hits"] == 0


def test_cache_distinguishes_attempts(judged: Project) -> None:
    for name in ("one", "two"):
        done = judged.run("eval", "suite.yaml", "--run-dir", name, "--cache", "--repeat", "2")
        assert done.returncode == 0
    assert calls(judged).count("strict") == 2
    assert [row["evaluator_results"][0]["judge_proxy"]["cache_hits"] for row in judged.rows(judged.root / "two")] == [
        1,
        1,
    ]


def test_changed_judge_settings_miss_the_cache(judged: Project) -> None:
    evaluate(judged, "one", "--cache")
    judged.write("agentv.config.yaml", CONFIG.replace("echo strict", "echo changed"))
    assert evaluate(judged, "two", "--cache")["cache_hits"] == 0


def test_cache_hit_counts_against_max_calls(judged: Project) -> None:
    judged.write("judge.py", JUDGE.replace("    return", "    judge.invoke(question='one more')\n    return"))
    judged.write("suite.yaml", SUITE.replace("max_calls: 1", "max_calls: 2"))
    evaluate(judged, "one", "--cache")
    judged.write("suite.yaml", SUITE)
    done = judged.run("eval", "suite.yaml", "--run-dir", "two", "--cache")
    assert done.returncode == 3
    assert calls(judged).count("strict") == 2


def test_unusable_cache_file_only_prints_a_note(judged: Project) -> None:
    judged.write(".agentv/cache", "a file where the directory should be")
    done = judged.run("eval", "suite.yaml", "--cache")
    assert done.returncode == 0
    assert done.stderr.count("judge cache") == 1
    assert "is disabled" in done.stderr


def test_resumed_run_uses_the_cache_of_its_directory(judged: Project, tmp_path: Path) -> None:
    hang = "'if grep -q Spain && [ -e hang ]; then exec sleep 600; fi; echo Paris'"
    judged.write("agentv.config.yaml", CONFIG.replace("'cat > /dev/null; echo app >> calls; echo Paris'", hang))
    judged.write(
        "suite.yaml", SUITE + SUITE.removeprefix("evalcases:\n").replace("france", "spain").replace("France", "Spain")
    )
    assert judged.run("eval", "suite.yaml", "--run-dir", "one", "--cache").returncode == 0
    judged.write("hang", "")
    process = judged.start("eval", "suite.yaml", "--run-dir", "two", "--cache")
    results = judged.root / "two" / "results.jsonl"
    deadline = time.monotonic() + 30
    while not (results.exists() and results.read_bytes().count(b"\n") == 1):
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    (judged.root / "hang").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = judged.run("eval", "--resume", str(judged.root / "two"), cwd=elsewhere)
    assert done.returncode == 0, done.stdout + done.stderr
    ledgers = [row["evaluator_results"][0]["judge_proxy"] for row in judged.rows(judged.root / "two")]
    assert [ledger["cache_hits"] for ledger in ledgers] == [1, 1]
    assert calls(judged) == ["strict", "strict"]
    assert not (elsewhere / ".agentv").exists()


def test_valid_verdict_is_cached_and_invalid_reply_is_retried(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  assistant: {provider: mock, response: Paris}\n"
        "  strict: {provider: cli, command: [python, judge.py], judge_target: strict}\n"
        "defaults: {target: assistant, judge_target: strict}\n",
    )
    project.write(
        "judge.py",
        "import pathlib\n"
        "log = pathlib.Path('calls'); calls = int(log.read_text()) if log.exists() else 0\n"
        "log.write_text(str(calls + 1))\n"
        'print(\'{"score": 1}\' if calls >= 3 else "hm")\n',
    )
    project.write("suite.yaml", "evalcases: [{id: one, input: Where?}]\n")
    first = project.run("eval", "suite.yaml", "--cache", "--json")
    assert (first.returncode, (project.root / "calls").read_text()) == (3, "3")
    second = project.run("eval", "suite.yaml", "--cache", "--json")
    assert (second.returncode, (project.root / "calls").read_text()) == (0, "4"), second.stderr
    third = project.run("eval", "suite.yaml", "--cache", "--json")
    assert (third.returncode, (project.root / "calls").read_text()) == (0, "4")
    assert project.rows()[0]["evaluator_results"][0]["judge"]["cache_hits"] == 1
