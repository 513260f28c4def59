"""`protocol: jsonl`: one process in any language judges many answers, each with its own judge access."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project

CASES = max(32, 4 * (os.cpu_count() or 1)) + 8
"""More cases than run concurrently, so that a process serves more than one."""
TYPESCRIPT = Path(__file__).parents[2] / "sdk" / "typescript" / "dist" / "index.js"
CONFIG = """\
targets:
  assistant: {provider: mock, response: Paris}
  strict: {provider: mock, response: "yes"}
defaults: {target: assistant, judge_target: strict}
"""
PYTHON = """\
import os
from agentv_eval import code_judge

tokens = []

@code_judge
def judge(case, judge):
    print("log of", case.eval_id)
    if case.eval_id == "case-2":
        raise ValueError("cannot judge this one")
    said = judge.invoke(question=case.question).raw_text
    tokens.append(os.environ["AGENTV_JUDGE_PROXY_TOKEN"])
    return {"score": 1 if said == "yes" else 0, "details": {"pid": os.getpid(), "judged": len(set(tokens))}}
"""
NODE = """\
import { defineCodeJudge } from "%s";

let judged = 0;
defineCodeJudge(async (input, judge) => {
  console.log("log of", input.evalId);
  if (input.evalId === "case-2") throw new Error("cannot judge this one");
  const said = (await judge.invoke({ question: input.question })).rawText;
  judged += 1;
  return { score: said === "yes" ? 1 : 0, details: { pid: process.pid, judged } };
});
"""
BASH = """\
#!/bin/bash
judged=0
while read -r line; do
  judged=$((judged + 1))
  case "$line" in
    *'"eval_id": "case-2"'*) echo '{"error": "cannot judge this one"}' ;;
    *) echo "{\\"score\\": 1, \\"details\\": {\\"pid\\": $$, \\"judged\\": $judged}}" ;;
  esac
