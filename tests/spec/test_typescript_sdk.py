"""The built TypeScript SDK in a judge script, run by node against the live proxy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.spec.support import mock, run, scripted, write

SDK = Path(__file__).parents[2] / "sdk" / "typescript" / "dist" / "index.js"
pytestmark = pytest.mark.skipif(
    not shutil.which("node") or not SDK.exists(), reason="node or the built TypeScript SDK is missing: run make test"
)
START = f'import {{ createJudgeProxyClient }} from "{SDK.as_uri()}";\nconst judge = createJudgeProxyClient();\n'
ACCESS = {"judge": {"max_calls": 7}, "script": ["node", "judge.mjs"]}


def write_judge(project: Project, source: str, config: dict[str, object]) -> None:
    write(project, "", ACCESS, config=config)
    (project.root / "judge.mjs").write_text(START + source, encoding="utf-8")


def test_sdk_provides_get_info_method(project: Project) -> None:
    """Given a script with `createJudgeProxyClient`, when it calls `judge.getInfo()`, then it gets `targetName`,
    `maxCalls`, `callCount` and `availableTargets`."""
    write_judge(
        project,
        "const info = await judge.getInfo();\nawait judge.invoke({ question: 'relevant?' });\n"
        "const after = await judge.getInfo();\nconsole.log(JSON.stringify({ score: 1, details: { info, after } }));\n",
        scripted(),
    )
    details = run(project).details
    assert details["info"]["maxCalls"] == 7
    assert details["info"]["callCount"] == 0
    assert details["info"]["targetName"] in details["info"]["availableTargets"]
    assert details["after"]["callCount"] == 1


def test_sdk_invoke_accepts_optional_target_parameter(project: Project) -> None:
    """Given a judge proxy client, when `judge.invoke({ question, target })` is called, then the request names that
    target, and that target answers."""
    write_judge(
        project,
        "const reply = await judge.invoke({ question: 'relevant?', target: 'other' });\n"
        "const usual = await judge.invoke({ question: 'relevant?' });\n"
        "console.log(JSON.stringify({ score: 1, details: { other: reply.rawText, usual: usual.rawText } }));\n",
        scripted(judge=mock("the usual judge"), other=mock("the other judge")),
    )
    ran = run(project)
    assert ran.details == {"other": "the other judge", "usual": "the usual judge"}
    assert ran.result["judge_proxy"]["targets"]["other"] == 1
