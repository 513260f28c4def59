"""`skill_used`: which skills an agent used, from its tool calls."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.scoring import judge
from agentv.messages import Message, ToolCall
from agentv.suite.suite import EvalCase
from tests.evaluators.support import an_evaluator, without_waiting

CASE = EvalCase(id="case", question="question", input_messages=())
CALLS = (
    ToolCall("Skill", {"skill": "shop:payroll"}),
    ToolCall("Read", {"file_path": "/home/me/.claude/skills/refunds/SKILL.md"}),
    ToolCall("Bash", {"command": "ls"}, ["skills/refunds/SKILL.md", "x"]),
    ToolCall("Read", {"path": "skills/notes.md"}),
)


def score(value: Any, *calls: ToolCall, **options: Any) -> float:
    candidate = Candidate("done", (Message("assistant", None, tool_calls=calls), Message("assistant", "done")))
    evaluator = an_evaluator("skill_used", value=value, **options)
    return without_waiting(judge(evaluator, EvaluationContext(CASE, candidate))).score


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("payroll", 1.0),
        ("shop:payroll", 1.0),
        ("pay", 0.0),
        ("refunds", 1.0),
        ("notes.md", 0.0),
        (["payroll", "refunds"], 1.0),
        (["payroll", "other"], 0.0),
        ({"name": "refunds", "min": 2, "max": 2}, 1.0),
        ({"name": "refunds", "max": 1}, 0.0),
        ({"name": "other", "max": 1}, 1.0),
        ({"pattern": "re*"}, 1.0),
        ({"pattern": "re*", "min": 3}, 0.0),
    ],
)
def test_skills_are_found_by_whole_names(value, expected):
    assert score(value, *CALLS) == expected


def test_answer_without_calls_uses_no_skill():
    assert score("payroll") == 0.0
    assert score("payroll", negate=True) == 1.0


def test_invalid_options_are_rejected():
    with pytest.raises(ValidationError, match="needs one of `name` and `pattern`"):
        an_evaluator("skill_used", value={"name": "a", "pattern": "b"})
