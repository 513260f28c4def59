"""Variables: `.env` files, and which of them are secret."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from agentv.targets.config import TargetsConfig, load_config
from agentv.targets.environment import Environment
from agentv.targets.secrets import Secrets

KEY = "sk-test-0123456789"


def test_the_nearest_dotenv_wins_and_the_process_environment_overrides_all(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    near = tmp_path / "evals"
    near.mkdir()
    (tmp_path / ".env").write_text("A=root\nB=root\nC=root\n")
    (near / ".env").write_text("A=near\nB=near\n")
    environment = Environment.near(near, caller={"A": "caller"}, cwd=tmp_path)
    assert {name: environment.values[name] for name in "ABC"} == {"A": "caller", "B": "near", "C": "root"}
    assert environment.dotenv_names == {"A", "B", "C"}


def test_a_dotenv_above_the_repository_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=outside\n")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    start = tmp_path / "repository"
    assert Environment.near(start, caller={}, cwd=start).values == {}


def config_of(tmp_path: Path, text: str, environment: Environment) -> TargetsConfig:
    path = tmp_path / "agentv.config.yaml"
    path.write_text(dedent(text), encoding="utf-8")
    return load_config(path, environment)


CONFIG = """\
targets:
  real:
    provider: openai_compatible
    base_url: https://user:${{ URL_PASSWORD }}@example.invalid/v1?sig=${{ URL_SIGNATURE }}
    model: ${{ MODEL_NAME }}
    api_key: ${{ MAIN_KEY }}
    headers: {X-Team: 'team ${{ TEAM_TOKEN }}'}
  first: {provider: cli, command: [cat], env: {FIRST: '${{ FIRST_KEY }}'}}
  second: {provider: cli, command: [cat], env: [SECOND_KEY, PATH]}
  vendor: {provider: openai, model: gpt-4o}
"""

VARIABLES = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "URL_PASSWORD": "url-password-1",
    "URL_SIGNATURE": "url-signature-1",
    "MODEL_NAME": "a-model-name",
    "MAIN_KEY": KEY,
    "TEAM_TOKEN": "team-token-1",
    "FIRST_KEY": "first-key-1",
    "SECOND_KEY": "second-key-1",
    "OPENAI_API_KEY": "openai-key-1",
    "FROM_DOTENV": "plain-setting",
    "DB_PASSWORD": "dotenv-password",
    "COPY": f"Bearer {KEY}",
    "HARMLESS": "yes",
}


def secrets_and_config(tmp_path: Path) -> tuple[Secrets, TargetsConfig, Environment]:
    environment = Environment(VARIABLES, frozenset({"FROM_DOTENV", "DB_PASSWORD"}))
    config = config_of(tmp_path, CONFIG, environment)
    return Secrets.of([config], [environment]), config, environment


def test_secret_names_are_what_targets_read_and_what_dotenv_names(tmp_path: Path) -> None:
    secrets, _, _ = secrets_and_config(tmp_path)
    assert secrets.names >= {
        "URL_PASSWORD",
        "URL_SIGNATURE",
        "MODEL_NAME",
        "MAIN_KEY",
        "TEAM_TOKEN",
        "FIRST_KEY",
        "SECOND_KEY",
        "OPENAI_API_KEY",
        "FROM_DOTENV",
        "DB_PASSWORD",
    }
    assert not secrets.names & {"PATH", "HOME", "LC_ALL", "HARMLESS"}


def test_secret_values_are_those_that_reach_keys_headers_env_and_urls(tmp_path: Path) -> None:
    secrets, _, _ = secrets_and_config(tmp_path)
    assert secrets.values >= {
        KEY,
        "team-token-1",
        "first-key-1",
        "second-key-1",
        "url-password-1",
        "url-signature-1",
        "openai-key-1",
        "dotenv-password",
    }
    assert not secrets.values & {"a-model-name", "plain-setting", "/usr/bin"}


def test_a_childs_environment_has_no_secret_name_and_no_variable_that_contains_a_secret(
    tmp_path: Path,
) -> None:
    secrets, _, environment = secrets_and_config(tmp_path)
    assert secrets.scrub(environment.values) == {
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "LC_ALL": "C",
        "HARMLESS": "yes",
    }


def test_the_process_of_a_target_sees_only_its_own_secrets(tmp_path: Path) -> None:
    secrets, config, environment = secrets_and_config(tmp_path)
    first = secrets.scrub_for(config.targets["first"], environment)
    second = secrets.scrub_for(config.targets["second"], environment)
    assert "FIRST_KEY" in first
    assert "SECOND_KEY" not in first
    assert "SECOND_KEY" in second
    assert "FIRST_KEY" not in second
    assert "PATH" in second
