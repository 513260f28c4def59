"""`python -m benchmarks.agentv_npm`: the same suite, scored by AgentV's npm package and by agentv.

The package is installed temporarily; `--package` chooses its version. The scores do not depend on a model: a script
answers, and another script is the judge. Exits with code 1 if a score differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "agentv@4.42.4"
SECONDS = 600
ANSWER = """\
import json, sys
calls = [
    {"tool": "search", "input": {"q": 1, "r": 2}, "duration_ms": 40},
    {"tool": "Read", "input": {"file_path": "x/skills/pay/SKILL.md"}, "duration_ms": 10},
    {"tool": "search", "input": {"q": 3}, "duration_ms": 90},
]
messages = [
    {"role": "assistant", "tool_calls": calls},
    {"role": "assistant", "content": "  The lamp costs 40 EUR.\\nThanks\\n"},
]
usage = {"input": 10, "output": 5, "cached": 2}
reply = {"output": messages, "duration_ms": 500, "cost_usd": 0.01, "token_usage": usage}
json.dump(reply, open(sys.argv[1], "w"))
"""
JUDGE = """\
import json, sys
asked = open(sys.argv[1]).read()
points = "score_range" in asked or "0-10" in asked
first, second = ({"score": 8}, {"score": 4}) if points else ({"satisfied": True}, {"satisfied": False})
checks = [{"id": "rubric-1", "reasoning": "a", **first}, {"id": "rubric-2", "reasoning": "b", **second}]
verdict = {"checks": checks, "overall_reasoning": "c"} if "rubric-1" in asked else {"score": 0.6, "reasoning": "d"}
json.dump({"text": json.dumps({"hits": [], "misses": [], "assertions": [], **verdict})}, open(sys.argv[2], "w"))
"""
TARGETS = """\
targets:
  - {name: default, provider: cli, command: "python3 scripts/answer.py {OUTPUT_FILE}", cwd: .., grader_target: grader}
  - {name: grader, provider: cli, command: "python3 scripts/judge.py {PROMPT_FILE} {OUTPUT_FILE}", cwd: ..}
