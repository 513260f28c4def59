"""`agentv show` shows a case of a run, on a terminal in a pager."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from agentv.cli import program
from tests.conftest import AGENTV, Project

CONFIG = """
targets:
  shop: {provider: mock, response: You can return it within 14 days., token_usage: {input: 9, output: 8}}
  strict:
    provider: mock
    response: {reasoning: The days are wrong., hits: [answers it], misses: [14 days instead of 30], score: 0.3}
    token_usage: {input: 410, output: 60}
    cost_usd: 0.0011
defaults: {target: shop, judge_target: strict}
"""
SUITE = """
evalcases:
  - id: return
    input: How long may I take to return my order?
    expected_outcome: Says that 30 days are allowed.
    evaluators:
      - {type: llm_judge, weight: 3}
      - {type: contains, value: days}
  - {id: greets, input: Hello, evaluators: [{type: contains, value: days}]}
  - {id: other, input: Hello, evaluators: [{type: contains, value: nothing}, {type: contains, value: days, name: b}]}
"""


@pytest.fixture
def shop(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("returns.yaml", SUITE)
    done = project.run("eval", "returns.yaml", "--quiet")
    assert done.returncode == 1, done.stderr
    return project


def on_a_terminal(project: Project, *arguments: str, **env: str) -> tuple[str, int]:
    """What a command writes to a terminal of 80 columns, and its exit code."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in project.environment().items() if name not in {"NO_COLOR", "PAGER"}}
    process = subprocess.Popen(
        [*AGENTV, *arguments],
        cwd=project.root,
        env=environment | {"TERM": "xterm", "COLUMNS": "80"} | env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    try:
        while data := os.read(ours, 65536):
            output += data
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    return output.decode("utf-8").replace("\r\n", "\n"), process.wait(30)


def test_case_is_shown_with_its_question_score_and_judge_calls(shop: Project) -> None:
    done = shop.run("show", "return", env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    run = shop.run_dirs()[0].name
    for part in (
        "✗ return  fail 0.47, needs 0.80\n  suite   returns (returns.yaml:3)\n",
        "Question\n  How long may I take to return my order?\n\nExpected\n  Says that 30 days are allowed.\n",
        "Answer\n  You can return it within 14 days.\n",
        "Score\n  0.75 x 0.30 + 0.25 x 1.00 = 0.47, needs 0.80\n",
        "    The days are wrong.\n    + answers it\n    - 14 days instead of 30\n",
        "  1. llm_judge → strict  ok\n",
        "410 tokens in, 60 out, $0.0011\n    system prompt\n",
        "      --- answer ",
        '    reply\n      {\n        "reasoning": "The days are wrong.",\n',
        f"    agentv eval returns.yaml --case return --outputs {run}\n",
        f"    agentv show {run} other",
    ):
        assert part in done.stdout, part
    # The worst case of the latest run is the default.
    assert shop.run("show", env={"COLUMNS": "80"}).stdout == done.stdout
    everything = json.loads(shop.run("show", run, "ret*", "--json").stdout)
    assert everything["row"]["eval_id"] == "return"
    assert everything["case"]["expected_outcome"] == "Says that 30 days are allowed."
    assert everything["judge_calls"][0]["reply"]["rawText"]
    # The suggested command works.
    again = shop.run("eval", "returns.yaml", "--case", "return", "--outputs", run, "--quiet")
    assert again.returncode == 1, again.stderr
    assert [row["eval_id"] for row in shop.rows()] == ["return"]


def test_rows_are_listed_and_unknown_names_are_reported(
    shop: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.root)

    def show(*arguments: str) -> tuple[int, str, str]:
        code = program.run(["show", *arguments])
        return (code, *capsys.readouterr())

    for arguments, message in (
        (("retrun",), "'retrun' is neither a run nor a case of the latest run"),
        (("retrun",), "(did you mean `return`?)"),
        (("latest", "retrun"), "has no case 'retrun' (did you mean `return`?)"),
        (("2001", "return"), "run '2001' not found"),
        (("return", "--target", "shopp"), "has no target 'shopp' (did you mean `shop`?)"),
        (("--failed", "--diff", "latest"), "--failed and --diff cannot be used together"),
    ):
        code, _, error = show(*arguments)
        assert code == 2, arguments
        assert message in error
    # Rows are listed worst first.
    listed = show("--list")[1].splitlines()
    assert [line.split() for line in listed] == [
        ["0.47", "fail", "return"],
        ["0.50", "fail", "other"],
        ["1.00", "pass", "greets"],
    ]
    failed = json.loads(show("latest", "--failed", "--json")[1])
    assert [row["eval_id"] for row in failed] == ["return", "other"]
    # A run that was killed has cases without a row.
    run = shop.run_dirs()[0]
    lines = (run / "results.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "results.jsonl").write_text("".join(line for line in lines if '"eval_id":"greets"' not in line))
    (run / "run.json").write_text(json.dumps(shop.manifest(run) | {"status": "running"}))
    code, _, error = show("greets")
    assert code == 2
    assert f"case 'greets' has no row in run {run.name}: the run is not finished" in error
    assert f"agentv eval --resume {run.name}" in error
    (run / "results.jsonl").write_text("garbage\n")
    assert "has no valid rows: 1 line of results.jsonl damaged" in show()[2]


def test_case_is_compared_with_another_run(shop: Project) -> None:
    first = shop.run_dirs()[0].name
    shop.write("agentv.config.yaml", CONFIG.replace("within 14 days", "within 30 days").replace("0.3}", "0.9}"))
    shop.write("returns.yaml", SUITE.replace("Says that 30", "Mentions that 30"))
    assert shop.run("eval", "returns.yaml", "--quiet").returncode == 1
    narrow = shop.run("show", "return", "--diff", first, env={"COLUMNS": "80"}).stdout
    assert "return  fail 0.47 → pass 0.92  (+0.450)\n" in narrow
    assert "You can return it within [-14-]{+30+} days." in narrow
    assert "The case was changed between the runs: expected outcome.\n" in narrow
    assert "[-Says-]{+Mentions+} that 30 days" in narrow
    wide = shop.run("show", "return", "--diff", first, env={"COLUMNS": "120"}).stdout
    assert "You can return it within 14 days.                         │ You can return it within 30 days.\n" in wide
    # The older run is on the left, and without a case, the one that lost most is shown.
    assert "return  fail 0.47 → pass 0.92" in shop.run("show", first, "--diff", "latest").stdout
    both = json.loads(shop.run("show", "return", "--diff", first, "--json").stdout)
    assert both["before"]["run_id"] == first
    assert both["case_changed"] == ["expected outcome"]


def test_pager_is_used_on_a_terminal_only(shop: Project, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    paged, code = on_a_terminal(shop, "show", PAGER=f"tee {seen}")
    assert code == 0
    assert seen.read_text(encoding="utf-8") == paged
    assert "\x1b[1;31m✗ return\x1b[0m" in paged
    plain, code = on_a_terminal(shop, "show", "--no-pager", PAGER="false", NO_COLOR="1")
    assert code == 0
    assert "✗ return  fail 0.47" in plain
    assert "\x1b" not in plain
    # A pager that quits early is not an error, and neither is one that does not exist.
    for pager in ("true", "no-such-pager"):
        assert on_a_terminal(shop, "show", PAGER=pager)[1] == 0
    seen.unlink()
    assert "✗ return" in shop.run("show", env={"PAGER": f"tee {seen}"}).stdout
    assert not seen.exists()
