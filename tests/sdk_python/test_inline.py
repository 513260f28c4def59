"""`python -m agentv_eval.inline`: the process that runs one-line checks, without agentv."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.sdk_python.support import SDK


def served(folder: Path, *payloads: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The results of these payloads, and stderr."""
    lines = "".join(f"{json.dumps(payload)}\n" for payload in payloads)
    environment = {**os.environ, "PYTHONPATH": str(SDK / "src"), "AGENTV_JUDGE_PROTOCOL": "jsonl"}
    command = [sys.executable, "-P", "-m", "agentv_eval.inline"]
    done = subprocess.run(command, input=lines, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def payload(number: int, **check: Any) -> dict[str, Any]:
    return {
        "execution_id": f"id-{number}",
        "candidate_answer": "Paris",
        "check": {"label": "`x`", "threshold": 0.8, **check},
    }


def test_each_line_gets_a_result_with_its_id(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')\n")
    (tmp_path / "checks.py").write_text("def f(answer):\n    print('{}')\n    return answer == 'Paris'\n")
    results, stderr = served(
        tmp_path,
        payload(1, source="answer == 'Paris'"),
        payload(2, source="seen = 1\nreturn 'x' in globals()"),
        payload(3, source="1 / 0"),
        payload(4, file=str(tmp_path / "checks.py"), function="f"),
        payload(5, module="checks", function="f"),
    )
    assert [result["execution_id"] for result in results] == [f"id-{n}" for n in range(1, 6)]
    assert [result.get("score") for result in results] == [1, 0, None, 1, 1]
    assert results[0]["hits"] == ["`x` is true"]
    assert results[2]["error"] == "ZeroDivisionError: division by zero at value, line 1"
    assert stderr.splitlines() == ["{}", "{}"]


def test_token_is_only_in_the_environment_of_its_execution(tmp_path: Path) -> None:
    access = {"url": "http://127.0.0.1:1", "token": "t0ken"}
    source = "import os\nreturn os.environ.get('AGENTV_JUDGE_PROXY_TOKEN') == 't0ken'"
    first, second = payload(1, source=source), payload(2, source=source)
    results, _ = served(tmp_path, {**first, "judge_proxy": access}, second)
    assert [result["score"] for result in results] == [1, 0]
