"""Scripts that wait for a busy judge: their time does not pass, and the progress says what the run waits for."""

from __future__ import annotations

import json
import shutil
from typing import Any

from tests.conftest import Project
from tests.sdk_typescript.support import BUILT, SDK

HELD_SECONDS = 3.2
CONFIG = f"""\
targets:
  assistant: {{provider: mock, response: Paris}}
  gpt:
    provider: mock
    max_concurrency: 1
    response: "yes"
    delay_ms: 20
    rules: [{{match: holds the slot, response: '{{"score": 1, "reasoning": "good"}}', delay_ms: {HELD_SECONDS * 1000}}}]
defaults: {{target: assistant, judge_target: gpt}}
"""
SYNC = """\
from agentv_eval import create_judge_proxy_client, define_code_judge

def judge(input):
    with create_judge_proxy_client(timeout=1.0) as judge:
        replies = [judge.invoke(question=f"chunk {n}").raw_text for n in range(3)]
    return {"score": replies.count("yes") / 3}

define_code_judge(judge)
"""
BATCH = """\
import asyncio
from agentv_eval import create_async_judge_proxy_client, define_code_judge

async def judge(input):
    async with create_async_judge_proxy_client(timeout=1.0) as judge:
        batch = judge.invoke_batch([{"question": "chunk 2"}, {"question": "chunk 3"}])
        one, two = await asyncio.gather(judge.invoke(question="chunk 1"), batch)
    return {"score": [reply.raw_text for reply in [one, *two]].count("yes") / 3}

define_code_judge(lambda input: asyncio.run(judge(input)))
"""
TYPESCRIPT = f"""\
import {{ createJudgeProxyClient, defineCodeJudge }} from "file://{SDK}/dist/index.js";

await defineCodeJudge(async () => {{
  const judge = createJudgeProxyClient({{ timeoutMs: 1_000 }});
  const chunks = [1, 2, 3].map((n) => judge.invoke({{ question: `chunk ${{n}}` }}));
  const replies = await Promise.all(chunks);
  return {{ score: replies.filter((reply) => reply.rawText === "yes").length / 3 }};
}});
"""
SCRIPTS = {
    "sync": "script: [python, judges/sync.py]",
    "warm": "script: [python, judges/sync.py], warm: true",
    "lines": "script: [python, judges/lines.py], protocol: jsonl",
    "batch": "script: [python, judges/batch.py]",
    "node": "script: [node, judges/judge.mjs]",
}


def test_scripts_wait_for_a_judge_with_one_slot_without_timeouts(project: Project) -> None:
    scripts = dict(SCRIPTS)
    if shutil.which("node") is None or not BUILT.exists():
        del scripts["node"]
    files = {"sync.py": SYNC, "lines.py": SYNC, "batch.py": BATCH, "judge.mjs": TYPESCRIPT}
    for name, text in files.items():
        project.write(f"judges/{name}", text)
    project.write("agentv.config.yaml", CONFIG)
    first = "  - {id: first, input: q, evaluators: [{type: llm_judge, prompt: It holds the slot.}]}\n"
    others = "".join(
        f"  - {{id: {name}, input: q, evaluators: [{{name: asks, type: code_judge, {script}, judge: {{}}, "
        "timeout_seconds: 2.5}]}\n"
        for name, script in scripts.items()
    )
    project.write("suite.yaml", f"evalcases:\n{first}{others}")
    done = project.run("eval", "suite.yaml", "--workers", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "waiting for judge 'gpt' (1 at a time, " in done.stderr
    rows = {row["eval_id"]: row for row in project.rows()}
    assert {name: (row["score"], row["error"]) for name, row in rows.items()} == dict.fromkeys(rows, (1.0, None))
    calls = [json.loads(line) for line in (project.run_dirs()[-1] / "judge_calls.jsonl").read_text().splitlines()]
    by_case: dict[str, list[dict[str, Any]]] = {name: [c for c in calls if c["eval_id"] == name] for name in scripts}
    for made in by_case.values():
        assert len(made) == 3
        assert sum(call["waited_ms"] for call in made) > 1000 * (HELD_SECONDS - 2.5)
        assert max(call["duration_ms"] for call in made) < 1000


def test_duration_of_a_case_does_not_include_the_queue_of_its_target(project: Project) -> None:
    verdict = '{"score": 1, "reasoning": "good"}'
    rule = {"match": "holds the slot", "response": verdict, "delay_ms": 1500}
    target = {"provider": "mock", "response": "a", "max_concurrency": 1, "rules": [rule]}
    project.write("agentv.config.yaml", json.dumps({"targets": {"t": target}}))
    judge = "{type: llm_judge, prompt: It holds the slot.}"
    cases = "".join(f"  - {{id: c{n}, input: q, evaluators: [{judge}]}}\n" for n in range(4))
    project.write("suite.yaml", f"evalcases:\n{cases}")
    done = project.run("eval", "suite.yaml", "--workers", "2")  # a judge call takes the slot before the last answer
    assert done.returncode == 0, done.stderr
    assert max(row["duration_ms"] for row in project.rows()) < 1000
