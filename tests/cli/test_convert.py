"""`agentv convert`: complete YAML and CSV output, and no overwritten files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.report.export import csv_rows, yaml_rows
from agentv.report.joined import JoinedRun
from agentv.report.row_source import RowSource
from tests.conftest import Project
from tests.report.rows import error_row, result, row
from tests.report.sources import HOSTILE, write_rows

ROWS = [row("a", candidate_answer="one\ntwo\n"), row("b", 0.1, misses=("names Lyon",)), error_row("c", "down")]


def test_yaml_has_one_document_per_row(project: Project):
    path = write_rows(project.root / "rows.jsonl", ROWS)
    done = project.run("convert", "rows.jsonl")
    assert (done.returncode, done.stdout) == (0, f"wrote {project.root / 'rows.yaml'}\n")
    text = (project.root / "rows.yaml").read_text(encoding="utf-8")
    assert text.startswith("---\nrun_id: r1\neval_id: a\n")
    assert "candidate_answer: |\n  one\n  two\n" in text
    assert list(yaml.safe_load_all(text)) == [json.loads(line) for line in path.read_text().splitlines()]


def test_csv_has_one_line_per_row_and_one_column_per_evaluator(project: Project):
    write_rows(project.root / "rows.jsonl", ROWS)
    done = project.run("convert", "rows.jsonl", "--to", "csv", "--out", "-")
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [line["eval_id"] for line in lines] == ["a", "b", "c"]
    assert [line["score: accuracy"] for line in lines] == ["1.0", "0.1", ""]
    assert [(line["score"], line["error"]) for line in lines] == [("1.0", ""), ("0.1", ""), ("", "down")]
    assert lines[0]["candidate_answer"] == "one\ntwo\n"


def test_format_follows_the_suffix_of_out_and_runs_are_accepted(capitals: Project):
    capitals.run("eval", "capitals.yaml", "--quiet")
    assert capitals.run("convert", capitals.run_dirs()[-1].name, "-o", "rows.csv").returncode == 0
    assert (capitals.root / "rows.csv").read_text().startswith("run_id,suite,eval_id,target,attempt,score,verdict,")


@pytest.mark.parametrize("name", ["rows.pdf", "rows.json", "rows"])
def test_unknown_suffix_is_rejected_without_to(project: Project, name: str):
    write_rows(project.root / "rows.jsonl", ROWS)
    done = project.run("convert", "rows.jsonl", "-o", name)
    assert done.returncode == 2
    assert f"--out {name}: cannot infer the format" in done.stderr
    assert ".yaml, .yml, .csv, .parquet, .jsonl" in done.stderr
    assert not (project.root / name).exists()
    assert project.run("convert", "rows.jsonl", "-o", name, "--to", "csv").returncode == 0
    assert (project.root / name).read_text().startswith("run_id,suite,")


def test_existing_file_is_not_overwritten_without_force(project: Project):
    write_rows(project.root / "rows.jsonl", ROWS)
    project.write("rows.yaml", "mine\n")
    done = project.run("convert", "rows.jsonl")
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (project.root / "rows.yaml").read_text() == "mine\n"
    assert project.run("convert", "rows.jsonl", "--force").returncode == 0
    assert (project.root / "rows.yaml").read_text() != "mine\n"


def test_input_file_cannot_be_the_output(project: Project):
    path = write_rows(project.root / "rows.jsonl", ROWS)
    before = path.read_bytes()
    done = project.run("convert", "rows.jsonl", "--out", "rows.jsonl", "--force")
    assert done.returncode == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows.txt", "{}\n", "rows.txt is not a .jsonl file"),
        ("rows.jsonl", '{"a": 1}\n{"a": NaN}\n', "line 2: not JSON: NaN"),
        ("rows.jsonl", '{"a": 1, "a": 2}\n', "occurs twice"),
    ],
)
def test_unusable_input_exits_with_2_and_writes_nothing(project: Project, name: str, text: str, message: str):
    project.write(name, text)
    done = project.run("convert", name, "--out", "x.yaml")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (project.root / "x.yaml").exists()


def test_csv_escapes_formulas_in_answers(tmp_path: Path):
    judged = (result("=1+1", 0.5),)
    path = write_rows(tmp_path / "a.jsonl", [row("=cmd|x", candidate_answer="@SUM(A1)", evaluator_results=judged)])
    lines = list(csv.DictReader(io.StringIO("".join(csv_rows(JoinedRun.of(RowSource("a", path)))))))
    assert lines[0]["eval_id"] == "'=cmd|x"
    assert lines[0]["candidate_answer"] == "'@SUM(A1)"
    assert lines[0]["score: =1+1"] == "0.5"


texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    [HOSTILE, "no", "1e3", "0o7", "y", "~", "- x"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(texts, values, max_size=4))
@settings(max_examples=50, deadline=None)
def test_yaml_output_round_trips(value: object, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")
    assert list(yaml.safe_load_all("".join(yaml_rows(RowSource("a", path))))) == [value]
