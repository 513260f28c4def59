"""`agentv eval --replay RUN`: targets and judges are answered from the record of a run, without any model."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

import agentv
from agentv.errors import UsageError
from agentv.testing import FakeModelServer
from agentv.testing.model_server import Failure
from tests.conftest import Project

KEY = "sk-replay-0123456789abcdef"
PYTHON_JUDGE = """\
import json, sys
from agentv_eval import create_judge_proxy_client, define_code_judge

def judge(case):
    client = create_judge_proxy_client()
    replies = client.invoke_batch([{"question": f"PROMPT {word} about {case.candidate_answer}"} for word in "abab"])
    return {"score": sum("yes" in reply.raw_text for reply in replies) / 4, "hits": [r.raw_text for r in replies]}

define_code_judge(judge)
"""
BASH_JUDGE = """\
read -r payload
reply=$(curl -sS -H "Authorization: Bearer $AGENTV_JUDGE_PROXY_TOKEN" -d '{"question": "from bash"}' \\
  "$AGENTV_JUDGE_PROXY_URL/invoke")
case "$reply" in *yes*) echo '{"score": 1}' ;; *) echo '{"score": 0}' ;; esac
"""
NODE_JUDGE = """\
process.stdin.resume();
process.stdin.on("end", async () => {
  const response = await fetch(process.env.AGENTV_JUDGE_PROXY_URL + "/invoke", {
    method: "POST",
    headers: { Authorization: "Bearer " + process.env.AGENTV_JUDGE_PROXY_TOKEN },
    body: JSON.stringify({ question: "from node" }),
  });
  const reply = await response.json();
  console.log(JSON.stringify({ score: (reply.rawText || "").includes("yes") ? 1 : 0 }));
});
"""


class Model:
    """A model that answers and judges, and counts. Some of its replies depend on how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, body: Any) -> Any:
        self.calls += 1
        text = "\n".join(str(message["content"]) for message in body["messages"])
        if "overall_reasoning" in text:
            return json.dumps(
                {"checks": [{"id": "r1", "satisfied": True, "reasoning": "ok"}], "overall_reasoning": "x"}
            )
        if '"score"' in text:
            return json.dumps({"score": 0.9, "hits": [], "misses": [], "reasoning": "fine"})
        if "PROMPT" in text or "from " in text:
            return f"yes {self.calls}"
        if "FAIL" in text:
            return Failure(400)
        return f"ANSWER {self.calls}"


@pytest.fixture
def judged(project: Project) -> Project:
    project.write("judge.py", PYTHON_JUDGE)
    project.write("judge.sh", BASH_JUDGE)
    project.write("judge.mjs", NODE_JUDGE)
    scripts = [f"{{name: python, type: code_judge, script: ['{sys.executable}', judge.py], judge: {{}}}}"]
    if shutil.which("curl"):
        scripts.append("{name: bash, type: code_judge, script: [bash, judge.sh], judge: {}}")
    if shutil.which("node"):
        scripts.append("{name: node, type: code_judge, script: [node, judge.mjs], judge: {}}")
    project.write(
        "suite.yaml",
        "execution:\n  evaluators:\n"
        "    - {name: graded, type: llm_judge}\n"
        "    - {name: listed, type: rubric, rubrics: [{id: r1, description: names a city}]}\n"
        "evalcases:\n"
        f"  - {{id: one, input: Question one, expected_outcome: x, evaluators+: [{', '.join(scripts)}]}}\n"
        "  - {id: two, input: Question two, expected_outcome: y}\n"
        "  - {id: broken, input: FAIL, expected_outcome: z, evaluators: [{type: contains, value: x}]}\n",
    )
    return project


def configure(project: Project, url: str) -> None:
    project.write(
        "agentv.config.yaml",
        f"""\
        targets:
          assistant:
            provider: openai
            model: gpt-4o-mini
            base_url: {url}
            api_key: ${{{{ REPLAY_TEST_KEY }}}}
            max_retries: 0
        """,
    )


def record(project: Project, directory: str) -> subprocess.CompletedProcess[str]:
    return project.run("eval", "suite.yaml", "--run-dir", directory, env={"REPLAY_TEST_KEY": KEY})


def verdicts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        row["eval_id"]: (
            row["score"],
            row["candidate_answer"],
            row["error"],
            [(result["name"], result["score"], result["error"], result["hits"]) for result in row["evaluator_results"]],
        )
        for row in rows
    }


