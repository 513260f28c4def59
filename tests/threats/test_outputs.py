"""Nothing that a script prints, or fails to read, can hang, crash or mislead the run."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from agentv.wire.output import OutputError, parse_output
from tests.conftest import Project
from tests.spec.support import run, scripted, write, write_suite
from tests.threats.heartbeat import Heartbeat

GOOD = "echo '{\"score\": 1}'"


def test_invalid_and_out_of_range_scores_are_errors(project: Project, heartbeat: Heartbeat) -> None:
    """Invalid results, in one run with a valid one."""
    refused = {"nothing": "", "white space": " \\n\\t ", **{f"score {v}": f'{{"score": {v}}}' for v in SCORES}}
    refused |= {"missing": '{"hits": []}'}
    outside = {"1.5": "1.5", "8": "8", "-0.2": "-0.2", "1e308": "1e+308", "1.00001": "1.00001"}
    printed = {**refused, "good": '{"score": 0.9}', **{score: f'{{"score": {score}}}' for score in outside}}
    cases = [
        {
            "id": name,
            "input": "?",
            "evaluators": [{"type": "code_judge", "script": ["printf", "%b", text], "judge": True}],
        }
        for name, text in printed.items()
    ]
    write_suite(project, cases)
    project.write("agentv.config.yaml", json.dumps(scripted()))
    results = {row["eval_id"]: row["evaluator_results"][0] for row in run(project, env=heartbeat.env).rows}
    heartbeat.assert_steady()
    assert results["good"]["score"] == 0.9
    for name in refused:
        assert results[name]["score"] == 0
        assert "JSON object" in results[name]["error"] or "score must be" in results[name]["error"]
    for name, value in outside.items():
        assert results[name]["score"] == 0
        assert f"score must be between 0 and 1, got {value};" in results[name]["error"]


SCORES = ['"0.9"', "null", "[1]", "{}", "true", "NaN", "Infinity"]


def test_half_a_gigabyte_of_stderr_is_read_in_bounded_memory(project: Project) -> None:
    flood = "head -c 500000000 /dev/zero >&2; "
    write(project, "", {"script": ["sh", "-c", flood + GOOD]})
    process, peak = project.start("eval", "suite.yaml", "--run-dir", "measured"), 0
    while process.poll() is None:
        # Not `ru_maxrss`: a process inherits it from its parent.
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        peak = int(found[1]) if found else peak
        time.sleep(0.01)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert 10_000 < peak < 200_000
    write(project, "", {"script": ["sh", "-c", flood + "exit 1"]})
    assert len(run(project).failure) <= 64 * 1024


def test_unread_payload_does_not_block(project: Project) -> None:
    write(project, "", {"script": ["sh", "-c", GOOD]})
    # The payload contains it twice, as the answer and in the messages.
    answer = {"eval_id": "case-0", "candidate_answer": "x" * 25_000_000}
    (project.root / "answers.jsonl").write_text(json.dumps(answer) + "\n")
    assert run(project, "--outputs", "answers.jsonl", "--quiet").result["score"] == 1
    write(project, "", {"script": ["sh", "-c", 'echo "{\\"score\\": 1, \\"details\\": {\\"bytes\\": $(wc -c)}}"']})
    assert run(project, "--outputs", "answers.jsonl", "--quiet").details["bytes"] > 50_000_000


def test_typos_in_judge_access_options_are_reported(project: Project) -> None:
    project.write("agentv.config.yaml", json.dumps(scripted()))
    typos: dict[str, dict[str, Any]] = {
        "max_call": {"judge": {"max_call": 3}},
        "use_judge_provder": {"use_judge_provder": True},
    }
    for word, options in typos.items():
        evaluator = {"type": "code_judge", "script": ["true"], **options}
        write_suite(project, [{"id": "a", "input": "?", "evaluators": [evaluator]}])
        refused = project.run("validate", "suite.yaml")
        assert refused.returncode == 2
        assert f"unknown key `{word}` (did you mean" in refused.stderr
    write_suite(project, [{"id": "a", "input": "?", "evaluators": [{"type": "code_judge", "script": ["true"]}]}])
    assert project.run("validate", "suite.yaml").returncode == 0


MADE_TO_BE_SLOW = {
    "invalid objects on long lines": (b'{"a" ' + b"x" * 800 + b"\n") * 19_000,
    "python dict syntax": b"{'a': 1, 'b': 'hello'}\n" * 100_000,
    "unclosed lists": (b'{"a":[' + b"1," * 50_000 + b"\n") * 50,
    "endless nesting": b'{"a":[\n' * 300_000,
    "a duplicate among many keys": b"{" + b",".join(b'"k%d":1' % n for n in range(200_000)) + b',"k199999":1}',
}


@pytest.mark.parametrize("name", MADE_TO_BE_SLOW)
def test_hostile_output_is_parsed_in_bounded_time(name: str) -> None:
    started = time.process_time()
    with pytest.raises(OutputError):
        parse_output(MADE_TO_BE_SLOW[name])
    assert time.process_time() - started < 20
    assert parse_output(b'{"score": 1}').score == 1


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ("[' + '1,' * 1_000_000 + '1]", "it contains more than 200,000 values"),
        ("[' + '{},' * 80_000 + '{}]", None),
        ("[' + '1.25,' * 40_000 + '1]", None),
    ],
    ids=["a million numbers", "many small objects", "many numbers"],
)
def test_large_details_do_not_block_the_run(
    project: Project, heartbeat: Heartbeat, details: str, error: str | None
) -> None:
    code = f"""print('{{"score": 1, "details": {{"x": {details}' + '}}}}')"""
    write(project, code, {}, config=scripted())
    result = run(project, env=heartbeat.env).result
    heartbeat.assert_steady()
    if error is None:
        assert (result["error"], result["score"]) == (None, 1.0)
    else:
        assert error in result["error"]
