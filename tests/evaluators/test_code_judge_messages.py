"""Error messages for invalid script output and invalid `code_judge` options."""

from __future__ import annotations

import pytest

from agentv.wire.output import OutputError, parse_output
from tests.conftest import Project
from tests.spec.support import run, write


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('{"score": 1, "hits": ["a", 1]}', "`hits[1]` is 1."),
        ('{"score": 1, "hits": [true]}', "`hits[0]` is true."),
        ('{"score": 1, "reasoning": 0}', "must be a string, got 0."),
        ('{"score": null}', "got null."),
    ],
)
def test_invalid_value_is_reported_as_printed(printed: str, expected: str) -> None:
    with pytest.raises(OutputError) as caught:
        parse_output(printed.encode())
    assert expected in str(caught.value)


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"": "x"}, ["A=B"], {"A": "x\0y"}])
def test_invalid_environment_variables_are_suite_errors(project: Project, env: object) -> None:
    write(project, "done()", {"env": env})
    ran = run(project)
    assert ran.process.returncode == 2
    assert "suite.yaml:1:" in ran.words
    assert "`env`" in ran.words


def test_timeout_reports_that_the_script_printed_a_result_and_did_not_read_on(project: Project) -> None:
    code = "sys.stdin.readline()\nprint('{\"score\": 1}', flush=True)\nimport time\ntime.sleep(600)"
    write(project, code, {"protocol": "jsonl", "timeout_seconds": 4})
    failure = run(project).failure
    assert "did not finish within 4 s" in failure
    assert "an execution ends when the script reads its next payload" in failure


def test_timeout_reports_result_without_a_newline(project: Project) -> None:
    code = "sys.stdin.readline()\nsys.stdout.write('{\"score\": 1}')\nsys.stdout.flush()\nimport time\ntime.sleep(600)"
    write(project, code, {"protocol": "jsonl", "timeout_seconds": 4})
    failure = run(project).failure
    assert "did not finish within 4 s" in failure
    assert "one JSON object on one line" in failure
