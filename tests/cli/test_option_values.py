"""Option values: empty values and non-finite numbers are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agentv
from agentv.errors import UsageError
from tests.conftest import Project


@pytest.mark.parametrize(
    "arguments",
    [
        ("capitals.yaml", "--outputs", ""),
        ("capitals.yaml", "--config", ""),
        ("capitals.yaml", "--out", ""),
        ("capitals.yaml", "--run-dir", ""),
        ("capitals.yaml", "--resume", ""),
        ("capitals.yaml", "--judge-target", ""),
        ("capitals.yaml", "--target", ""),
        ("capitals.yaml", "--case", ""),
        ("",),
        ("capitals.yaml", ""),
    ],
)
def test_empty_option_values_are_rejected(capitals: Project, arguments: tuple[str, ...]) -> None:
    done = capitals.run("eval", *arguments)
    assert done.returncode == 2
    assert " must not be empty." in done.stderr
    assert "omit it" in done.stderr
    assert not (capitals.root / ".agentv").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"repeat": 0}, "`repeat` must be a whole number from 1, got 0."),
        ({"repeat": "2"}, "`repeat` must be a whole number from 1, got '2'."),
        ({"repeat": True}, "`repeat` must be a whole number from 1, got True."),
        ({"workers": 0}, "`workers` must be a whole number from 1, got 0."),
        ({"max_judge_calls": -1}, "`max_judge_calls` must be a whole number from 0, got -1."),
        ({"timeout": 0}, "`timeout` must be a finite number above 0, got 0."),
        ({"max_cost": float("nan")}, "`max_cost` must be a finite number above 0, got nan."),
        ({"threshold": 1.5}, "`threshold` must be a finite number from 0 to 1, got 1.5."),
        ({"threshold": float("nan")}, "`threshold` must be a finite number from 0 to 1, got nan."),
        ({"config": ""}, "`config` must not be empty."),
        ({"outputs": "answers.jsonl"}, "a function as `target` cannot be used together"),
    ],
)
def test_python_options_are_validated_like_command_line_options(
    options: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as raised:
        agentv.evaluate(cases=[{"id": "a", "input": "Q"}], target=lambda question: question, **options)
    assert said in str(raised.value)


@pytest.mark.parametrize("options", [{"threshold": 0}, {"threshold": 1}, {"max_judge_calls": 0}, {"workers": 1}])
def test_boundary_values_are_accepted(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = agentv.evaluate(
        cases=[{"id": "a", "input": "Q"}],
        target=lambda question: question,
        evaluators=[{"type": "equals", "value": "Q"}],
        **options,
    )
    assert len(run) == 1
    assert run.passed
