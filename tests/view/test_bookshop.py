"""The project that the other tests look at contains what they need."""

from __future__ import annotations

import json
from pathlib import Path

from tests.view.bookshop import Bookshop


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_runs_have_every_kind_of_result(rich_project: Bookshop) -> None:
    rows = [row for name in rich_project.runs for row in rich_project.rows(name)]
    assert {row["verdict"] for row in rows} == {"pass", "borderline", "fail"}
    assert {row["error"]["stage"] for row in rows if row["error"]} == {"target", "evaluator"}
    types = {result["type"] for row in rows for result in row["evaluator_results"]}
    assert types >= {"llm_judge", "rubric", "code_judge", "composite", "tool_trajectory", "latency", "contains"}
    assert {row["attempt"] for row in rich_project.rows("summaries")} == {1, 2, 3, 4}
    assert {row["target"] for row in rich_project.rows("two-models")} == {"assistant", "small"}


def test_runs_have_the_states_that_the_pages_show(rich_project: Bookshop) -> None:
    manifests = {
        name: json.loads((rich_project.directory(name) / "run.json").read_text()) for name in rich_project.runs
    }
    assert {manifest["status"] for manifest in manifests.values()} == {"finished", "out of budget"}
    judge = {
        name: next(d for p, d in m["digests"].items() if p.endswith("precision.py"))
        for name, m in manifests.items()
        if name != "summaries"
    }
    assert judge["first"] != judge["baseline"] == judge["new-prompt"]
    assert all(manifest["run_id"] == rich_project.runs[name] for name, manifest in manifests.items())
    assert len(lines(rich_project.directory("new-prompt") / "judge_calls.jsonl")) > 60
    assert {label["label"] for label in lines(rich_project.directory("new-prompt") / "labels.jsonl")} == {
        "pass",
        "fail",
        "unsure",
    }
