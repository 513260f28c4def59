"""Configurations of AgentV: `targets.yaml` of versions 2 to 4, and `providers.yaml` of version 5."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from agentv.errors import ConfigError
from agentv.targets.config import TargetsConfig, load_config
from agentv.targets.environment import Environment
from agentv.targets.providers.cli_output import parse_output
from tests.targets.support import ask, make

ALIASES = """\
targets:
  - {name: default, use_target: "${{ CHOSEN }}"}
  - {name: second, use_target: default}
  - {name: real, provider: mock, response: x, grader_target: judge, log_dir: logs}
  - {name: judge, provider: mock, response: y}
"""


def load(folder: Path, text: str, name: str = "targets.yaml", **variables: str) -> TargetsConfig:
    path = folder / ".agentv" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return load_config(path, Environment(variables))


def problems(folder: Path, text: str, name: str = "targets.yaml") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, name)
    return [f"{each.line}:{each.column}: {each.message}" for each in caught.value.problems]


def test_use_target_is_another_name_for_a_target(tmp_path: Path) -> None:
    config = load(tmp_path, ALIASES, CHOSEN="real")
    assert {name: spec.provider for name, spec in config.targets.items()} == dict.fromkeys(
        ("real", "judge", "default", "second"), "mock"
    )
    second = config.targets["second"]
    assert (second.name, second.judge_target, second.reading) == ("second", "judge", config.targets["real"].reading)


def test_use_target_with_an_unset_variable_makes_only_that_name_unavailable(tmp_path: Path) -> None:
    config = load(tmp_path, ALIASES)
    assert "the environment variable CHOSEN is not set" in str(config.targets["default"].unavailable)
    assert config.targets["real"].unavailable is None


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("[{name: a, use_target: b}, {name: b, use_target: a}]", "`use_target` leads back to"),
        ("[{name: a, use_target: rael}, {name: real, provider: mock}]", "(did you mean `real`?)"),
        (
            "[{name: a, provider: mock, grader_target: gradr}]",
            "1:52: unknown target 'gradr'; available: `a` and `none`",
        ),
        ("[{name: a, provider: cli, command: 'x {FIEL}'}]", "`command`"),
    ],
)
def test_problem_in_targets(tmp_path: Path, entries: str, problem: str) -> None:
    assert problem in "\n".join(problems(tmp_path, f"targets: {entries}\n"))


def test_target_with_a_setting_that_does_not_exist_here_is_unavailable(tmp_path: Path) -> None:
    text = "targets: [{name: a, provider: mock, fallback_targets: [b]}, {name: b, provider: mock, response: x}]"
    config = load(tmp_path, text)
    assert str(config.targets["a"].unavailable).startswith("AgentV's `fallback_targets` is not supported; name one")
    assert config.targets["b"].unavailable is None


def test_grader_of_the_directory_above_is_found(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    load(tmp_path, "targets: [{name: judge, provider: mock, response: y}, {name: other, provider: mock}]")
    inner = load(tmp_path / "example", "targets: [{name: a, provider: mock, response: x, grader_target: judge}]")
    assert list(inner.targets) == ["a", "judge"]


def test_providers_become_targets(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """\
        - {id: openai:chat:gpt-x, label: chat, config: {api_key: "{{ env.KEY }}", temperature: 0}}
        - {id: "exec:cat {PROMPT_FILE}", label: command}
        - {id: agentv:codex-cli, label: agent}
        - {id: mock, label: scripted, response: x}
        """,
        "providers.yaml",
        KEY="secret-value",
    )
    assert {name: spec.provider for name, spec in config.targets.items()} == {
        "chat": "openai", "command": "cli", "agent": "codex-cli", "scripted": "mock"
    }  # fmt: skip
    assert config.targets["chat"].model == "gpt-x"
    assert config.targets["chat"].reading.secret_values == {"secret-value"}
    assert "no provider for the agent 'codex-cli'" in str(config.targets["agent"].unavailable)


def test_defaults_are_in_the_project_file(tmp_path: Path) -> None:
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "config.yaml").write_text("defaults: {provider: b, grader: a}\n")
    providers = "providers: [{id: mock, label: a, response: x}, {id: mock, label: b, response: x}]"
    config = load(tmp_path, providers, "providers.yaml")
    assert (config.default_target(), config.defaults.judge_target) == ("b", "a")


def test_problem_in_providers_has_its_position(tmp_path: Path) -> None:
    text = "- id: mock\n  label: a\n  config:\n    respnse: x\n- id: mokc\n  label: b\n"
    assert [each.split(":")[:2] for each in problems(tmp_path, text, "providers.yaml")] == [["4", "5"], ["5", "7"]]


async def test_replay_fixtures_and_replies_have_their_messages_under_output(tmp_path: Path) -> None:
    line = {
        "schema_version": "agentv.replay_fixture.v1", "suite": "s", "test_id": "a", "source_target": "live",
        "attempt": 0, "output": [{"role": "assistant", "content": "hello", "duration_ms": 3}], "duration_ms": 7,
    }  # fmt: skip
    (tmp_path / "fixture.jsonl").write_text(json.dumps(line) + "\n")
    config = load(
        tmp_path,
        "targets: [{name: t, provider: replay, fixtures: ../fixture.jsonl, source_target: live, suite: s}]",
    )
    reading = config.targets["t"].reading
    assert reading.settings is not None
    settings = reading.settings.model_dump(include={"file", "from_target"})
    reply = await make(tmp_path / ".agentv", "replay", **settings).invoke(ask("x", eval_id="a"))
    assert (reply.text, reply.duration_ms) == ("hello", 7)
    printed = await parse_output(json.dumps({"output": line["output"]}).encode())
    assert printed.text == "hello"
    data = '{"output": [1, 2]}'
    assert (await parse_output(data.encode())).text == data  # an answer that is JSON
