"""Guideline files are selected by the project's patterns and sent as instructions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.suite.guidelines import glob_pattern
from tests.conftest import Project

SUITE = """\
evalcases:
  - id: review
    input_messages:
      - role: user
        content:
          - {type: file, value: rules/python.instructions.md}
          - {type: text, value: Review this.}
          - {type: file, value: code.txt}
    evaluators:
      - {name: seen, type: code_judge, script: [python, judge.py]}
"""
JUDGE = """\
import json, sys
case = json.load(sys.stdin)
keep = ("guideline_files", "input_files", "question")
print(json.dumps({"score": 1, "details": {key: case[key] for key in keep}}))
"""


@pytest.fixture
def reviewed(project: Project) -> Project:
    project.write(".agentv/config.yaml", "$schema: agentv-config-v2\nguideline_patterns: ['**/*.instructions.md']\n")
    project.write("rules/python.instructions.md", "Prefer small functions.")
    project.write("code.txt", "def f(): pass")
    project.write("suite.yaml", SUITE)
    project.write("judge.py", JUDGE)
    return project


def configured(project: Project, *command: str) -> None:
    words = ", ".join(json.dumps(word) for word in command)
    project.write("agentv.config.yaml", f"targets: {{shown: {{provider: cli, command: [{words}]}}}}\n")


def graded(project: Project) -> dict[str, Any]:
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 0, done.stderr
    (row,) = project.rows()
    return row


def test_guideline_is_moved_to_the_instructions_and_leaves_a_placeholder(reviewed: Project) -> None:
    configured(reviewed, "cat")
    row = graded(reviewed)
    assert row["candidate_answer"] == (
        "[[ ## Guidelines ## ]]\n\n"
        '<file path="rules/python.instructions.md">\nPrefer small functions.\n</file>\n\n'
        "<Attached: rules/python.instructions.md>\n\nReview this.\n\n"
        '<file path="code.txt">\ndef f(): pass\n</file>'
    )


def test_command_with_guidelines_placeholder_gets_them_once(reviewed: Project) -> None:
    configured(reviewed, "printf", "%s|%s", "{GUIDELINES}", "{PROMPT}")
    answer = graded(reviewed)["candidate_answer"]
    guidelines, prompt = answer.split("|")
    assert "Prefer small functions." in guidelines
    assert "Prefer small functions." not in prompt


def test_judge_script_gets_guidelines_and_input_files_separately(reviewed: Project) -> None:
    configured(reviewed, "cat")
    details = graded(reviewed)["evaluator_results"][0]["details"]
    assert [Path(path).name for path in details["guideline_files"]] == ["python.instructions.md"]
    assert [Path(path).name for path in details["input_files"]] == ["code.txt"]


def test_every_attachment_is_material_without_patterns(reviewed: Project) -> None:
    (reviewed.root / ".agentv/config.yaml").unlink()
    configured(reviewed, "cat")
    answer = graded(reviewed)["candidate_answer"]
    assert answer.startswith('<file path="rules/python.instructions.md">')


def test_resume_reports_a_project_file_that_changed(reviewed: Project) -> None:
    configured(reviewed, "cat")
    reviewed.run("eval", "suite.yaml", "--run-dir", "run")
    reviewed.write(".agentv/config.yaml", "guideline_patterns: ['**/*.txt']\n")
    done = reviewed.run("eval", "--resume", "run")
    assert done.returncode == 2
    assert "config.yaml has changed" in done.stderr


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("guideline_patterns: nope\n", "1:21"),
        ("x: 1\nguideline_patterns: [1]\n", "2:21"),
        ("- a\n", "1:1"),
        ("x: 1\nguidelines_pattern: [a]\n", "2:1"),
        ("guideline_patterns: [a]\nguideline_patterns: [b]\n", "2:1"),
    ],
)
def test_invalid_project_file_is_reported_with_its_position(reviewed: Project, text: str, place: str) -> None:
    configured(reviewed, "cat")
    reviewed.write(".agentv/config.yaml", text)
    done = reviewed.run("validate", "suite.yaml")
    assert done.returncode == 2
    assert f".agentv/config.yaml:{place}: " in done.stderr


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("**/*.instructions.md", "a.instructions.md", "a.md"),
        ("**/*.instructions.md", "x/y/a.instructions.md", "a.instructions.md.txt"),
        ("rules/*.md", "rules/a.md", "rules/deep/a.md"),
        ("rules/**", "rules/deep/a.md", "other/rules/a.md"),
        ("**/rules/**/*.md", "a/rules/b/c.md", "a/b/c.md"),
        ("./rules/?.md", "rules/a.md", "rules/ab.md"),
        ("*.{md,txt}", "a.txt", "a.rst"),
        ("[ab].md", "a.md", "c.md"),
        ("[!ab].md", "c.md", "a.md"),
        ("a+b(c).md", "a+b(c).md", "aab(c).md"),
    ],
)
def test_patterns_match_like_globs(glob: str, inside: str, outside: str) -> None:
    pattern = glob_pattern(glob)
    assert pattern.fullmatch(inside)
    assert not pattern.fullmatch(outside)


def test_invalid_pattern_is_reported_with_its_position(reviewed: Project):
    configured(reviewed, "cat")
    reviewed.write(".agentv/config.yaml", "guideline_patterns:\n  - '**/*.md'\n  - '[z-a].md'\n")
    done = reviewed.run("validate", "suite.yaml")
    assert done.returncode == 2
    assert (
        "config.yaml:3:5: `guideline_patterns`: '[z-a].md' is not a valid pattern: bad character range z-a"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("glob", "path", "covered"),
    [
        ("a/{x,y/{z,w}}.md", "a/x.md", True),
        ("a/{x,y/{z,w}}.md", "a/y/w.md", True),
        ("a/{x,y/{z,w}}.md", "a/y.md", False),
        ("{**/a,b}.md", "x/y/a.md", True),
        ("[^a].md", "b.md", True),
        ("[^a].md", "a.md", False),
        ("a[!b]c", "a/c", False),
        ("[a--z&&b].md", "&.md", True),
        ("{a", "{a", True),
        ("[a", "[a", True),
    ],
)
def test_patterns_expand_sets_and_braces_like_a_shell(glob: str, path: str, covered: bool):
    assert (glob_pattern(glob).fullmatch(path) is not None) is covered


def test_unknown_keys_of_the_project_file_are_noted_once_and_those_of_agentv_are_ignored(project: Project) -> None:
    project.write(".agentv/config.yaml", "eval_patterns: [x]\nresults: {}\nfuture: 1\nguideline_patterns: ['*.md']\n")
    for name in ("one", "two"):
        project.write(f"evals/{name}.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: is_json}]}]\n")
    done = project.run("validate", "evals", ".agentv/config.yaml")
    assert done.returncode == 0
    assert (
        done.stderr.replace(f"{project.root}/", "") == "note: .agentv/config.yaml: unknown keys are ignored: `future`\n"
    )
