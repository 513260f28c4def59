"""`cache: true` of a target: its answers are reused in later runs."""

from __future__ import annotations

from typing import Any

from tests.conftest import Project

SUITE = """
    evalcases:
      - {id: a, input: first, evaluators: [{type: contains, value: FIRST}]}
      - {id: b, input: second, evaluators: [{type: contains, value: SECOND}]}
    """


def prepared(project: Project, *, settings: str = "cache: true") -> None:
    project.write("suite.yaml", SUITE)
    project.write(
        "app.py",
        """
        def answer(prompt):
            with open("calls", "a") as file:
                file.write(prompt + "\\n")
            return {"text": prompt.upper(), "cost_usd": 0.5}
        """,
    )
    project.write(
        "agentv.config.yaml", f"targets: {{app: {{provider: python, callable: 'app.py:answer', {settings}}}}}\n"
    )


def run(project: Project, *arguments: str) -> list[dict[str, Any]]:
    done = project.run("eval", *(arguments or ("suite.yaml",)))
    assert done.returncode == 0, done.stderr
    return sorted(project.rows(), key=lambda row: str(row["eval_id"]))


def calls(project: Project) -> list[str]:
    return sorted((project.root / "calls").read_text().split())


def test_second_run_is_answered_from_the_cache_and_costs_nothing(project: Project) -> None:
    prepared(project)
    first, second = run(project), run(project)
    assert calls(project) == ["first", "second"]
    assert [row["candidate_answer"] for row in second] == ["FIRST", "SECOND"]
    assert ["cache_hit" in row for row in first] == [False, False]
    assert [(row["cache_hit"], row["cost_usd"], row["duration_ms"]) for row in second] == [(True, 0.0, None)] * 2
    assert [row["cost_usd"] for row in first] == [0.5, 0.5]
    assert "  usage   from the cache, $0.0000\n" in project.run("show", "a").stdout


def test_answer_is_not_reused_if_the_case_or_the_target_differs(project: Project) -> None:
    prepared(project)
    run(project)
    project.write("suite.yaml", SUITE.replace("first", "first!"))
    run(project)
    assert calls(project) == ["first", "first!", "second"]
    prepared(project, settings="cache: true, env: {MODE: other}")
    run(project)
    assert len(calls(project)) == 5


def test_attempts_are_cached_separately(project: Project) -> None:
    prepared(project)
    for _ in range(2):
        run(project, "suite.yaml", "--repeat", "2")
    assert calls(project) == ["first", "first", "second", "second"]


def test_without_the_setting_nothing_is_cached(project: Project) -> None:
    prepared(project, settings="cache: false")
    run(project)
    run(project, "suite.yaml", "--cache")
    assert len(calls(project)) == 4


def test_cached_run_can_be_replayed_and_resumed(project: Project) -> None:
    prepared(project)
    run(project)
    run(project)
    cached = project.run_dirs()[-1]
    replayed = run(project, "suite.yaml", "--replay", cached.name)
    assert [row["candidate_answer"] for row in replayed] == ["FIRST", "SECOND"]
    results = cached / "results.jsonl"
    results.write_text(results.read_text().splitlines(keepends=True)[0])
    done = project.run("eval", "--resume", cached.name)
    assert done.returncode == 0, done.stderr
    assert len(project.rows(cached)) == 2
    assert len(calls(project)) == 2