async def test_recorded_run_is_replayed_without_model_or_key(judged: Project):
    model = Model()
    async with FakeModelServer(model, api_key=KEY) as server:
        configure(judged, server.url)
        recorded = await asyncio.to_thread(record, judged, "recorded/run1")
    assert recorded.returncode == 3, recorded.stderr  # only the case whose target fails
    calls, first = model.calls, verdicts(judged.rows(judged.root / "recorded/run1"))
    assert first["one"][0] > 0.8

    # The server is gone, and so is the key. A copied directory can be replayed as well.
    shutil.copytree(judged.root / "recorded", judged.root / "tests" / "recorded")
    done = judged.run("eval", "suite.yaml", "--replay", "tests/recorded/run1")
    assert done.returncode == 3, done.stderr
    assert model.calls == calls
    rows, manifest = judged.rows(), judged.manifest()
    summary = manifest["summary"]
    assert verdicts(rows) == first
    run_id = judged.manifest(judged.root / "recorded/run1")["run_id"]
    assert {row["replayed"] for row in rows} == {run_id} == {summary["replayed"], manifest["replayed"]["run_id"]}
    assert {len(sha) for sha in manifest["replayed"]["sha256"].values()} == {64}
    assert (summary["cost_usd"], summary["judge_cost_usd"]) == (0.0, 0.0)
    assert {row["cost_usd"] for row in rows} == {0.0}
    judge_calls = (judged.run_dirs()[-1] / "judge_calls.jsonl").read_text(encoding="utf-8")
    assert all(json.loads(line)["replayed"] for line in judge_calls.splitlines())
    assert f"replayed: answers and judge replies come from run {run_id}" in " ".join(done.stdout.split())

    assert "replayed" in judged.run("runs").stdout
    trend = judged.run("trend", "--suite", "suite").stdout
    assert f"it replays run {run_id} and measures nothing new" in " ".join(trend.split())

    # A run that was interrupted continues from the same record; a replayed run can be replayed, too.
    results = judged.run_dirs()[0] / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(line for line in lines if b'"eval_id":"two"' not in line))
    resumed = judged.run("eval", "--resume", judged.run_dirs()[0].name, "--quiet")
    assert resumed.returncode == 3, resumed.stderr
    assert verdicts(judged.rows(judged.run_dirs()[0])) == first
    run = await agentv.evaluate_async(
        judged.root / "suite.yaml", case="two", replay=judged.run_dirs()[0], run_dir=judged.root / "r3"
    )
    assert verdicts([json.loads(json.dumps(row.to_dict())) for row in run]) == {"two": first["two"]}
    (judged.root / "tests/recorded/run1/judge_calls.jsonl").write_text("", encoding="utf-8")
    changed = judged.run("eval", "--resume", judged.run_dirs()[0].name)
    assert changed.returncode == 2
    assert "judge_calls.jsonl has changed" in changed.stderr


async def test_request_that_is_not_recorded_is_an_error_with_the_nearest_one(judged: Project):
    async with FakeModelServer(Model(), api_key=KEY) as server:
        configure(judged, server.url)
        await asyncio.to_thread(record, judged, "run1")
    # The script hides the error of its judge call; the evaluator errors nevertheless.
    hiding = PYTHON_JUDGE.replace("PROMPT", "CHANGED").replace("return {", "return {'score': 1.0} if True else {")
    judged.write("judge.py", hiding)
    suite = (judged.root / "suite.yaml").read_text(encoding="utf-8")
    added = "  - {id: new, input: Question one, expected_outcome: x}\n"
    judged.write("suite.yaml", suite.replace("Question two", "Question 2") + added)
    done = judged.run("eval", "suite.yaml", "--replay", "run1", "--quiet")
    assert done.returncode == 3, done.stderr
    rows = {row["eval_id"]: row for row in judged.rows()}
    assert "has no row of case 'new'" in rows["new"]["error"]["message"]
    assert "its input differs in line 1: recorded 'Question two', now 'Question 2'" in rows["two"]["error"]["message"]
    results = {result["name"]: result for result in rows["one"]["evaluator_results"]}
    python = results.pop("python")
    assert "The nearest recorded request is call" in python["error"]
    difference = r"its question differs in line 1: recorded 'PROMPT [ab] about ANSWER \d+', now 'CHANGED [ab] about"
    assert re.search(difference, python["error"])
    assert {result["error"] for result in results.values()} == {None}


def test_run_without_judge_replies_cannot_be_replayed(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(project.root)
    project.write("agentv.config.yaml", "targets:\n  a: {provider: mock, response: '{\"score\": 1}'}\n")
    project.write("judged.yaml", "evalcases: [{id: x, input: Q, evaluators: [{type: llm_judge}]}]\n")
    project.write("plain.yaml", "evalcases: [{id: x, input: Q, evaluators: [{type: contains, value: '1'}]}]\n")
    agentv.evaluate("judged.yaml", judge_io="none", run_dir="run1")
    with pytest.raises(UsageError, match="recorded with --judge-io none"):
        agentv.evaluate("judged.yaml", replay="run1")
    (row,) = agentv.evaluate("plain.yaml", replay="run1")  # needs no judge, but has another name
    assert row.error is not None
    assert "has no row of case 'x' in suite 'plain', only in `judged`" in row.error.message
    project.write("plain.yaml", "dataset: judged\nevalcases: [{id: x, input: Q, evaluators: [{type: is_json}]}]\n")
    (row,) = agentv.evaluate("plain.yaml", replay="run1")
    assert (row.score, row.replayed) == (1.0, project.manifest(project.root / "run1")["run_id"])
