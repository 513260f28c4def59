"""Runs a judge script of `judges/` with enough calls, with one too few, and with a judge that fails."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentv.cli.judge.imports import UNWANTED
from agentv.testing.model_server import Failure, FakeModelServer, Scripted
from tests.conftest import Project
from tests.live.libraries.environments import CURRENT, FOLDER, NODE, folder_of, interpreter, is_installed
from tests.live.servers import ANSWER, QUESTION

Script = Callable[[Any], Scripted]
KEY = "the-key-of-the-judge"
TOGETHER = 3
"""Number of times that a script computes its metric at the same time (`COUNT` in `judges/scenario.*`)."""
TIMEOUT_SECONDS = 1.0
WARM = ("warm", "limit", "failing")


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
    unwanted: frozenset[str] = frozenset()
    """What the library reads or contacts without the variables that `needs` stands for."""
    around: Mapping[str, str] = field(default_factory=dict)
    """Variables that agentv is started with."""

    @property
    def name(self) -> str:
        return self.script.removeprefix("judge_").replace(".mjs", "-node").removesuffix(".py")

    @property
    def calls(self) -> int:
        """Judge calls per metric."""
        return sum(self.models.values())


@dataclass(frozen=True)
class Outcome:
    """The results of the cases by their id, and what the script wanted elsewhere."""

    results: Mapping[str, Mapping[str, Any]]
    asked: int
    """Requests to the judge that replies."""
    elsewhere: Set[str]
    unwanted: Set[str]
    """The same without the variables that the library needs."""
    everything: str
    """All output and all files of the run."""


def environment_of(library: Library, project: Project) -> dict[str, str]:
    """The variables of the script: the documented ones, the guard, and a directory with the libraries.

    That directory is in the project, like a virtual environment: litellm looks for `.env` files from there upwards.
    """
    documented = UNWANTED[library.needs].variables if library.needs else {}
    guard, home, packages = FOLDER / "guard", project.root / "home", project.root / "packages"
    home.mkdir()
    common = {**documented, "GUARD_LOG": str(project.root / "guard.log"), "HOME": str(home)}
    if library.environment == NODE:
        return {**common, "NODE_OPTIONS": f"--require {guard / 'guard.cjs'}"}
    (installed,) = folder_of(library.environment).glob("lib/python*/site-packages")
    packages.symlink_to(installed)
    return {**common, "PYTHONPATH": f"{guard}{os.pathsep}{packages}"}


def suite_of(library: Library, environment: Mapping[str, str]) -> dict[str, Any]:
    """A case for each situation. Those in `WARM` are forked from one process, which imports the library once."""
    most = TOGETHER * max(library.calls, library.embeddings)
    enough = {"max_calls": most, "embeddings": "vectors"}
    access: dict[str, Mapping[str, Any]] = {"scored": enough, "limit": {**enough, "max_calls": most - 1}}
    if library.environment != NODE:
        access["warm"] = enough
    if library.tries:
        access["failing"] = {"target": "broken", "timeout_seconds": TIMEOUT_SECONDS}
    if library.unwanted:
        access["unwanted"] = enough
    documented = UNWANTED[library.needs].variables if library.needs else {}
    bare = {name: value for name, value in environment.items() if name not in documented}
    environments = {"unwanted": {**bare, "GUARD_LOG": f"{environment['GUARD_LOG']}.unwanted"}}
    script = [str(interpreter(library.environment)), str(FOLDER / "judges" / library.script)]
    return {
        "evalcases": [
            {
                "id": name,
                "input": QUESTION,
                "metadata": {"mode": "failing" if name == "failing" else "parallel"},
                "evaluators": [
                    {
                        "name": "metric",
                        "type": "code_judge",
                        "script": script,
                        "env": environments.get(name, environment),
                        "timeout_seconds": 90,
                        "warm": name in WARM and library.environment != NODE,
                        "judge": judge,
                    }
                ],
            }
            for name, judge in access.items()
        ]
    }


async def run(library: Library, project: Project) -> Outcome:
    """Evaluate the cases with `agentv eval`. Skips the test if the library is not installed."""
    if not is_installed(library.environment):
        pytest.skip(f"the libraries ({library.environment}) are not installed; run `make test-libraries`")
    project.write(".env", "NOT_FOR_SCRIPTS=1")
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
        project.write("suite.yaml", json.dumps(suite_of(library, environment_of(library, project))))
        command = ("eval", "suite.yaml", "--workers", "4")
        done = await asyncio.to_thread(project.run, *command, env={"JUDGE_KEY": KEY, **library.around})
    rows = {row["eval_id"]: row["evaluator_results"][0] for row in project.rows()}
    files = {file.name: file.read_text(encoding="utf-8") for file in project.run_dirs()[-1].iterdir()}
    return Outcome(
        rows,
        len(judge.requests),
        noted(project.root / "guard.log"),
        noted(project.root / "guard.log.unwanted") if library.unwanted else set(),
        done.stdout + done.stderr + "".join(files.values()),
    )


def noted(log: Path) -> Set[str]:
    """What the guard wrote down."""
    lines = set(log.read_text(encoding="utf-8").splitlines())
    lines.remove("guarded")  # it was there
    return lines
