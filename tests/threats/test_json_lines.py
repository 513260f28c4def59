"""Scripts with `protocol: jsonl` that print too much, too late or too often: no wrong result, and no blocked run."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

from tests.conftest import Project
from tests.spec.support import run, scripted, write
from tests.threats.heartbeat import Heartbeat

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes serve several executions on Linux only")

SERVING = """\
import json, os, subprocess, sys
RESULT = b'{"score": 1}\\n'
def put(data):
    while data:
        data = data[os.write(1, data):]
for line in sys.stdin:
    case = json.loads(line)["eval_id"]
    if case == "case-1":
        HOSTILE
    else:
        put(b'{"score": 0.5}\\n')
"""
HOSTILE = {
    "lines of braces": (r"put(b'{\n' * 1_000_000 + RESULT)", None),
    "lines that are almost objects": (
        r"""put(b'{"score": 1, "x": [1\n' * 30_000 + RESULT)""",
        "too many lines that look like JSON",
    ),
    "one long object": (r"""put(b'{"score": 1, "x": [' + b'1,' * 1_000_000 + b'1]}\n')""", None),
    "two long objects": (
        r"""put((b'{"score": 1, "reasoning": "' + b'x' * 1_000_000 + b'"}\n') * 2)""",
        "more than one JSON object",
    ),
    "deep objects": (r"""put((b'{"a":' * 30_000 + b'\n') * 20 + RESULT)""", None),
    "result after closing stdin": ("put(RESULT); os.close(0); put(RESULT); os._exit(0)", "more than one JSON object"),
    "crash after the result": ("put(RESULT); os.abort()", "SIGABRT"),
    "result of a child": (
        """put(RESULT); subprocess.run(["sh", "-c", 'sleep 0.05; echo "$0"', RESULT.decode()])""",
        "more than one JSON object",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_output_neither_blocks_the_run_nor_becomes_another_result(
    project: Project, heartbeat: Heartbeat, kind: str
) -> None:
    hostile, error = HOSTILE[kind]
    write(project, "", {"protocol": "jsonl"}, config=scripted(), cases=4)
    Path(project.root, "judge.py").write_text(SERVING.replace("HOSTILE", hostile))
    ran = run(project, "--workers", "1", env=heartbeat.env)
    results = {row["eval_id"]: row["evaluator_results"][0] for row in ran.rows}
    named = results.pop("case-1")
    assert [result["score"] for result in results.values()] == [0.5] * 3, ran.words
    assert (named["error"] is None) == (error is None), named["error"]
    assert named["score"] == (1 if error is None else 0)
    assert (error or "") in (named["error"] or "")
    heartbeat.assert_steady()


RANDOM = """\
import json, os, random, sys, threading, time
for line in sys.stdin:
    case = json.loads(line)
    own = {"score": 1, "details": {"case": case["eval_id"]}, "execution_id": case["execution_id"]}
    chance = random.Random(case["eval_id"])
    kind = chance.choice(["one", "one", "two", "later", "thread"])
    os.write(1, json.dumps(own).encode() + b"\\n")
    if kind == "later":
        time.sleep(chance.random() / 50)
    if kind == "thread":
        threading.Timer(chance.random() / 20, os.write, (1, json.dumps(own).encode() + b"\\n")).start()
    elif kind != "one":
        os.write(1, b'{"score": 0}\\n')
"""


@pytest.mark.soak
def test_results_never_move_to_another_case(project: Project) -> None:
    cases = 1000
    write(project, "", {"protocol": "jsonl"}, config=scripted(), cases=cases)
    Path(project.root, "judge.py").write_text(RANDOM)
    ran = run(project)
    assert len(ran.rows) == cases
    for row in ran.rows:
        (result,) = row["evaluator_results"]
        chosen = Random(row["eval_id"]).choice(["one", "one", "two", "later", "thread"])
        if chosen in ("two", "later") or (chosen == "thread" and result["error"]):  # or it came after the execution
            assert "more than one JSON object" in result["error"]
        else:
            assert (result["error"], result["details"]) == (None, {"case": row["eval_id"]})
