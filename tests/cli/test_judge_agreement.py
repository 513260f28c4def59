"""`agentv judge agreement`: verdicts of a run against labels of people, also of another run with the same answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentv.cli.program import program
from agentv.errors import AgentVError, UsageError
from agentv.record.human_labels import LabelValue, append_label, new_label
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseResult
from tests.report.rows import row


def record(root: Path, name: str, scores: Sequence[float]) -> list[CaseResult]:
    manifest = {"run_id": name, "cwd": str(root), "options": {}, "scripted": False, "status": "finished"}
    run = RunDirectory.create(root / ".agentv" / "runs" / name, manifest)
    rows = [row(f"case-{n}", score, candidate_answer=f"answer {n}") for n, score in enumerate(scores)]
    run.results.write_bytes(b"".join(map(encode_row, rows)))
    return rows


def label(root: Path, name: str, rows: Sequence[CaseResult], labels: Sequence[str], by: str = "ada") -> None:
    directory = RunDirectory.open(root / ".agentv" / "runs" / name)
    for case, said in zip(rows, labels, strict=True):
        append_label(directory, new_label(case.key, case.candidate_answer, LabelValue(said), by=by))


def agreement(*arguments: str) -> str:
    done = CliRunner().invoke(program, ["judge", "agreement", *arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value == 0
    return done.output


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


FIRST, SECOND = "20260101-000000-aaaaaaaaa", "20260102-000000-bbbbbbbbb"


def test_table_has_the_verdict_and_each_evaluator(project: Path) -> None:
    rows = record(project, FIRST, [1.0, 0.9, 0.2, 0.7])
    label(project, FIRST, rows, ["pass", "fail", "fail", "pass"])
    lines = agreement(FIRST).splitlines()
    assert lines[0].split("  ")[1:2] == ["JUDGE"]
    for line, name in zip(lines[1:3], ("verdict of the row", "accuracy"), strict=True):
        assert line.split() == [*name.split(), "4", "2", "(50%)", "15%", "to", "85%", "0.00", "1", "1"]
    assert lines[3:] == [
        "",
        "  Different verdicts",
        "  case-1 (assistant): labelled fail, the verdict is pass",
        "  case-3 (assistant): labelled pass, the verdict is not a pass",
    ]


def test_labels_of_another_run_count_for_the_same_answers(project: Path) -> None:
    rows = record(project, FIRST, [1.0, 0.1, 1.0])
    label(project, FIRST, rows, ["pass", "fail", "pass"])
    record(project, SECOND, [0.9, 0.8, 0.85])
    second = RunDirectory.open(project / ".agentv" / "runs" / SECOND)
    second.results.write_text(second.results.read_text().replace("answer 2", "another answer"))
    data = json.loads(agreement(SECOND, "--labels", FIRST, "--json"))
    assert (data["labels"]["labels"], data["labels"]["agree"], data["labels"]["wrongly_passed"]) == (2, 1, 1)
    assert [one["name"] for one in data["evaluators"]] == ["accuracy"]
    assert data["notes"] == ["1 label not used: the answer has changed since."]
    assert "1 label not used" in agreement("latest", "--labels", FIRST)


def test_people_are_compared_with_each_other(project: Path) -> None:
    rows = record(project, FIRST, [1.0, 0.1, 1.0])
    label(project, FIRST, rows, ["pass", "fail", "pass"])
    label(project, FIRST, rows, ["pass", "fail", "fail"], by="ben\x1b[31m")
    shown = agreement()
    assert "  ada and ben agree on 2 of 3 rows (kappa 0.40)." in shown.splitlines()
    assert "  1 row not used: as many people say pass as fail." in shown.splitlines()


def test_run_without_labels_says_how_to_get_some(project: Path) -> None:
    rows = record(project, FIRST, [1.0])
    with pytest.raises(UsageError, match="has no labels that can be compared") as refused:
        agreement(FIRST)
    assert "agentv view" in str(refused.value.next_step)
    label(project, FIRST, rows, ["unsure"])
    with pytest.raises(AgentVError, match="1 label not used: “unsure”"):
        agreement(FIRST)


def test_unknown_run_is_refused(project: Path) -> None:
    record(project, FIRST, [1.0])
    errors: list[Any] = []
    for arguments in (["nothing"], [FIRST, "--labels", "nothing"]):
        with pytest.raises(AgentVError) as refused:
            agreement(*arguments)
        errors.append(refused.value)
    assert all("nothing" in str(error) for error in errors)
