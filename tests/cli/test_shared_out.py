"""Two runs cannot write one `--out` at the same time."""

from __future__ import annotations

import time

from tests.conftest import Project


def test_second_run_with_the_same_out_is_refused_with_the_name_of_the_first(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {slow: {provider: mock, response: ok, delay_ms: 600000}}\n")
    project.write("suite.yaml", "evalcases: [{id: one, input: Q, evaluators: [{type: contains, value: ok}]}]\n")
    (project.root / "link.jsonl").symlink_to("rows.jsonl")
    first = project.start("eval", "suite.yaml", "--run-dir", "first", "--out", "rows.jsonl")
    deadline = time.monotonic() + 30
    while not (project.root / "rows.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        for out in ("rows.jsonl", "link.jsonl"):
            second = project.run("eval", "suite.yaml", "--run-dir", "second", "--out", out)
            assert second.returncode == 2, second.stdout
            assert (
                f"{out} is being written by the run in {project.root / 'first'} (process {first.pid})" in second.stderr
            )
            assert "Choose another file for --out." in second.stderr
        assert not (project.root / "second").exists()
    finally:
        first.kill()
        first.communicate()
    project.write("agentv.config.yaml", "targets: {slow: {provider: mock, response: ok}}\n")
    assert project.run("eval", "suite.yaml", "--run-dir", "third", "--out", "rows.jsonl").returncode == 0
    assert (project.root / "rows.jsonl").read_bytes() == (project.root / "third" / "results.jsonl").read_bytes()
