"""`agentv eval --last-failed [RUN]`: a new run of what did not pass in another one."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project


@pytest.fixture
def failing(project: Project) -> Project:
    """Target a fails `two`, target b fails `one` and has an error in `three`."""
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          a: {provider: mock, rules: [{match: two, response: no}], response: Paris}
          b: {provider: mock, rules: [{match: one, response: no}, {match: three, error: down}], response: Paris}
          c: {provider: mock, response: Paris}
        """,
    )
    project.write(
        "evals/suite.yaml",
        """\
        execution:
          evaluators: [{type: contains, value: Paris}]
        evalcases:
          - {id: one, input: one}
          - {id: two, input: two, tags: slow}
          - {id: three, input: three}
          - {id: four, input: four}
        """,
    )
    return project


def ran(project: Project) -> list[tuple[str, str]]:
    return sorted((row["target"], row["eval_id"]) for row in project.rows())


def test_what_did_not_pass_is_run_again_for_each_target(failing: Project) -> None:
    targets = ("--target", "a", "--target", "b")
    first = failing.run(
        "eval", *targets, "--name", "base", "--case", "t*", "--case", "one", "--out", "rows.jsonl", "-q"
    )
    assert first.returncode == 3
    rows = (failing.root / "rows.jsonl").read_text()

    again = failing.run("eval", "--last-failed", "--experiment", "e", "--threshold", "0.9")
    assert again.returncode == 3
    assert "note: running 3 cases again that did not pass in run" in again.stderr
    assert ran(failing) == [("a", "two"), ("b", "one"), ("b", "three")]
    manifest = failing.manifest()
    assert (manifest["options"]["targets"], manifest["options"]["threshold"]) == (["a", "b"], 0.9)
    assert (manifest["options"]["out"], (failing.root / "rows.jsonl").read_text()) == (None, rows)

    run = failing.run_dirs()[-1]
    (run / "results.jsonl").write_text("")
    failing.run("eval", "--resume", "latest", "-q")
    assert ran(failing) == [("a", "two"), ("b", "one"), ("b", "three")], "a killed run can be resumed"

    failing.run("eval", "--last-failed", "base", "--exclude-tag", "slow", "--target", "b", "-q")
    assert ran(failing) == [("b", "one"), ("b", "three")]
    assert failing.run("eval", "--last-failed", "base", "--target", "c", "-q").returncode == 0
    assert ran(failing) == [("c", "one"), ("c", "three"), ("c", "two")], "a target that was not in the run"

    passed = failing.run("eval", "--last-failed", "--json")
    assert (passed.returncode, passed.stdout) == (0, "")
    assert passed.stderr.endswith(" passed; nothing to run.\n")
    assert len(failing.run_dirs()) == 4


def test_the_word_after_the_option_is_a_run_or_a_path(failing: Project) -> None:
    failing.write(
        "evals/other.yaml", "evalcases: [{id: x, input: two, evaluators: [{type: contains, value: Paris}]}]\n"
    )
    failing.run("eval", "--target", "a", "--name", "evals-nightly", "-q")
    assert failing.run("eval", "--last-failed", "evals/other.yaml", "-q").returncode == 1
    assert ran(failing) == [("a", "x")], "a path: the suites to run, and the newest run"
    failing.run("eval", "--last-failed", "evals-n", "-q")
    assert ran(failing) == [("a", "two"), ("a", "x")], "the prefix of a name"
    failing.run("eval", "--last-failed", "evals", "-q")
    assert ran(failing) == [("a", "two"), ("a", "x")], "a directory wins over the prefix of a name"
    unknown = failing.run("eval", "--last-failed", "evals/othr.yaml")
    assert unknown.returncode == 2
    assert "run 'evals/othr.yaml' not found" in unknown.stderr


def test_cases_with_several_attempts_count_by_their_verdict(failing: Project) -> None:
    failing.run("eval", "--target", "b", "--case", "one", "--case", "four", "--repeat", "3", "-q")
    results = failing.run_dirs()[-1] / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for row in rows:
        if (row["eval_id"], row["attempt"]) == ("four", 1):
            row.update(score=0.0, verdict="fail")  # flaky: two of three attempts passed
    results.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    failing.run("eval", "--last-failed", "-q")
    assert ran(failing) == [("b", "one")] * 3
