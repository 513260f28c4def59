"""The precedence of judge target settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentv.judge.choice import JudgeChoice
from agentv.targets.config import load_config
from agentv.targets.environment import Environment

LEVELS = ("option", "suite", "target", "defaults", "main")


def test_first_level_that_sets_a_judge_wins():
    choice = JudgeChoice(**{level: level for level in LEVELS})
    order = ("option", "evaluator", "suite", "target", "defaults", "main")
    for winner in order:
        assert choice.resolve("evaluator" if order.index(winner) < 2 else None) == winner
        if winner != "evaluator":
            choice = replace(choice, **{winner: None})
    assert choice.resolve() is None


@pytest.mark.parametrize("level", LEVELS)
def test_none_takes_part_in_the_precedence(level: str):
    below = LEVELS[LEVELS.index(level) + 1 :]
    assert JudgeChoice(**{level: "none", **dict.fromkeys(below, "strict")}).resolve() == "none"


@pytest.mark.parametrize(
    ("main", "judge"), [("bot", "strict"), ("rival", "rival"), ("unjudged", "none"), (None, "strict")]
)
def test_choice_of_a_configuration_follows_the_main_target(tmp_path: Path, main: str | None, judge: str):
    path = tmp_path / "agentv.config.yaml"
    path.write_text(
        "targets:\n"
        "  bot: {provider: mock, response: x}\n"
        "  rival: {provider: mock, response: x, judge_target: rival}\n"
        "  unjudged: {provider: mock, response: x, judge_target: none}\n"
        "  strict: {provider: mock, response: x}\n"
        "defaults: {target: bot, judge_target: strict}\n"
    )
    config = load_config(path, Environment({}))

    assert JudgeChoice.of(config, main=main).resolve() == judge
    assert JudgeChoice.without_answers(config).resolve() == "strict"
    assert JudgeChoice.of(config, main=main, option="bot").resolve("rival") == "bot"
