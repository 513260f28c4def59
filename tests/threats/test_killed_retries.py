"""`--retry-errors` killed with SIGKILL at random moments: no row is lost, repeated or counted twice."""

from __future__ import annotations

import random
import time

import pytest

from tests.conftest import Project

CASES = 40


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_killed_retries_lose_no_row(project: Project) -> None:
    rng = random.Random(2026)
    rule = "{match: '[13579]$', error: down, status: 500}"
    config = "targets: {a: {provider: mock, response: ok, delay_ms: 5, max_retries: 0, workers: 2, rules: [RULES]}}\n"
    cases = "".join(f"  - {{id: c{n}, input: question {n}}}\n" for n in range(CASES))
    project.write("suite.yaml", f"execution: {{evaluators: [{{type: contains, value: ok}}]}}\nevalcases:\n{cases}")
    for number in range(12):
        project.write("agentv.config.yaml", config.replace("RULES", rule))
        name = f"run-{number}"
        project.run("eval", "suite.yaml", "--run-dir", name, "--out", "rows.jsonl")
        run = project.root / name
        before = (run / "results.jsonl").read_bytes().splitlines()
        errored = [line for line in before if b'"error":null' not in line]
        assert len(errored) == CASES // 2
        project.write("agentv.config.yaml", config.replace("RULES", ""))
        for _ in range(4):
            killed = project.start("eval", "--retry-errors", name)
            time.sleep(rng.uniform(0.1, 0.9))
            killed.kill()
            killed.communicate()
        assert project.run("eval", "--retry-errors", name, "--json").returncode == 0
        after = (run / "results.jsonl").read_bytes()
        assert [line for line in after.splitlines() if line in before] == [x for x in before if x not in errored]
        assert len({row["eval_id"] for row in project.rows(run)}) == len(project.rows(run)) == CASES
        assert (run / "superseded.jsonl").read_bytes().splitlines() == errored
        assert (project.root / "rows.jsonl").read_bytes() == after
