"""Plans of small projects, built as `agentv eval` builds them."""

from __future__ import annotations

from typing import Any

from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions
from agentv.plan.plan import RunPlan
from tests.conftest import Project

CONFIG = """\
targets:
  bot: {provider: cli, command: [cat]}
  rival: {provider: cli, command: [cat], judge_target: strict}
  strict: {provider: cli, command: [python, judge.py]}
  scripted: {provider: mock, response: '{"score": 1, "hits": [], "misses": [], "reasoning": "so"}'}
defaults: {target: bot}
"""


def plan_of(project: Project, *paths: str, **options: Any) -> RunPlan:
    """The plan of these suites, `suite.yaml` unless named; every option as `RunOptions` takes it."""
    for script in ("s.py", "judge.py"):
        if not (project.root / script).exists():
            project.write(script, "")
    return build_plan(RunOptions(paths=paths or ("suite.yaml",), **options), project.root)


def work_of(plan: RunPlan) -> list[tuple[str, str, str, int]]:
    """Suite, case, target and attempt of every work item, lane by lane."""
    return [
        (item.planned.suite.name, item.case.id, item.target, item.attempt)
        for lane in plan.lanes
        for item in lane.items()
    ]
