"""More runs of the bookshop: answers that are mixed, then worse, and the summaries once more."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.view.bookshop import Bookshop
from tests.view.bookshop_cases import SUPPORT
from tests.view.opening import AGENTV, environment

RUNS = {
    "mixed": "20261116-090000-000000008",
    "worse": "20261117-090000-000000009",
    "again": "20261117-100000-00000000a",
}


def add_runs(project: Bookshop, root: Path) -> Bookshop:
    """A copy of the project, in which the assistants were changed twice."""
    shutil.copytree(project.root, root)
    _answer(root, [("good", "partly", "wrong", "good")[n % 4] for n in range(len(SUPPORT))])
    both = ("--target", "assistant", "--target", "small")
    _run(root, "mixed", "evals/support.yaml", *both)
    _answer(root, ["wrong"] * len(SUPPORT))
    _run(root, "worse", "evals/support.yaml")
    _run(root, "again", "evals/summaries.yaml", "--workers", "1")
    return Bookshop(root, {**project.runs, **RUNS})


def _answer(root: Path, qualities: list[str]) -> None:
    """Replace the answers to the questions of customers. The small assistant now answers all of them."""
    path = root / "answers.json"
    answers = json.loads(path.read_text(encoding="utf-8"))
    for topic, quality in zip(SUPPORT, qualities, strict=True):
        answers["assistant"][topic.id] = answers["small"][topic.id] = [{"text": topic.answer(quality)}]
    path.write_text(json.dumps(answers), encoding="utf-8")


def _run(root: Path, name: str, *arguments: str) -> None:
    place = root / ".agentv" / "runs" / RUNS[name]
    command = [*AGENTV, "eval", *arguments, "--name", name, "--quiet", "--run-dir", str(place)]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1, 3}, done.stderr
