"""Run examples with the real command line in a copy of the examples."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests import forked
from tests.conftest import AGENTV, TIMEOUT


@dataclass(frozen=True)
class Ran:
    """The exit code of a run, and its rows by case id."""

    code: int
    rows: dict[str, dict[str, Any]]

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """For each evaluator, the score of each case, to four digits."""
        found: dict[str, dict[str, float]] = {}
        for eval_id, row in sorted(self.rows.items()):
            for result in row["evaluator_results"]:
                found.setdefault(result["name"], {})[eval_id] = round(result["score"], 4)
        return found

    def result(self, eval_id: str, name: str | None = None) -> dict[str, Any]:
        """What one evaluator, or the only one, said of a case."""
        results: list[dict[str, Any]] = self.rows[eval_id]["evaluator_results"]
        (found,) = [result for result in results if name in (None, result["name"])]
        return found

    @property
    def results(self) -> list[dict[str, Any]]:
        return [result for row in self.rows.values() for result in row["evaluator_results"]]


def run(folder: Path, suite: str, *options: str) -> Ran:
    """Run `agentv eval examples/<suite>`."""
    out = folder / "rows.jsonl"
    arguments = ["eval", f"examples/{suite}", "--quiet", "--out", str(out), *options]
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    done = forked.run(arguments, folder, environment, "", TIMEOUT) or subprocess.run(
        [*AGENTV, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert out.exists(), done.stderr
    rows = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    return Ran(done.returncode, {row["eval_id"]: row for row in rows})


def put_target(folder: Path, example: str, name: str, **settings: Any) -> None:
    """Add a scripted target to the configuration of an example, replacing the one with the same name."""
    path = folder / "examples" / example / "agentv.config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["targets"][name] = {"provider": "mock", **settings}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
