"""`--workers N` bounds target calls, cases being judged, and cases in progress."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from tests.conftest import Project

STAGE = """\
import os, sys, time
stage, parties = sys.argv[1], int(sys.argv[2])
def write(line):
    log = os.open("work.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{line}\\n".encode())
    os.close(log)
def present():
    with open("work.log") as log:
        lines = log.read().splitlines()
    return lines.count(f"{stage} starts") - lines.count(f"{stage} ends")
write(f"{stage} starts")
# A barrier for one process more than may run at the same time: it is reached only if the limit is exceeded.
deadline = time.monotonic() + (0.2 if stage == "judge" else 0.05)
while present() < parties and time.monotonic() < deadline:
    time.sleep(0.01)
write(f"{stage} ends")
print('{"score": 1}' if stage == "judge" else "an answer")
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_calls_and_judge_scripts_never_exceed_the_number_of_workers(project: Project, workers: int) -> None:
    project.write("stage.py", STAGE)
    stage = f"{sys.executable}, -SE, stage.py"
    project.write(
        "agentv.config.yaml", f"targets: {{slow: {{provider: cli, command: [{stage}, target, '{workers + 1}']}}}}\n"
    )
    cases = "".join(f"  - {{id: c{n}, input: question}}\n" for n in range(3 * workers))
    judge = f"{{name: barrier, type: code_judge, script: [{stage}, judge, '{workers + 1}']}}"
    project.write("suite.yaml", f"execution: {{evaluators: [{judge}]}}\nevalcases:\n{cases}")
    done = project.run("eval", "suite.yaml", "--workers", str(workers))
    assert done.returncode == 0, done.stderr
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for line in (project.root / "work.log").read_text().splitlines():
        stage, event = line.split()
        running[stage] += 1 if event == "starts" else -1
        # A case is in progress from the start of its call to the end of its judge.
        running["case"] += (line == "target starts") - (line == "judge ends")
        most |= running
    assert dict(most) == {"target": workers, "judge": workers, "case": 2 * workers}
