"""What a script or a suite got wrong is told so that it can be put right."""

from __future__ import annotations

import pytest

from agentv.wire.output import OutputError, parse_output
from tests.conftest import Project
from tests.spec.support import run, write


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ('{"score": 1, "hits": ["a", 1]}', "`hits[1]` is 1."),
        ('{"score": 1, "hits": [true]}', "`hits[0]` is true."),
        ('{"score": 1, "reasoning": 0}', "must be a string, got 0."),
        ('{"score": null}', "got null."),
    ],
)
def test_the_wrong_value_is_named_as_it_was_printed(printed: str, said: str) -> None:
    with pytest.raises(OutputError) as caught:
        parse_output(printed.encode())
    assert said in str(caught.value)


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"": "x"}, ["A=B"], {"A": "x\0y"}])
def test_variables_that_no_program_can_be_given_are_mistakes_of_the_suite(project: Project, env: object) -> None:
    write(project, "done()", {"env": env})
    ran = run(project)
    assert ran.process.returncode == 2
    assert "suite.yaml:1:" in ran.words
    assert "`env`" in ran.words


def test_a_result_that_is_no_line_is_told_when_the_time_is_over(project: Project) -> None:
    code = "sys.stdin.readline()\nsys.stdout.write('{\"score\": 1}')\nsys.stdout.flush()\nimport time\ntime.sleep(600)"
    write(project, code, {"protocol": "jsonl", "timeout_seconds": 4})
    failure = run(project).failure
    assert "did not finish within 4 s" in failure
    assert "one JSON object on one line" in failure
