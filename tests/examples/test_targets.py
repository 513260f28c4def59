"""The example with an HTTP API and a Python function runs offline, against its own server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("target", ["function", "api", "stream"])
def test_every_target_answers_like_the_application(folder: Path, target: str) -> None:
    example = folder / "examples" / "http-and-python-targets"
    command = [sys.executable, "server.py", "0"]
    with subprocess.Popen(command, cwd=example, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().split()[-1]
            done = subprocess.run(
                [sys.executable, "-m", "agentv", "eval", str(example / "suite.yaml"), "--target", target, "--json"],
                cwd=folder,
                env={**os.environ, "PORT": port},
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
            )
        finally:
            server.terminate()
    assert done.returncode == 0, done.stdout + done.stderr
    results = Path(json.loads(done.stdout)["run_dir"], "results.jsonl")
    rows = [json.loads(row) for row in results.read_text("utf-8").splitlines()]
    assert sorted(row["candidate_answer"].strip() for row in rows) == [
        "I do not know. Please ask our staff.",
        "Shipping takes 3 days and is free from 30 euros.",
        "You can return a book within 30 days.",
    ]
    if target != "stream":
        assert all(row["token_usage"]["output"] > 0 for row in rows)
