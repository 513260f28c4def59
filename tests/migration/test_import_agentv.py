"""`agentv import agentv`: the converted project has the same cases, evaluators and results, and all comments."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project

HERE = Path(__file__).parent
COMMENTS = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
OLD_WORDS = re.compile(
    r"^\s*(?:- )?(?:tests|criteria|assertions|assert|expected_output|grader_target|min_score):", re.MULTILINE
)


def unpack(path: Path, project: Project, folder: str) -> None:
    parts = re.split(r"^=== (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        project.write(f"{folder}/{name}", text)
    (project.root / folder / ".git").mkdir()  # the root of a project


def recorded(project: Project, folder: str, env: dict[str, str]) -> tuple[list[Any], dict[str, Any]]:
    """The cases of a run as they were asked and judged, and the scores."""
    run = project.root / f"run-{folder}"
    done = project.run("eval", "evals", "--run-dir", str(run), cwd=project.root / folder, env=env)
    assert done.returncode in (0, 1), done.stderr
    cases = []
    for line in (run / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line.replace(str(project.root / folder), ".."))  # scripts of the project have absolute paths
        for key in ("file", "line", "sha256"):
            case.pop(key)
        case["evaluators"] = sorted(json.dumps(each, sort_keys=True) for each in case["evaluators"])
        cases.append(case)
    scores = {f"{row['eval_id']}, {row['target']}": row["score"] for row in project.rows(run)}
    return cases, scores


@pytest.mark.parametrize("path", ["projects/agentv4.txt", "projects/agentv5.txt", "to_import.txt"])
def test_a_converted_project_has_the_same_cases_and_results_and_all_comments(path: str, project: Project) -> None:
    unpack(HERE / path, project, "old")
    env = {"SHOP_TARGET": "echo"}
    if (program := project.root / "old" / "bin" / "bun").exists():
        program.chmod(0o755)
        env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    folder = "old/shared" if "to_import" in path else "old"
    done = project.run("import", "agentv", folder, "--out", "new", env=env)
    assert done.returncode == 0, done.stderr
    checked = project.run("validate", "evals", "--verbose", cwd=project.root / "new", env=env)
    assert (checked.returncode, checked.stderr) == (0, "")  # no suite is read as one of another dialect
    if folder != "old":
        (project.root / folder).rename(project.root / "moved")
        folder = "moved"
    before, after = recorded(project, folder, env), recorded(project, "new", env)
    assert after[1] == before[1]
    for new, old in zip(after[0], before[0], strict=True):
        assert new == old
    for old in (project.root / folder).rglob("*.yaml"):
        name = old.relative_to(project.root / folder)
        new = project.root / "new" / name
        if name.parts[:2] == (".agentv", "templates"):
            continue
        text = (new if new.exists() else new.with_name("targets.yaml")).read_text(encoding="utf-8")
        lost = [each for each in COMMENTS.findall(old.read_text(encoding="utf-8")) if each.rstrip() not in text]
        assert lost == []
        assert not OLD_WORDS.search(text), text


def test_comments_stay_with_what_they_are_about(project: Project) -> None:
    unpack(HERE / "to_import.txt", project, "old")
    assert project.run("import", "agentv", "old/shared", "--out", "new").returncode == 0
    text = (project.root / "new/evals/head.eval.yaml").read_text(encoding="utf-8")
    assert text.startswith("# A suite with a head.\ndataset: head  # its name\nexecution:\n")
    assert "# not kept, but its comment is\n" in text
    assert "  # Every case has these.\n  evaluators:\n" in text
    assert "    # strings are criteria\n" in text
    assert '          - "40"  # the price\n          # or\n          - forty\n' in text
    assert "    # asked by everybody\n    input:" in text
    assert text.endswith("# the end\n")


def test_without_out_nothing_is_written_and_the_files_are_listed(project: Project) -> None:
    unpack(HERE / "to_import.txt", project, "old")
    before = sorted(str(path) for path in project.root.rglob("*"))
    done = project.run("import", "agentv", "old/shared")
    assert done.returncode == 0, done.stderr
    assert "would convert evals/head.eval.yaml\n" in done.stdout
    assert "5 files" in done.stdout or "4 files" in done.stdout
    assert "1 suite unchanged" in done.stdout
    assert sorted(str(path) for path in project.root.rglob("*")) == before


def test_an_unsupported_feature_is_refused_by_name_and_nothing_is_written(project: Project) -> None:
    unpack(HERE / "to_import.txt", project, "old")
    suite = "workspace: {template: ./w}\ntests:\n  - {id: a, criteria: x, input: y}\n"
    project.write("old/shared/evals/agent.eval.yaml", suite)
    done = project.run("import", "agentv", "old/shared", "--out", "new")
    assert done.returncode == 2
    assert "agent.eval.yaml:1:1: AgentV's `workspace` is not supported" in done.stderr
    assert not (project.root / "new").exists()


def test_a_file_of_cases_that_two_suites_extend_differently_is_refused(project: Project) -> None:
    project.write("old/evals/cases.yaml", "- {id: a, criteria: x, input: y}\n")
    project.write("old/evals/one.eval.yaml", "name: one\ntests: ./cases.yaml\n")
    project.write("old/evals/two.eval.yaml", "name: two\ninput: Be brief.\ntests: ./cases.yaml\n")
    done = project.run("import", "agentv", "old", "--out", "new")
    assert done.returncode == 2
    assert "two suites use this file" in done.stderr
    assert not (project.root / "new").exists()
