"""The plan of a run: which target judges, whether results are scripted, what it depends on, and its lanes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agentv.suite.evaluator import Need
from tests.conftest import Project
from tests.plan.support import CONFIG, plan_of

JUDGED = "evalcases: [{id: one, input: hello, evaluators: [%s]}]\n"
ASKS = "{name: a, type: llm_judge, prompt: Is it right?%s}"
SCRIPT = "{name: s, type: code_judge, script: [python, s.py], judge: {%s}}"


def with_defaults(judge_target: str) -> str:
    return CONFIG.replace("{target: bot}", f"{{target: bot, judge_target: {judge_target}}}")


@pytest.mark.parametrize(
    ("evaluators", "options", "scripted"),
    [
        (ASKS % "", {}, True),
        (ASKS % ", judge_target: strict", {}, False),
        (ASKS % ", judge_target: strict" + ", " + ASKS.replace("name: a", "name: b") % "", {}, True),
        (SCRIPT % "target: strict", {}, False),
        (SCRIPT % "target: strict, allowed_targets: [scripted]", {}, True),
        ("{name: c, type: composite, evaluators: [" + ASKS % ", judge_target: strict" + "]}", {}, False),
        ("{name: c, type: composite, evaluators: [" + ASKS % "" + "]}", {}, True),
        (ASKS % ", judge_target: none", {}, False),
        (ASKS % ", judge_target: scripted", {"judge_target": "strict"}, False),
        (ASKS % ", judge_target: strict", {"judge_target": "scripted"}, True),
        (ASKS % "", {"judge_target": "none"}, False),
        (ASKS % "", {"targets": ("rival",)}, False),
        (ASKS % ", judge_target: strict", {"targets": ("scripted",)}, True),
        ("{type: contains, value: hello}", {}, False),
    ],
)
def test_scripted_is_set_when_a_mock_answers_or_judges(
    project: Project, evaluators: str, options: dict[str, object], scripted: bool
) -> None:
    project.write("agentv.config.yaml", with_defaults("scripted"))
    project.write("suite.yaml", JUDGED % evaluators)

    assert plan_of(project, **options).scripted is scripted


def test_run_is_not_labelled_scripted_when_the_evaluator_names_a_real_judge(project: Project) -> None:
    project.write("agentv.config.yaml", with_defaults("scripted"))
    project.write("judge.py", 'print(\'{"score": 1, "hits": [], "misses": [], "reasoning": "so"}\')\n')
    project.write("suite.yaml", JUDGED % (ASKS % ", judge_target: strict"))

    done = project.run("eval", "suite.yaml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert project.rows()[0]["evaluator_results"][0]["judge"]["target"] == "strict"
    assert project.manifest()["scripted"] is False
    assert "scripted" not in done.stdout

    done = project.run("eval", "suite.yaml", "--judge-target", "scripted")

    assert project.rows()[0]["evaluator_results"][0]["judge"]["target"] == "scripted"
    assert project.manifest()["scripted"] is True
    assert "scripted judge" in done.stdout


def test_digests_cover_the_suite_its_files_and_recorded_answers(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("prompt.md", "Is it right?")
    project.write("s.py", "print(1)\n")
    files = "{name: a, type: llm_judge, prompt: prompt.md}, {name: s, type: code_judge, script: [python, s.py]}"
    suite = project.write("suite.yaml", JUDGED % files)
    answers = project.write("answers.jsonl", '{"eval_id": "one", "candidate_answer": "x"}\n')
    digests = plan_of(project, outputs="answers.jsonl").digests()

    assert {Path(path).name for path in digests} == {"suite.yaml", "prompt.md", "s.py", "answers.jsonl"}
    for path in (suite, answers):
        assert digests[str(path)] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_row_keys_are_those_of_the_work(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", JUDGED % "{type: contains, value: x}")
    plan = plan_of(project, targets=("bot", "rival"), repeat=2)

    keys = {key for lane in plan.lanes for key in lane.row_keys()}
    assert keys == {item.key for lane in plan.lanes for item in lane.items()}
    assert len(keys) == plan.total == 4


def test_replayed_and_recorded_answers_are_not_paid_for(project: Project) -> None:
    project.write("rows.jsonl", '{"eval_id": "one", "candidate_answer": "x"}\n')
    replay = "  replayed: {provider: replay, file: rows.jsonl}\n"
    project.write("agentv.config.yaml", CONFIG.replace("targets:\n", f"targets:\n{replay}"))
    project.write("suite.yaml", JUDGED % "{type: contains, value: x}")
    plan = plan_of(project, targets=("bot", "replayed"))

    assert plan.pays_for("bot")
    assert not plan.pays_for("replayed")
    assert not plan_of(project, outputs="rows.jsonl").pays_for("bot")


def test_needs_are_those_of_all_suites(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", JUDGED % (SCRIPT % ""))
    project.write("other.yaml", JUDGED % (ASKS % ""))

    assert plan_of(project).needs == {Need.SCRIPTS, Need.JUDGE_ACCESS}
    assert plan_of(project, "suite.yaml", "other.yaml").needs == {Need.SCRIPTS, Need.JUDGE_ACCESS, Need.JUDGE}
