"""Runs a judge script of `judges/` in three situations: enough calls, a call too few, and a judge that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv.cli.judge.imports import UNWANTED
from agentv.testing.model_server import Failure, FakeModelServer, Scripted
from tests.conftest import Project
from tests.live.libraries.environments import CURRENT, FOLDER, NODE, interpreter, is_installed
from tests.live.servers import ANSWER, QUESTION

Script = Callable[[Any], Scripted]
KEY = "the-key-of-the-judge"
TOGETHER = 3
"""Number of times that a script computes its metric at the same time (`COUNT` in `judges/scenario.*`)."""
TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True)
class Library:
    """A judge script with one metric, and what its library does."""

    script: str
    reply: Script
    """What the judge replies to a request body."""
    score: float
    """What the metric makes of these replies, worked out by hand."""
    models: Mapping[str, int]
    """Requests per metric by the model that the library asks for."""
    environment: str = CURRENT
    needs: str = ""
    """The name in the table of libraries that need variables."""
    tries: int = 1
    """Requests until the library reports that a judge failed; 0 leaves this out."""
    refused: int = 1
    """Requests until the library reports that the limit is reached."""
    embeddings: int = 0
    """Requests for embeddings per metric."""

    @property
    def name(self) -> str:
        return self.script.removeprefix("judge_").replace(".mjs", "-node").removesuffix(".py")

    @property
    def calls(self) -> int:
        """Judge calls per metric."""
        return sum(self.models.values())


@dataclass(frozen=True)
class Outcome:
    """The results of the three cases by their id, and what the script wanted elsewhere."""

    results: Mapping[str, Mapping[str, Any]]
    asked: int
    """Requests to the judge that replies."""
    elsewhere: Sequence[str]
    everything: str
    """All output and all files of the run."""


def environment_of(library: Library, log: Path, home: Path) -> dict[str, str]:
    """The variables of the script: the documented ones, and the guard."""
    unwanted = UNWANTED.get(library.needs)
    guard = FOLDER / "guard"
    node = library.environment == NODE
    return {
        **(unwanted.variables if unwanted else {}),
        "GUARD_LOG": str(log),
        "HOME": str(home),
        **({"NODE_OPTIONS": f"--require {guard / 'guard.cjs'}"} if node else {"PYTHONPATH": str(guard)}),
    }


def suite_of(library: Library, environment: Mapping[str, str], *, warm: bool = False) -> dict[str, Any]:
    most = TOGETHER * max(library.calls, library.embeddings)
    access: Mapping[str, Mapping[str, Any]] = {
        "scored": {"max_calls": most, "embeddings": "vectors"},
        "limit": {"max_calls": most - 1, "embeddings": "vectors"},
        "failing": {"target": "broken", "timeout_seconds": TIMEOUT_SECONDS},
    }
    script = [str(interpreter(library.environment)), str(FOLDER / "judges" / library.script)]
    evaluator = {"name": "metric", "type": "code_judge", "env": dict(environment), "timeout_seconds": 90, "warm": warm}
    return {
        "evalcases": [
            {
                "id": name,
                "input": QUESTION,
                "evaluators": [
                    {**evaluator, "script": [*script, "failing" if name == "failing" else "parallel"], "judge": judge}
                ],
            }
            for name, judge in access.items()
            if library.tries or name != "failing"
        ]
    }


async def run(library: Library, project: Project, tmp_path: Path, *, warm: bool = False) -> Outcome:
    """Evaluate the three cases with `agentv eval`. Skips the test if the library is not installed."""
    if not is_installed(library.environment):
        pytest.skip(f"the libraries ({library.environment}) are not installed; run `make test-libraries`")
    log, home = tmp_path / "guard.log", tmp_path / "home"
    home.mkdir()
    async with (
        FakeModelServer(library.reply, api_key=KEY) as judge,
        FakeModelServer(Failure(hang=True), api_key=KEY, failures=[Failure(500)] * library.tries) as broken,
    ):
        compatible = {"provider": "openai_compatible", "model": "m", "api_key": "${{ JUDGE_KEY }}", "max_retries": 0}
        targets = {
            "assistant": {"provider": "mock", "response": ANSWER},
            "judge": {**compatible, "base_url": judge.url},
            "broken": {**compatible, "base_url": broken.url},
            "vectors": {**compatible, "provider": "embeddings", "base_url": judge.url},
        }
        defaults = {"target": "assistant", "judge_target": "judge"}
        project.write("agentv.config.yaml", json.dumps({"targets": targets, "defaults": defaults}))
        project.write("suite.yaml", json.dumps(suite_of(library, environment_of(library, log, home), warm=warm)))
        done = await asyncio.to_thread(project.run, "eval", "suite.yaml", "--workers", "3", env={"JUDGE_KEY": KEY})
    rows = {row["eval_id"]: row["evaluator_results"][0] for row in project.rows()}
    files = {file.name: file.read_text(encoding="utf-8") for file in project.run_dirs()[-1].iterdir()}
    return Outcome(
        rows,
        len(judge.requests),
        log.read_text().splitlines() if log.exists() else [],
        done.stdout + done.stderr + "".join(files.values()),
    )
