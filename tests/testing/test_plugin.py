"""The pytest plugin, in a separate pytest process."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

JUDGE = """
from agentv_eval import code_judge


@code_judge
def polite(input, judge):
    verdict = judge.verdict(question="Is this polite?", material=input.candidate_answer, choices=["yes", "no"])
    return {"score": 1 if verdict == "yes" else 0}
"""

TESTS = """
import os

import pytest

from agentv.errors import EvaluatorError
from agentv_eval import CodeJudgeInput, create_judge_proxy_client
from polite import polite


def test_in_this_process(judge_proxy):
    proxy = judge_proxy("Yes.")
    assert polite(CodeJudgeInput({"candidate_answer": "Please!"}), create_judge_proxy_client()) == {"score": 1}
    assert "Please!" in proxy.calls[0].question
    assert os.environ["AGENTV_JUDGE_PROXY_URL"] == proxy.url
    assert os.environ["AGENTV_JUDGE_PROXY_TOKEN"] == proxy.token
    assert proxy.ledger.call_count == 1


def test_as_a_process(judge_proxy, run_judge):
    proxy = judge_proxy(["perhaps", "no"], max_calls=2)
    assert run_judge("polite.py", {"candidate_answer": "Shut up."}).score == 0
    assert (len(proxy.calls), proxy.ledger.call_count) == (2, 2)


def test_the_judge_lent_last_is_the_one_that_is_asked(judge_proxy, run_judge):
    judge_proxy("no")
    last = judge_proxy(lambda call: "yes", targets={"strict": "no"})
    assert run_judge("polite.py", {"candidate_answer": "x"}).score == 1
    assert len(last.calls) == 1


def test_a_judge_that_says_nothing_usable_is_no_zero(judge_proxy, run_judge):
    judge_proxy("perhaps")
    run = run_judge("polite.py", {"candidate_answer": "x"})
    assert "no valid verdict after 3 attempts" in run.error
    with pytest.raises(EvaluatorError):
        run.score


def test_access_can_be_off(judge_proxy, run_judge):
    judge_proxy("yes")
    assert run_judge("polite.py", {}, judge=None).error is not None


def test_without_a_judge(run_judge):
    assert "NoneType" in run_judge("polite.py", {}).error


def test_the_environment_is_clean_again():
    assert "AGENTV_JUDGE_PROXY_URL" not in os.environ
    assert create_judge_proxy_client() is None


async def test_inside_a_loop(judge_proxy, run_judge):
    judge_proxy("yes")
    assert run_judge("polite.py", {"candidate_answer": "x"}).score == 1
"""


def plugin() -> list[str]:
    """Options that load the plugin; empty if agentv is installed with its entry point."""
    return [] if entry_points(group="pytest11", name="agentv") else ["-p", "agentv.testing.plugin"]


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTV_", "PYTEST_", "COV_"))}
    settings = ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:langsmith_plugin",
        "-W",
        "error",
        "-c",
        os.devnull,
        *(f"--override-ini={one}" for one in settings),
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin(), *options, *arguments],
        cwd=folder,
        env={
            **kept,
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [kept.get("PYTHONPATH")])]),
            "NO_COLOR": "1",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_judge_tests_pass_with_the_fixtures(tmp_path):
    (tmp_path / "polite.py").write_text(JUDGE, encoding="utf-8")
    (tmp_path / "test_polite.py").write_text(TESTS, encoding="utf-8")
    done = pytest_in(tmp_path, "--rootdir", str(tmp_path), "test_polite.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def test_wrong_judge_fails_its_test(tmp_path):
    (tmp_path / "polite.py").write_text(JUDGE.replace('== "yes"', '== "no"'), encoding="utf-8")
    (tmp_path / "test_polite.py").write_text(TESTS, encoding="utf-8")
    done = pytest_in(tmp_path, "--rootdir", str(tmp_path), "test_polite.py", "-k", "process")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed" in done.stdout


def test_pytest_lists_the_fixtures(tmp_path):
    done = pytest_in(tmp_path, "--fixtures")
    assert 'judge_proxy("yes")' in done.stdout
    assert "run_judge" in done.stdout
