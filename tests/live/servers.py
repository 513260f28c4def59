"""Third-party model servers, started on a free local port."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "node_modules" / "@copilotkit" / "aimock"
START_SECONDS = 60.0
QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
UNKNOWN = "I do not know."
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
"""The token usage that aimock reports, in the format of each API."""


@dataclass(frozen=True)
class LiveServer:
    """A running server and its address."""

    name: str
    url: str
    pid: int


@contextmanager
def started(
    name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[LiveServer]:
    """Run the server for the duration of the context. Its address is read from its log."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(env or {})}
        )
    try:
        yield LiveServer(name, _address(process, log), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    over = time.monotonic() + START_SECONDS
    while time.monotonic() < over:
        said = log.read_text(errors="replace")
        if found := re.search(r"(?:running|listening) on (http://127\.0\.0\.1:\d+)", said):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')}")


@contextmanager
def aimock(folder: Path) -> Iterator[LiveServer]:
    """`@copilotkit/aimock` from npm: chat completions, responses, Claude, Gemini, Bedrock, Ollama, Azure."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed; `@copilotkit/aimock` needs them")
    if not PACKAGE.is_dir():
        pytest.skip(f"{PACKAGE} is missing: `make test` installs it where npm is, or run `npm ci` in tests/live")
    fixtures = folder / "fixtures.json"
    fixtures.write_text(
        json.dumps(
            {
                "fixtures": [
                    {"match": {"userMessage": "capital of France"}, "response": {"content": ANSWER, "usage": USAGE}},
                    {"match": {"userMessage": "Is it right"}, "response": {"content": "yes"}},
                    {"match": {}, "response": {"content": UNKNOWN}},
                ]
            }
        )
    )
    command = [node, str(PACKAGE / "dist" / "cli.js"), "-p", "0", "-f", str(fixtures)]
    with started("aimock", command, log=folder / "aimock.log") as server:
        yield server


@contextmanager
def mockllm(folder: Path) -> Iterator[LiveServer]:
    """`mockllm` from PyPI: chat completions and Claude."""
    responses = folder / "responses.yml"
    replies = {QUESTION: ANSWER, "Is it right?": "yes"}
    responses.write_text(json.dumps({"responses": replies, "defaults": {"unknown_response": UNKNOWN}}))
    command = [sys.executable, "-m", "uvicorn", "mockllm.server:app", "--host", "127.0.0.1", "--port", "0"]
    # It downloads a tokenizer and falls back to counting words. A dead proxy ensures that it always counts words.
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    env = {"MOCKLLM_RESPONSES_FILE": str(responses), **nowhere}
    with started("mockllm", command, log=folder / "mockllm.log", env=env) as server:
        yield server
