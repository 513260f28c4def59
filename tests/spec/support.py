"""Writes projects with judge scripts, runs them with the real command line, and reads the results."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from agentv.testing.model_server import FakeModelServer, Script
from tests.conftest import Project

KEY = "sk-Zq7vT2mW9xKc4RbN8pLd6YhJ3gFs5A"
"""The credential of agentv, which no script may see."""

KIT = '''\
import http.client, json, os, sys
URL = os.environ.get("AGENTV_JUDGE_PROXY_URL", "")
TOKEN = os.environ.get("AGENTV_JUDGE_PROXY_TOKEN", "")
PORT = int(URL.rpartition(":")[2] or 0)

def ask(path, body=None, *, method=None, headers=None):
    """Send one request; return the status and the JSON of the reply."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + TOKEN} if headers is None else headers
    connection.request(method or ("GET" if data is None else "POST"), path, data, headers)
    reply = connection.getresponse()
    content = json.loads(reply.read())
    connection.close()
    return [reply.status, content]

def invoke(question="Is it right?", **more):
    return ask("/invoke", {"question": question, **more})

def done(score=1.0, **details):
    print(json.dumps({"score": score, "details": details}))
'''


@dataclass(frozen=True)
class Ran:
    """A finished run of one suite."""

    process: subprocess.CompletedProcess[str]
    rows: list[dict[str, Any]]
    directory: Path | None = None

    @property
    def row(self) -> dict[str, Any]:
        assert len(self.rows) == 1, self.process.stderr
        return self.rows[0]

    @property
    def result(self) -> dict[str, Any]:
        """The result of the only evaluator of the only case."""
        (result,) = self.row["evaluator_results"]
        return dict(result)

    @property
    def details(self) -> dict[str, Any]:
        """The `details` of the script, which must have succeeded."""
        assert self.result["error"] is None, self.result["error"]
        return dict(self.result["details"])

    @property
    def failure(self) -> str:
        """The error of the evaluator. Checks everything that all failures have in common."""
        result, row = self.result, self.row
        assert (result["score"], result["verdict"], row["score"], row["verdict"]) == (0, "fail", 0, "fail")
        assert row["error"]["stage"] == "evaluator"
        assert (result["hits"], result["misses"], result["reasoning"], result["details"]) == ([], [], "", None)
        assert self.process.returncode == 3
        return str(result["error"])

    @property
    def ledger(self) -> dict[str, Any]:
        return dict(self.result["judge_proxy"])

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The lines of judge_calls.jsonl."""
        path = self.directory and self.directory / "judge_calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []

    @property
    def words(self) -> str:
        """Everything that was printed."""
        return self.process.stdout + self.process.stderr

    @property
    def files(self) -> str:
        """Everything that was written into the run's directory."""
        assert self.directory is not None
        files = [path for path in self.directory.rglob("*") if path.is_file()]
        assert files
        return "\n".join(path.read_bytes().decode("utf-8") for path in files)


def mock(response: str = "Paris", **more: Any) -> dict[str, Any]:
    return {"provider": "mock", "response": response, **more}


def model(server: FakeModelServer, **more: Any) -> dict[str, Any]:
    """A target that calls the fake model with the credential of agentv."""
    return {
        "provider": "openai_compatible",
        "model": "fake",
        "base_url": server.url,
        "api_key": "${{ MODEL_KEY }}",
        "max_retries": 0,
        **more,
    }


def models(server: FakeModelServer, *others: str) -> dict[str, Any]:
    """A scripted target `assistant`, and the fake model as the judge `strict` and under other names."""
    targets = {"assistant": mock(), "strict": model(server), **{name: model(server, model=name) for name in others}}
    return {"targets": targets, "defaults": {"target": "assistant", "judge_target": "strict"}}


def scripted(*, judge: Mapping[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """The same with scripted judges and no server."""
    targets = {"assistant": mock(), "strict": dict(judge or mock("strict says yes")), **others}
    return {"targets": targets, "defaults": {"target": "assistant", "judge_target": "strict"}}


@contextlib.asynccontextmanager
async def fake_model(reply: Script = "yes", **options: Any) -> AsyncIterator[FakeModelServer]:
    async with FakeModelServer(reply, api_key=KEY, **options) as server:
        yield server


def write(
    project: Project,
    script: str,
    options: Mapping[str, Any] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    cases: int = 1,
    execution: Mapping[str, Any] | None = None,
    case: Mapping[str, Any] | None = None,
) -> None:
    """Write a suite whose cases are judged by a Python script, which can use the functions of `KIT`."""
    kit = Path(project.root, "kit.py")
    kit.write_text(KIT)
    Path(project.root, "judge.py").write_text("from kit import *\n" + dedent(script))
    evaluator = {"name": "checker", "type": "code_judge", "script": ["python", "judge.py"], **(options or {})}
    write_suite(
        project,
        [{"id": f"case-{n}", "input": "The capital of France?", **(case or {})} for n in range(cases)],
        execution={"evaluators": [evaluator], **(execution or {})},
    )
    project.write("agentv.config.yaml", json.dumps(config or scripted(), ensure_ascii=False))


def write_suite(project: Project, cases: Iterable[Mapping[str, Any]], **head: Any) -> None:
    # JSON is valid YAML, and needs no quoting rules.
    project.write("suite.yaml", json.dumps({**head, "evalcases": list(cases)}, ensure_ascii=False))


def run(project: Project, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """Run the suite in a new run directory."""
    directory = project.root / f"run-{len(list(project.root.glob('run-*')))}"
    variables = {"MODEL_KEY": KEY, **(env or {})}
    process = project.run("eval", "suite.yaml", "--run-dir", directory.name, *arguments, env=variables)
    if not (directory / "results.jsonl").exists():
        return Ran(process, [])
    return Ran(process, project.rows(directory), directory)


async def judged(project: Project, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """Like `run`, in a thread, so that a server in the event loop of the test can answer."""
    return await asyncio.to_thread(run, project, *arguments, env=env)
