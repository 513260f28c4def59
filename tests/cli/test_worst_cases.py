"""The summary and the reports of a failing case name the costliest evaluator and show the answer, safely."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

from tests.conftest import Project

KEY = "sk-Zq7vT2mW9xKc4RbN8pLd6YhJ3gFs5A"


def test_costliest_evaluator_and_the_answer_are_shown_in_all_formats(project: Project) -> None:
    project.write("answer.py", f"print('\\x1b[31mPlease ask\\nour staff {KEY}.\\x07')\n")
    target = {"provider": "cli", "command": ["python", "answer.py", "{PROMPT}"], "env": {"KEY": "${{ KEY }}"}}
    project.write("agentv.config.yaml", json.dumps({"targets": {"bot": target}}))
    project.write("brief.py", 'print(\'{"score": 0.5, "misses": ["is brief"]}\')\n')
    evaluators = [
        {"name": "light", "type": "contains", "value": "zzz", "weight": 0.1},
        {"name": "heavy", "type": "contains", "value": "9:00", "weight": 5},
    ]
    must = [
        {"name": "heavy", "type": "contains", "value": "9:00", "weight": 5},
        {"name": "must", "type": "code_judge", "script": ["python", "brief.py"], "required": True, "weight": 0.1},
    ]
    cases = [
        {"id": "weighted", "input": "When do you open?", "evaluators": evaluators},
        {"id": "must", "input": "When do you open?", "evaluators": must},
    ]
    project.write("suite.yaml", json.dumps({"evalcases": cases}))
    done = project.run("eval", "suite.yaml", "--run-dir", "run", env={"KEY": KEY, "COLUMNS": "80"})
    assert done.returncode == 1, done.stderr
    answer = "        question: When do you open?\n        answer: Please ask our staff [redacted].\n"
    assert f"{answer}        heavy: does not contain '9:00'\n" in done.stdout
    assert f"{answer}        must: missed: is brief\n" in done.stdout
    assert done.stdout.endswith("  Show    agentv show run must\n")
    markdown = project.run("report", "run", "--format", "markdown").stdout
    assert "<code>heavy</code>: <code>does not contain '9&#58;00'</code>" in markdown
    assert re.search(r"<details>.*When do you open?.*Please ask our staff.*</details>", markdown, re.DOTALL)
    junit = project.run("report", "run", "--format", "junit").stdout
    failure = ET.fromstring(junit).find(".//testcase[@name='weighted']/failure")
    assert failure is not None
    assert failure.get("message") == "score 0.00, fail: heavy: does not contain '9:00'"
    assert "question: When do you open?\nanswer:" in (failure.text or "")
    for text in (done.stdout, done.stderr, markdown, junit):
        assert KEY not in text
        assert "\x1b" not in text
        assert "\x07" not in text
