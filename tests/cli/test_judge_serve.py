"""`agentv judge serve`: a judge proxy for interactive use."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.judge_support import judges, read_until, started
from tests.conftest import AGENTV, Project

__all__ = ["judges"]


def ask(exports: str, question: str) -> tuple[int, dict[str, Any]]:
    """Make one call with the two exported variables."""
    said = dict(re.findall(r"^export (\w+)=(\S+)$", exports, re.MULTILINE))
    assert set(said) == {"AGENTV_JUDGE_PROXY_URL", "AGENTV_JUDGE_PROXY_TOKEN"}
    request = urllib.request.Request(
        said["AGENTV_JUDGE_PROXY_URL"] + "/invoke",
        data=json.dumps({"question": question}).encode(),
        headers={"Authorization": f"Bearer {said['AGENTV_JUDGE_PROXY_TOKEN']}"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0)])
def test_serve_prints_exports_answers_calls_and_stops_on_a_signal(
    judges: Project, number: signal.Signals, code: int
) -> None:
    with started(judges, "serve", "--max-calls", "1") as process:
        assert process.stdout is not None
        exports = process.stdout.read()  # stdout is closed after two lines, so a shell can continue
        assert len(exports.splitlines()) == 2
        opening = read_until(process.stderr, "Judge proxy open")
        assert "judge target strict, at most 1 call. Stop it with Ctrl-C" in opening
        status, reply = ask(exports, "Is it Paris?\nWell?")
        assert (status, reply["rawText"]) == (200, "yes")
        shown = read_until(process.stderr, "replied")
        assert "judge 1  strict" in shown
        assert "asked    Is it Paris? …" in shown
        status, refusal = ask(exports, "Once more?")
        assert status == 429
        assert "raise `--max-calls` of `agentv judge serve`" in refusal["error"]
        read_until(process.stderr, "refused")
        process.send_signal(number)
        assert process.wait(30) == code
        closing = read_until(process.stderr, "Judge proxy closed (stopped).")
        assert "strict: 1 of 1 call, 1 refused" in closing
    with pytest.raises(urllib.error.URLError):
        ask(exports, "Still open?")


def test_serve_closes_at_its_time_limit(judges: Project) -> None:
    done = judges.run("judge", "serve", "--for", "0.001", "--judge-target", "assistant")
    assert done.returncode == 0
    assert "(time limit of 0.001 min reached). assistant: 0 of 50 calls" in done.stderr


def test_shell_can_evaluate_the_exports_of_a_background_proxy(judges: Project, tmp_path: Path) -> None:
    script = f"""
        eval "$({" ".join(AGENTV)} judge serve 2> {tmp_path}/log &)"
        {sys.executable} -c 'from agentv_eval import create_judge_proxy_client as c
print(c().invoke(question="Paris?").raw_text)'
        kill "$(sed -n 's/.*kill //p' {tmp_path}/log)"
    """
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=judges.root,
        env=judges.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "yes\n"), done.stderr


def test_serve_uses_the_judge_target_of_the_suite(judges: Project) -> None:
    judges.write(
        "evals/other.yaml", "execution: {judge_target: broken}\n" + (judges.root / "evals/suite.yaml").read_text()
    )
    assert "judge target broken" in judges.run("judge", "serve", "--for", "0.001", "--suite", "evals/other.yaml").stderr


def test_serve_without_a_judge_reports_reason_and_next_step(judges: Project, tmp_path: Path) -> None:
    done = judges.run("judge", "serve", "--judge-target", "keyed", env={"JUDGE_KEY": ""})
    assert (done.returncode, done.stdout) == (2, "")
    assert "Cannot start the judge proxy: the judge target 'keyed' is not available: " in done.stderr
    assert "JUDGE_KEY" in done.stderr
    assert "--judge-target" in done.stderr
    nowhere = judges.run("judge", "serve", cwd=tmp_path)
    assert nowhere.returncode == 2
    assert "agentv init" in nowhere.stderr