"""
A_AND_B = "assertions: [{name: a, type: contains, value: lamp}, {name: b, type: contains, value: x}]"
LISTS = (
    "{type: contains, value: 40 EUR}",
    "{type: contains, value: 40 eur}",
    "{type: contains-any, value: [x, lamp]}",
    "{type: contains-all, value: [lamp, x]}",
    "{type: icontains-all, value: [LAMP, eur]}",
    "{type: starts-with, value: '  The '}",
    "{type: ends-with, value: Thanks}",
    "{type: equals, value: 'The lamp'}",
    "{type: regex, value: 'EUR\\.$'}",
    "{type: regex, value: 'EUR\\.$', flags: m}",
    "{type: regex, value: 'THANKS$', flags: gi}",
    "{type: regex, value: '^The'}",
    "{type: contains, value: x, negate: true}",
    "{type: latency, threshold: 400}",
    "{type: token-usage, max_total: 17}",
    "{type: execution-metrics, max_tool_calls: 3, max_tokens: 100, max_duration_ms: 100}",
    "{type: execution-metrics, target_exploration_ratio: 0.3, max_tool_calls: 2}",
    "{type: skill-trigger, skill: pay}",
    "{type: skill-trigger, skill: other, should_trigger: false}",
    "{type: tool-trajectory, mode: any_order, minimums: {search: 2, Read: 2}}",
    "{type: tool-trajectory, mode: in_order, expected: [{tool: search, args: {q: 1}}]}",
    "{type: tool-trajectory, mode: in_order, args_match: superset, expected: [{tool: Read, args: {q: 1}}, {tool: z}]}",
    "{type: tool-trajectory, mode: exact, expected: [{tool: search}, {tool: x}, {tool: search, max_duration_ms: 50}]}",
    "{type: tool-trajectory, mode: superset, expected: [{tool: search}, {tool: search}, {tool: search}]}",
    "{type: tool-trajectory, mode: subset, expected: [{tool: search, args: {q: 1}, args_match: superset}, {tool: z}]}",
    "{type: tool-trajectory, mode: in_order, expected: [{tool: search, args: {q: 1, z: 3}, args_match: [q]}]}",
    "{name: c, type: composite, aggregator: {type: threshold, threshold: 0.5}, " + A_AND_B + "}",
    "{name: c, type: composite, aggregator: {type: weighted_average, weights: {a: 3, b: 1}}, " + A_AND_B + "}",
    "{name: c, type: composite, required: true, min_score: 0.5, aggregator: {type: weighted_average}, " + A_AND_B + "}",
    '{name: s, type: code-grader, command: "echo \'{\\"score\\": 0.3}\'"}',
    "Is right, Is kind, {type: contains, value: x}",
    "{type: contains, value: lamp, weight: 3}, {type: contains, value: x}",
    "{type: contains, value: lamp, weight: 3}, {type: contains, value: x, required: true}",
    "{type: rubrics, criteria: [{outcome: a, weight: 3}, {outcome: b}]}",
    "{type: rubrics, criteria: [{outcome: a, weight: 3, score_ranges: {0: bad, 5: good}}, {outcome: b}]}",
    "{type: rubrics, weight: 2, criteria: [a, b], negate: true}, {type: contains, value: lamp}",
    "{type: llm-grader, prompt: 'Is {{ output }} right?'}",
)
"""Lists of assertions, one for each case."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--package", default=PACKAGE)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder) / "npm", Path(folder) / "project"
        home.mkdir()
        write_project(project)
        run(["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--silent", chosen.package], home)
        theirs = their_scores(home, project)
        ours = our_scores(project)
    different = {name: (theirs.get(name), score) for name, score in ours.items() if not same(theirs.get(name), score)}
    for name, (there, here) in sorted(different.items()):
        print(f"{name}: {chosen.package} {there}, agentv {here}")
    print(f"{len(ours) - len(different)} of {len(ours)} scores are equal ({chosen.package})")
    return 1 if different or len(ours) != len(LISTS) * 2 else 0


def same(one: float | None, other: float) -> bool:
    return one is not None and abs(one - other) < 1e-6


def write_project(project: Path) -> None:
    """Every list alone, and every list followed by that of its suite."""
    cases = "".join(
        f"  - id: case-{number:02}\n    criteria: y\n    input: hi\n    assertions: [{entries}]\n"
        for number, entries in enumerate(LISTS)
    )
    files = {
        ".agentv/targets.yaml": TARGETS,
        "scripts/answer.py": ANSWER,
        "scripts/judge.py": JUDGE,
        "evals/alone.eval.yaml": f"name: alone\ntests:\n{cases}",
        "evals/added.eval.yaml": f"name: added\nassertions: [{{type: is-json}}, One, Two]\ntests:\n{cases}",
    }
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    run(["git", "init", "--quiet"], project)


def their_scores(home: Path, project: Path) -> dict[str, float]:
    program = home / "node_modules" / ".bin" / "agentv"
    scores: dict[str, float] = {}
    for name in ("alone", "added"):
        run([str(program), "eval", f"evals/{name}.eval.yaml", "--output", f"out-{name}"], project, check=False)
        for row in rows(project / f"out-{name}" / "index.jsonl"):
            scores[f"{row['suite']}/{row['test_id']}"] = row["score"]
    return scores


def our_scores(project: Path) -> dict[str, float]:
    run([sys.executable, "-m", "agentv", "eval", "evals", "--run-dir", "ours", "--quiet"], project, check=False)
    return {f"{row['suite']}/{row['eval_id']}": row["score"] for row in rows(project / "ours" / "results.jsonl")}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(command: list[str], folder: Path, *, check: bool = True) -> None:
    done = subprocess.run(
        command, cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