done
"""


def evaluate(project: Project, script: str, access: str = "judge: true", cases: int = CASES) -> list[dict[str, Any]]:
    project.write("agentv.config.yaml", CONFIG)
    project.write(
        "suite.yaml",
        f"execution: {{evaluators: [{{name: j, type: code_judge, script: {script}, protocol: jsonl, {access}}}]}}\n"
        "evalcases:\n" + "".join(f'- {{id: case-{n}, input: "Where is {n}?"}}\n' for n in range(cases)),
    )
    done = project.run("eval", "suite.yaml", "--workers", "1")
    assert done.returncode in (0, 3), done.stdout + done.stderr
    rows = sorted(project.rows(), key=lambda row: int(row["eval_id"].split("-")[1]))
    return [row["evaluator_results"][0] for row in rows]


def check(results: list[dict[str, Any]]) -> None:
    failed = results.pop(2)
    assert (failed["score"], failed["verdict"]) == (0, "fail")
    assert "cannot judge this one" in failed["error"]
    assert [result["score"] for result in results] == [1] * (CASES - 1)
    assert len({result["details"]["pid"] for result in results}) < CASES - 1


def test_python_sdk_judge_runs_unchanged(project: Project) -> None:
    project.write("judge.py", PYTHON)
    results = evaluate(project, "[python, judge.py]")
    check(results)
    # Every execution has its own token.
    assert max(result["details"]["judged"] for result in results) > 1
    assert all(result["judge_proxy"]["call_count"] == 1 for result in results)


@pytest.mark.skipif(not shutil.which("node") or not TYPESCRIPT.exists(), reason="the TypeScript SDK is not built")
def test_typescript_sdk_judge_runs_unchanged(project: Project) -> None:
    project.write("judge.mjs", NODE % TYPESCRIPT.as_uri())
    results = evaluate(project, "[node, judge.mjs]")
    check(results)
    assert all(result["judge_proxy"]["call_count"] == 1 for result in results)


def test_judge_without_an_sdk_reads_and_prints_lines(project: Project) -> None:
    project.write("judge.sh", BASH)
    check(evaluate(project, "[bash, judge.sh]", "weight: 1"))


def test_token_is_rejected_in_another_execution(project: Project) -> None:
    project.write(
        "judge.py",
        "import json, sys, urllib.request, urllib.error\n"
        "old = None\n"
        "for line in sys.stdin:\n"
        "    access = json.loads(line)['judge_proxy']\n"
        "    status = None\n"
        "    if old is not None:\n"
        "        headers = {'Authorization': f'Bearer {old}'}\n"
        "        try:\n"
        "            request = urllib.request.Request(access['url'] + '/info', headers=headers)\n"
        "            status = urllib.request.urlopen(request).status\n"
        "        except urllib.error.HTTPError as error:\n"
        "            status = error.code\n"
        "    fresh, old = access['token'] != old, access['token']\n"
        "    score = 1 if fresh and status in (None, 401) else 0\n"
        "    print(json.dumps({'score': score, 'reasoning': str(status)}), flush=True)\n",
    )
    results = evaluate(project, "[python, judge.py]")
    assert {result["score"] for result in results} == {1}, results
    assert "401" in {result["reasoning"] for result in results}


def test_environment_contains_no_token_and_no_secret(project: Project) -> None:
    project.write(".env", "STRICT_KEY=secret-value-1234\n")
    project.write(
        "judge.py",
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    names = [n for n, v in os.environ.items() if n.startswith('AGENTV_JUDGE_PROXY') or 'secret-value' in v]\n"
        "    print(json.dumps({'score': 0 if names else 1, 'reasoning': str(names)}), flush=True)\n",
    )
    (result,) = evaluate(project, "[python, judge.py]", cases=1)
    assert (result["score"], result["reasoning"]) == (1, "[]")


def test_call_limit_fails_only_the_execution_that_exceeds_it(project: Project) -> None:
    project.write(
        "judge.py",
        "from agentv_eval import code_judge\n"
        "@code_judge\n"
        "def judge(case, judge):\n"
        "    for _ in range(2 if case.eval_id == 'case-1' else 1):\n"
        "        try: judge.invoke(question='x')\n"
        "        except Exception: pass\n"
        "    return 1\n",
    )
    results = evaluate(project, "[python, judge.py]", "judge: {max_calls: 1}", cases=3)
    assert [result["score"] for result in results] == [1, 0, 1]
    assert "judge call limit of 1" in results[1]["error"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("protocol: jsonl, warm: true", "cannot be combined"),
        ("protocol: jsonl, score_from_exit_code: true", "cannot be combined"),
        ("protocol: xml", "`json` or `jsonl`"),
        ("protcol: jsonl", "did you mean `protocol`?"),
    ],
)
def test_invalid_protocol_options_are_reported(project: Project, options: str, expected: str) -> None:
    entry = f"{{name: j, type: code_judge, script: [python, x.py], {options}}}"
    project.write("suite.yaml", f"evalcases: [{{id: a, input: x, evaluators: [{entry}]}}]\n")
    done = project.run("validate", "suite.yaml")
    assert done.returncode == 2
    assert expected in done.stderr


def test_judge_run_starts_the_script_for_one_line(project: Project) -> None:
    project.write("judge.py", PYTHON)
    evaluate(project, "[python, judge.py]", cases=1)
    done = project.run("judge", "run", "judge.py", "--suite", "suite.yaml", "--case", "case-0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.dumps("yes") in done.stdout or "yes" in done.stdout


@pytest.mark.parametrize("gap", ["", "sys.stdout.flush(); time.sleep(0.05)"], ids=["same write", "later"])
@pytest.mark.parametrize("mark", ["", "execution_id"])
def test_second_object_is_an_error_of_the_case(project: Project, gap: str, mark: str) -> None:
    project.write(
        "judge.py",
        "import json, sys, time\n"
        "for line in sys.stdin:\n"
        "    payload = json.loads(line)\n"
        f"    name = {{'execution_id': payload['execution_id']}} if {mark!r} else {{}}\n"
        "    sys.stdout.write(json.dumps({'score': 1, **name}) + '\\n')\n"
        f"    if payload['eval_id'] == 'case-1':\n        {gap or 'pass'}\n"
        "        sys.stdout.write(json.dumps({'score': 0, **name}) + '\\n')\n"
        "    sys.stdout.flush()\n",
    )
    results = evaluate(project, "[python, judge.py]", "judge: false", cases=4)
    assert [result["score"] for result in results] == [1, 0, 1, 1]
    assert "more than one JSON object" in results[1]["error"]
    assert [result["error"] for result in results if result is not results[1]] == [None] * 3
