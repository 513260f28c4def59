"""`agentv schema --install` and `--modeline`."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from tests.conftest import Project

SETTINGS = ".vscode/settings.json"


def test_install_writes_schemas_and_settings(capitals: Project) -> None:
    done = capitals.run("schema", "--install")
    assert done.returncode == 0, done.stderr
    settings = json.loads((capitals.root / SETTINGS).read_text())
    assert settings["yaml.schemas"][".agentv/schema/suite.json"] == ["evals/**/*.yaml", "evals/**/*.yml"]
    assert "agentv.config.yaml" in settings["yaml.schemas"][".agentv/schema/config.json"]
    for name, file in (("suite", "capitals.yaml"), ("config", "agentv.config.yaml")):
        schema = json.loads((capitals.root / f".agentv/schema/{name}.json").read_text())
        jsonschema.validate(yaml.safe_load((capitals.root / file).read_text()), schema)
    again = capitals.run("schema", "--install")
    assert f"{SETTINGS} already names the schemas" in again.stdout


def test_install_keeps_other_settings_and_patterns(project: Project) -> None:
    mine = {"editor.rulers": [120], "yaml.schemas": {".agentv/schema/suite.json": ["mine/*.yaml"], "x.json": "x.yaml"}}
    project.write(SETTINGS, json.dumps(mine, indent=4))
    assert project.run("schema", "--install").returncode == 0
    text = (project.root / SETTINGS).read_text()
    settings = json.loads(text)
    assert settings["editor.rulers"] == [120]
    assert settings["yaml.schemas"][".agentv/schema/suite.json"] == ["mine/*.yaml"]
    assert settings["yaml.schemas"]["x.json"] == "x.yaml"
    assert ".agentv/schema/config.json" in settings["yaml.schemas"]
    assert '\n    "editor.rulers"' in text, "the indentation is kept"


@pytest.mark.parametrize(
    "text", ['{\n  // rulers\n  "editor.rulers": [120]\n}\n', '{"a": 1,}', "[]", '{"yaml.schemas": []}']
)
def test_settings_that_cannot_be_merged_are_not_changed(project: Project, text: str) -> None:
    project.write(SETTINGS, text)
    done = project.run("schema", "--install")
    assert done.returncode == 2
    assert SETTINGS in done.stderr
    assert '".agentv/schema/suite.json": [' in done.stderr, "the error has what to add by hand"
    assert (project.root / SETTINGS).read_text() == text


def test_modeline_is_added_once_and_corrected(project: Project) -> None:
    suite = project.root / "evals/deep/a.yaml"
    suite.parent.mkdir(parents=True)
    body = "# first\r\nevalcases:\r\n  - {id: a, input: x}\r\n"
    suite.write_bytes(body.encode())
    line = "# yaml-language-server: $schema=../../.agentv/schema/suite.json\r\n"
    assert "changed evals/deep/a.yaml" in project.run("schema", "--modeline", "evals").stdout
    assert suite.read_bytes().decode() == line + body
    assert "already names the schema" in project.run("schema", "--modeline", "evals").stdout
    suite.write_bytes(("# yaml-language-server: $schema=old.json\r\n" + body).encode())
    assert project.run("schema", "--modeline", "evals/deep/a.yaml").returncode == 0
    assert suite.read_bytes().decode() == line + body
    assert (project.root / ".agentv/schema/suite.json").is_file()


def test_modeline_of_a_configuration_names_its_schema(capitals: Project) -> None:
    assert capitals.run("schema", "--modeline", "agentv.config.yaml").returncode == 0
    first = (capitals.root / "agentv.config.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=.agentv/schema/config.json"


@pytest.mark.parametrize(
    "arguments", [["--modeline"], ["evals"], ["--only", "suite", "--install"], ["--modeline", "missing.yaml"]]
)
def test_contradicting_options_write_nothing(project: Project, arguments: list[str]) -> None:
    assert project.run("schema", *arguments).returncode == 2
    assert not (project.root / ".agentv").exists()
