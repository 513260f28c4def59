"""The distribution for other environments, and its README."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.sdk_python.judging_server import JudgingServer
from tests.sdk_python.support import (
    SDK,
    TOKEN,
    Answer,
    Seen,
    Server,
    clean_environment,
    http_answer,
    reply,
    run_judge,
)


def run(*argv: str | Path, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, timeout=100, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_wheel_builds_and_works_without_agentv(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(SDK, source, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", source)
    (wheel,) = (tmp_path / "dist").glob("agentv_eval-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "agentv_eval/py.typed" in names
    assert all(name.startswith("agentv_eval") for name in names)
    target = tmp_path / "target"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--quiet",
        "--target",
        target,
        wheel,
    )
    script = """
import importlib.util, agentv_eval
assert importlib.util.find_spec("agentv") is None
agentv_eval.define_code_judge(lambda input, judge: {
    "score": 1, "reasoning": judge.invoke(question="q").raw_text, "details": {"file": agentv_eval.__file__}})
"""
    with Server(lambda seen: reply("installed")) as server:
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(target), **server.environ}
        done = run(sys.executable, "-S", "-c", script, input="{}", env=environ, cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["reasoning"] == "installed"
    assert Path(result["details"]["file"]).is_relative_to(target)


def blocks(language: str) -> list[str]:
    text = (SDK / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def readme_files(tmp_path) -> dict[str, Path]:
    """Every Python block, written to the file its first line names."""
    files = {}
    for block in blocks("python"):
        name = block.splitlines()[0].removeprefix("# ")
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block, encoding="utf-8")
        files[name] = path
    return files


def yes_to_paris(seen: Seen) -> Answer:
    info = {
        "targetName": "strict",
        "maxCalls": 10,
        "callCount": 0,
        "availableTargets": ["assistant", "strict"],
    }
    if seen.path == "/info":
        return Answer(http_answer(200, info))
    body = json.loads(seen.body)

    def judged(item: dict[str, str]) -> dict[str, object]:
        return {"outputMessages": [], "rawText": "Yes." if "Paris is" in item["question"] else "No."}

    if seen.path == "/invokeBatch":
        return Answer(http_answer(200, {"responses": [judged(item) for item in body["requests"]]}))
    return Answer(http_answer(200, judged(body)))


PAYLOAD = '{"question": "What is the capital of France?", "candidate_answer": "Paris is."}'


def test_every_code_block_of_the_readme_is_tested():
    text = (SDK / "README.md").read_text(encoding="utf-8")
    languages = re.findall(r"^```(\w+)$", text, re.MULTILINE)
    assert sorted(set(languages)) == ["bash", "python", "yaml"]
    assert [block.splitlines()[0] for block in blocks("python")] == [
        "# judges/keywords.py",
        "# test_keywords.py",
        "# judges/contextual_precision.py",
        "# judges/two_opinions.py",
        "# judges/graded.py",
        "# ask.py",
    ]


def test_the_judge_of_the_readme_judges(readme_files):
    done = run_judge(readme_files["judges/keywords.py"], PAYLOAD)
    assert done.result["score"] == 1
    assert "this goes to stderr" in done.stderr


def test_the_command_of_the_readme_runs(readme_files, tmp_path):
    (command,) = blocks("bash")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run("sh", "-c", command, cwd=tmp_path, env=clean_environment(PATH=path))
    assert json.loads(done.stdout)["score"] == 1


def test_the_test_of_the_readme_passes(readme_files, tmp_path):
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:asyncio",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:langsmith_plugin",
        "test_keywords.py",
    ]
    done = run(*argv, cwd=tmp_path, env=clean_environment(PYTHONPATH=str(tmp_path)))
    assert "1 passed" in done.stdout


def test_the_judge_of_the_readme_that_asks_a_model_judges(readme_files):
    with Server(yes_to_paris) as server:
        done = run_judge(readme_files["judges/contextual_precision.py"], PAYLOAD, environ=server.environ)
    assert done.result["score"] == 1
    assert done.result["misses"] == ["Cheese is food."]
    assert [seen.path for seen in server.seen] == ["/invokeBatch"]


def test_the_asynchronous_judge_of_the_readme_judges(readme_files):
    with Server(yes_to_paris) as server:
        done = run_judge(readme_files["judges/two_opinions.py"], PAYLOAD, environ=server.environ)
    assert (done.result["score"], done.result["reasoning"]) == (1, "asked assistant, strict")
    targets = sorted(json.loads(seen.body)["target"] for seen in server.seen if seen.body)
    assert targets == ["assistant", "strict"]


def test_the_schema_judge_of_the_readme_retries_until_it_gets_json(readme_files):
    replies = ["A 4, I think.", 'Here:\n```json\n{"grade": 4, "reason": "no source"}\n```']
    with JudgingServer(replies) as server:
        done = run_judge(readme_files["judges/graded.py"], PAYLOAD, environ=server.environ)
    assert (done.result["score"], done.result["reasoning"]) == (0.75, "no source")
    assert "\nParis is.\n--- end of answer " in server.questions[0]


def test_the_client_of_the_readme_asks(readme_files):
    with Server(yes_to_paris) as server:
        done = run(sys.executable, readme_files["ask.py"], env=clean_environment(**server.environ))
    assert done.stdout.splitlines() == ["strict: 0 of 10 calls made", "No. None"]
    off = run(sys.executable, readme_files["ask.py"], env=clean_environment())
    assert off.stdout == ""
    assert TOKEN not in done.stdout


def test_the_suites_of_the_readme_name_files_of_the_readme(readme_files):
    for block in blocks("yaml"):
        for evaluator in yaml.safe_load(block)["evaluators"]:
            assert evaluator["type"] == "code_judge"
            assert evaluator["script"][1] in readme_files
