"""`agentv report`: a recorded run in every format."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import Project
from tests.report.rows import row
from tests.report.sources import write_rows
from tests.report.test_annotations import parsed
from tests.report.test_junit import check_counts


@pytest.fixture
def run(capitals: Project) -> str:
    """The id of a run with a passed, a borderline and a failed case."""
    assert capitals.run("eval", "capitals.yaml", "--quiet").returncode == 1
    return capitals.run_dirs()[-1].name


def test_markdown_goes_to_stdout(capitals: Project, run: str):
    done = capitals.run("report", run)
    assert done.returncode == 0
    assert done.stdout.startswith("## agentv: 2 of 3 cases did not pass\n")
    assert "| 3 | 1 | 1 | 1 | 0 | 0.56 |" in done.stdout
    assert "scripted model" in done.stdout
    assert f"Run <code>{run}</code>" in done.stdout


def test_junit_replaces_the_output_file(capitals: Project, run: str):
    capitals.write("junit.xml", "older")
    done = capitals.run("report", run, "--format", "junit", "--out", "junit.xml")
    assert (done.returncode, done.stdout) == (0, "")
    root = ET.fromstring((capitals.root / "junit.xml").read_bytes())
    check_counts(root)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "2", "0")
    failed = root.find(".//testcase[@name='spain']")
    assert failed is not None
    assert (failed.get("classname"), failed.get("file"), failed.get("line")) == (
        "capitals (scripted)",
        "capitals.yaml",
        "11",
    )
    assert root.find(".//property[@name='scripted']") is not None
    assert not list(capitals.root.glob(".*.tmp"))


def test_annotations_point_to_the_line_of_the_case(capitals: Project, run: str):
    lines = [parsed(line) for line in capitals.run("report", run, "-f", "github").stdout.splitlines()]
    assert [(level, properties.get("file"), properties.get("line")) for level, properties, _ in lines] == [
        ("error", "capitals.yaml", "11"),
        ("warning", "capitals.yaml", "6"),
        ("notice", None, None),
    ]


def test_annotation_paths_are_relative_to_the_github_workspace(capitals: Project, run: str):
    env = {"GITHUB_WORKSPACE": str(capitals.root.parent)}
    first = capitals.run("report", run, "-f", "github", env=env).stdout.splitlines()[0]
    assert parsed(first)[1]["file"] == "project/capitals.yaml"


def test_annotations_point_into_json_lines_files(capitals: Project):
    capitals.write("more.yaml", "evalcases:\n  - file: cases.jsonl\n")
    capitals.write(
        "cases.jsonl", '\n{"id": "x", "input": "x?", "evaluators": [{"type": "contains", "value": "nothing"}]}\n'
    )
    assert capitals.run("eval", "more.yaml", "--quiet").returncode == 1
    first = capitals.run("report", capitals.run_dirs()[-1].name, "-f", "github").stdout.splitlines()[0]
    assert (parsed(first)[1]["file"], parsed(first)[1]["line"]) == ("cases.jsonl", "2")


def test_run_from_another_directory_finds_its_suite(capitals: Project, run: str):
    moved = capitals.root.parent / "moved"
    shutil.move(capitals.root, moved)
    first = capitals.run("report", run, "-f", "github", cwd=moved).stdout.splitlines()[0]
    assert parsed(first)[1]["file"] == "capitals.yaml"


def test_missing_suite_only_removes_line_numbers(capitals: Project, run: str):
    (capitals.root / "capitals.yaml").unlink()
    done = capitals.run("report", run, "-f", "github")
    assert done.returncode == 0
    assert parsed(done.stdout.splitlines()[0])[1].keys() == {"title"}


def test_report_accepts_a_results_file(project: Project):
    write_rows(project.root / "rows.jsonl", [row("a"), row("b", 0.1)])
    for shape in ("markdown", "junit", "github"):
        done = project.run("report", "rows.jsonl", "--format", shape)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_report_marks_an_interrupted_run(capitals: Project, run: str):
    manifest = capitals.run_dirs()[-1] / "run.json"
    manifest.write_text(manifest.read_text().replace('"finished"', '"interrupted"'))
    assert "the run is incomplete (interrupted)" in capitals.run("report", run).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gone",), "run 'gone' not found"),
        (("rows.jsonl", "--out", "no/such/directory/x.md"), "could not write no/such/directory/x.md"),
        (("bad.jsonl", "--out", "x.md"), "line 1 is not a valid row"),
    ],
)
def test_unusable_run_exits_with_2(project: Project, arguments: tuple[str, ...], message: str):
    write_rows(project.root / "rows.jsonl", [row("a")])
    project.write("bad.jsonl", "{}\n")
    done = project.run("report", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.root / "x.md").exists()


@pytest.fixture
def stopped(project: Project) -> str:
    """A run of four cases that all pass, whose budget allowed two."""
    project.write(
        "agentv.config.yaml", "targets: {paid: {provider: mock, rules: [{match: ., response: yes, cost_usd: 1}]}}\n"
    )
    cases = "".join(f"  - {{id: c{n}, input: q, evaluators: [{{type: contains, value: 'yes'}}]}}\n" for n in range(4))
    project.write("suite.yaml", f"evalcases:\n{cases}")
    done = project.run("eval", "suite.yaml", "--max-cost", "2", "--workers", "1", "--run-dir", "run", "--quiet")
    assert done.returncode == 3
    return "run"


MISSING = "the run is incomplete (out of budget): 2 of 4 results missing"


@pytest.mark.parametrize("shape", ["markdown", "junit", "github"])
def test_every_format_reports_missing_rows(project: Project, stopped: str, shape: str):
    done = project.run("report", stopped, "-f", shape)
    assert done.returncode == 0
    assert MISSING in done.stdout


def test_finished_run_with_removed_rows_is_incomplete(capitals: Project, run: str):
    rows = capitals.run_dirs()[-1] / "results.jsonl"
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:2]))
    assert "the run is incomplete: 1 of 3 results missing" in capitals.run("report", run).stdout


def test_truncated_results_file_is_reported(project: Project):
    path = write_rows(project.root / "rows.jsonl", [row("a"), row("b")])
    path.write_bytes(path.read_bytes()[:-40])
    done = project.run("report", "rows.jsonl")
    assert done.returncode == 2
    assert "line 2 is not a valid row" in done.stderr
    assert "The line is cut off: its run is in progress or was killed." in done.stderr


@pytest.mark.parametrize("command", ["report", "convert"])
def test_out_rejects_a_directory(project: Project, command: str):
    write_rows(project.root / "rows.jsonl", [row("a")])
    done = project.run(command, "rows.jsonl", "--out", ".")
    assert (done.returncode, done.stderr) == (
        2,
        "agentv: --out must be a file, got the directory '.'.\nPass the path of a file in it.\n",
    )
