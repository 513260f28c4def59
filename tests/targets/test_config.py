"""The target configuration: where it is found, which settings are valid, and how problems are reported."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from agentv.errors import ConfigError
from agentv.targets.config import TargetsConfig, find_config, load_config
from agentv.targets.environment import Environment


def load(path: Path, text: str, **variables: str) -> TargetsConfig:
    path.write_text(dedent(text), encoding="utf-8")
    return load_config(path, Environment(variables))


def mistakes(path: Path, text: str, **variables: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, text, **variables)
    return [f"{p.line}:{p.column}: {p.message}" for p in caught.value.problems]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agentv.config.yaml"


def test_targets_may_be_a_mapping_or_a_list_of_named_entries(file: Path) -> None:
    mapping = load(file, "targets: {a: {provider: mock, response: x}}")
    listed = load(file, "targets:\n  - {name: a, provider: mock, response: x}")
    assert list(mapping.targets) == list(listed.targets) == ["a"]
    assert mapping.targets["a"].provider == "mock"


def test_a_missing_variable_makes_only_its_target_unavailable(file: Path) -> None:
    config = load(
        file,
        """\
        targets:
          real:
            provider: openai
            model: gpt-4o
            api_key: ${{ MY_KEY }}
          scripted: {provider: mock, response: x}
        """,
    )
    reason = config.targets["real"].unavailable
    assert reason is not None
    assert "MY_KEY" in reason
    assert f"{file}:5" in reason
    assert config.targets["scripted"].unavailable is None


def test_an_empty_variable_counts_as_missing(file: Path) -> None:
    config = load(file, "targets: {a: {provider: mock, response: '${{ X }}'}}", X="")
    assert "X is not set" in (config.targets["a"].unavailable or "")


def test_a_variable_is_filled_in_whole_inside_a_text_and_with_a_fallback(file: Path) -> None:
    config = load(
        file,
        """\
        targets:
          a: {provider: mock, response: '${{ WHOLE }}'}
          b: {provider: mock, response: 'say ${{WHOLE}} and ${{ OTHER:-a fallback }}!'}
        """,
        WHOLE="hello",
    )
    assert config.targets["a"].reading.settings.response == "hello"  # type: ignore[union-attr]
    assert config.targets["b"].reading.settings.response == "say hello and a fallback!"  # type: ignore[union-attr]


def test_a_variable_can_set_a_number(file: Path) -> None:
    config = load(file, "targets: {a: {provider: mock, response: x, max_retries: '${{ N }}'}}", N="4")
    assert config.targets["a"].reading.settings.max_retries == 4  # type: ignore[union-attr]


def test_a_variable_that_is_not_a_number_is_reported(file: Path) -> None:
    found = mistakes(file, "targets: {a: {provider: mock, response: x, max_retries: '${{ N }}'}}", N="many")
    assert found == ["1:57: `max_retries` must be a whole number, got 'many'"]


def test_all_problems_of_a_file_are_reported_together_with_their_positions(file: Path) -> None:
    found = mistakes(
        file,
        """\
        targets:
          a: {provider: mokc}
          b: {provider: mock, respons: x}
          c: {provider: mock, response: x, judge_target: bb}
          none: {provider: mock, response: x}
          d: {response: x}
          e: 5
        defaults:
          target: cc
          judge_targt: b
        extra: 1
        """,
    )
    assert [line.split(":")[0] for line in found] == ["2", "3", "4", "5", "6", "7", "9", "10", "11"]
    text = "\n".join(found)
    assert "unknown provider 'mokc' (did you mean `mock`?)" in text
    assert "unknown key `respons` (did you mean `response`?)" in text
    assert "unknown target 'bb'" in text
    assert "a target must not be named `none`" in text
    assert "has no `provider`; choose" in text
    assert "unknown key `judge_targt` (did you mean `judge_target`?)" in text
    assert "unknown key `extra`" in text


def test_typos_are_reported_even_if_a_variable_is_missing(file: Path) -> None:
    found = mistakes(file, "targets: {a: {provider: mock, response: '${{ NOPE }}', delay: 3}}")
    assert found == ["1:56: unknown key `delay` (did you mean `delay_ms`?)"]


def test_duplicate_targets_are_rejected(file: Path) -> None:
    twice = mistakes(file, "targets:\n  a: {provider: mock, response: x}\n  a: {provider: mock, response: y}\n")
    assert twice == ["3:3: duplicate key `a` (first at line 2)"]
    listed = mistakes(
        file, "targets:\n- {name: a, provider: mock, response: x}\n- {name: a, provider: mock, response: y}\n"
    )
    assert "configured twice; first at line 2" in listed[0]


def test_none_is_allowed_as_a_judge(file: Path) -> None:
    config = load(
        file,
        "targets: {a: {provider: mock, response: x, judge_target: none}}\ndefaults: {judge_target: none}",
    )
    assert config.targets["a"].judge_target == "none"


def test_the_default_target_is_the_named_one_else_the_only_one_else_the_one_called_default(
    file: Path,
) -> None:
    only = "targets: {a: {provider: mock, response: x}}"
    two = "targets: {a: {provider: mock, response: x}, b: {provider: mock, response: x}}"
    called = "targets: {a: {provider: mock, response: x}, default: {provider: mock, response: x}}"
    assert load(file, only).default_target() == "a"
    assert load(file, two).default_target() is None
    assert load(file, called).default_target() == "default"
    assert load(file, two + "\ndefaults: {target: b}").default_target() == "b"


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "[]", "targets:\n", "targets: 5", "just text", "targets: {a: [1]}"]
)
def test_a_file_without_targets_is_an_error_and_not_a_crash(file: Path, text: str) -> None:
    assert mistakes(file, text)


def test_broken_yaml_is_reported_with_line_and_column(file: Path) -> None:
    (found,) = mistakes(file, "targets:\n  a: {provider: mock\n")
    assert found.startswith("3:1: not valid YAML")


def test_agentvs_target_file_is_understood(file: Path) -> None:
    config = load(
        file,
        """\
        $schema: agentv-targets-v2.2
        targets:
          - name: default
            provider: azure
            endpoint: ${{ AZURE_OPENAI_ENDPOINT }}
            api_key: ${{ AZURE_OPENAI_API_KEY }}
            model: ${{ AZURE_DEPLOYMENT_NAME }}
            judge_target: helper
            workers: 3
            provider_batching: false
            retry_initial_delay_ms: 10
          - name: helper
            provider: cli
            command_template: echo {PROMPT} {FILES}
            files_format: '--file {path}'
            timeout_seconds: 30
            verbose: true
            keep_temp_files: true
            healthcheck: {type: command, command_template: 'true'}
        """,
        AZURE_OPENAI_ENDPOINT="https://example.invalid",
        AZURE_OPENAI_API_KEY="0123456789abcdef",
        AZURE_DEPLOYMENT_NAME="gpt",
    )
    assert {name: spec.unavailable for name, spec in config.targets.items()} == {
        "default": None,
        "helper": None,
    }
    assert config.targets["default"].judge_target == "helper"


# -- where it is found


def test_the_nearest_configuration_wins_and_agentv_config_wins_within_a_directory(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "agentv.config.yaml").touch()
    assert find_config(deep, tmp_path) == tmp_path / "agentv.config.yaml"
    (tmp_path / "a" / ".agentv").mkdir()
    (tmp_path / "a" / ".agentv" / "targets.yaml").touch()
    assert find_config(deep, tmp_path) == tmp_path / "a" / ".agentv" / "targets.yaml"
    (tmp_path / "a" / "agentv.config.yaml").touch()
    assert find_config(deep, tmp_path) == tmp_path / "a" / "agentv.config.yaml"


@pytest.mark.parametrize("name", [".agentv/targets.yaml", ".agentv/targets.yml", "targets.yaml", "targets.yml"])
def test_agentvs_file_names_are_found(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert find_config(tmp_path, tmp_path) == path


def test_the_search_stops_at_the_repository_and_then_looks_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "agentv.config.yaml").touch()
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert find_config(repository, elsewhere) is None
    (elsewhere / "targets.yaml").touch()
    assert find_config(repository, elsewhere) == elsewhere / "targets.yaml"
