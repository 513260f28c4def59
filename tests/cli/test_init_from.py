"""`agentv init --from`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.conftest import Project


def read(project: Project, name: str) -> Any:
    return yaml.safe_load((project.root / name).read_text(encoding="utf-8"))


# -- promptfoo


def test_promptfoo_configuration_is_converted_into_evals(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["The capital of {{country}} is Paris."]
        providers: [echo]
        tests:
          - vars: {country: France}
            assert: [{type: contains, value: Paris}]
        """,
    )
    done = project.run("init", "--from", "promptfoo")
    assert done.returncode == 0, done.stderr
    assert project.run("validate", "evals/").returncode == 0
    again = project.run("init", "--from", "promptfoo")
    assert (again.returncode, "already exists" in again.stderr) == (2, True)


# -- CSV


def test_columns_of_a_csv_file_are_guessed_by_their_names(project: Project) -> None:
    project.write("data/qa.csv", 'Case ID;User Prompt;Prompt;Ground Truth;lang\n1;x;"Capital of France?";Paris;fr\n')
    done = project.run("init", "--from", "csv", "data/qa.csv")
    assert done.returncode == 0, done.stderr
    assert read(project, "evals/qa.yaml") == {
        "execution": {"evaluators": [{"type": "icontains"}]},
        "evalcases": {
            "file": "../data/qa.csv",
            "columns": {"id": "Case ID", "input": "Prompt", "reference_answer": "Ground Truth"},
            "delimiter": ";",
        },
    }
    assert read(project, "agentv.config.yaml")["targets"]["scripted"]["provider"] == "mock"
    for line in ("1 row, 5 columns", "input             Prompt", "variables only    User Prompt, lang"):
        assert line in done.stdout, done.stdout
    assert "Run it:  agentv eval evals/qa.yaml" in done.stdout


def test_columns_with_the_names_of_fields_need_no_mapping(project: Project) -> None:
    project.write("qa.csv", "id,question,expected_outcome\na,What?,Says it\n")
    project.write("agentv.config.yaml", "targets: {mine: {provider: mock, response: x}}\n")
    assert project.run("init", "--from", "csv", "qa.csv").returncode == 0
    suite = read(project, "evals/qa.yaml")
    assert suite["evalcases"] == {"file": "../qa.csv"}
    assert suite["execution"]["evaluators"][0]["name"] == "not-empty"
    assert "mine" in read(project, "agentv.config.yaml")["targets"], "an existing configuration is kept"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "qa.csv is empty."),
        ("a,b\n1,2\n", "none of the columns `a` and `b` has a name for the question."),
        (None, "There is no file 'qa.csv'."),
    ],
)
def test_csv_file_without_questions_is_an_error(project: Project, content: str | None, message: str) -> None:
    if content is not None:
        project.write("qa.csv", content)
    done = project.run("init", "--from", "csv", "qa.csv")
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (project.root / "evals").exists()


# -- OpenAPI

API: dict[str, Any] = {
    "openapi": "3.1.0",
    "servers": [{"url": "https://{region}.example.test/v1/", "variables": {"region": {"default": "eu"}}}],
    "security": [{"bearer": []}],
    "paths": {
        "/ask": {
            "post": {
                "operationId": "askQuestion",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}},
                "responses": {
                    "422": {"content": {"application/json": {"schema": {"type": "object"}}}},
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Reply"}}}},
                },
            },
            "get": {"operationId": "list"},
        },
        "/bots/{bot}/chat": {
            "parameters": [
                {"name": "bot", "in": "path", "required": True, "schema": {"type": "string", "example": "b1"}}
            ],
            "post": {
                "security": [{"key": []}],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["messages", "model"],
                                "properties": {
                                    "model": {"type": "string", "enum": ["small", "large"]},
                                    "messages": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "properties": {"role": {"type": "string"}, "content": {"type": "string"}},
                                        },
                                    },
                                },
                            }
                        }
                    }
                },
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {
                                "schema": {
                                    "properties": {
                                        "id": {"type": "string"},
                                        "choices": {
                                            "items": {
                                                "properties": {
                                                    "message": {"properties": {"content": {"type": "string"}}}
                                                }
                                            }
                                        },
                                    }
                                }
                            }
                        }
                    }
                },
            },
        },
        "/upload": {"post": {"requestBody": {"content": {"multipart/form-data": {}}}}},
    },
    "components": {
        "schemas": {
            "Ask": {
                "allOf": [
                    {"$ref": "#/components/schemas/Base"},
                    {
                        "type": "object",
                        "required": ["query", "top_k"],
                        "properties": {
                            "query": {"type": "string", "example": "{{ ignored }}"},
                            "top_k": {"type": "integer", "default": 5},
                            "debug": {"type": "boolean"},
                        },
                    },
                ]
            },
            "Base": {
                "type": "object",
                "required": ["user"],
                "properties": {"user": {"type": "string", "example": "me"}},
            },
            "Reply": {
                "type": "object",
                "properties": {"trace": {"type": "string"}, "answer": {"type": ["string", "null"]}},
            },
        },
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        },
    },
}


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_each_post_operation_becomes_a_target(project: Project, suffix: str) -> None:
    project.write(f"api.{suffix}", json.dumps(API) if suffix == "json" else yaml.safe_dump(API))
    done = project.run("init", "--from", "openapi", f"api.{suffix}")
    assert done.returncode == 0, done.stderr
    config = read(project, "agentv.config.yaml")
    assert config["targets"]["askquestion"] == {
        "provider": "http",
        "url": "https://eu.example.test/v1/ask",
        "method": "POST",
        "headers": {"Authorization": "Bearer ${{ API_KEY }}"},
        "body": {"user": "me", "query": "{{ prompt }}", "top_k": 5},
        "response": "answer",
    }
    assert config["targets"]["bots-bot-chat"] == {
        "provider": "http",
        "url": "https://eu.example.test/v1/bots/b1/chat",
        "method": "POST",
        "headers": {"X-Api-Key": "${{ API_KEY }}"},
        "body": {"model": "small", "messages": [{"role": "user", "content": "{{ prompt }}"}]},
        "response": "choices[0].message.content",
    }
    assert set(config["targets"]) == {"askquestion", "bots-bot-chat"}
    assert config["defaults"] == {"target": "askquestion"}
    assert "`bot` in the URL is 'b1': check it" in done.stderr
    assert read(project, "evals/api.yaml")["evalcases"][0]["id"] == "first-question"


def test_operations_are_chosen_by_id_or_path(project: Project) -> None:
    project.write("api.json", json.dumps(API))
    done = project.run("init", "--from", "openapi", "api.json", "--operation", "/bots/{bot}/chat")
    assert done.returncode == 0, done.stderr
    assert set(read(project, "agentv.config.yaml")["targets"]) == {"bots-bot-chat"}
    done = project.run("init", "--from", "openapi", "api.json", "--operation", "askquestoin", "--path", "other")
    assert done.returncode == 2
    assert "did you mean `askquestion`?" in done.stderr


def test_operation_without_text_fields_needs_a_look(project: Project) -> None:
    api = {"openapi": "3.0.3", "paths": {"/a": {"post": {"requestBody": {"content": {"application/json": {}}}}}}}
    project.write("api.json", json.dumps(api))
    done = project.run("init", "--from", "openapi", "api.json")
    assert done.returncode == 0, done.stderr
    assert "http://localhost:8000 is assumed" in done.stderr
    assert "put `{{ prompt }}` where it belongs" in done.stderr
    assert "set `response`" in done.stderr


def test_schema_that_contains_itself_ends(project: Project) -> None:
    loop = {"$ref": "#/components/schemas/Loop"}
    node = {"type": "object", "required": ["next"], "properties": {"next": loop, "text": {"type": "string"}}}
    api: dict[str, Any] = {
        "openapi": "3.0.3",
        "paths": {"/a": {"post": {"requestBody": {"content": {"application/json": {"schema": loop}}}}}},
        "components": {"schemas": {"Loop": node, "Self": {"$ref": "#/components/schemas/Self"}}},
    }
    project.write("api.json", json.dumps(api))
    assert project.run("init", "--from", "openapi", "api.json").returncode == 0
    assert read(project, "agentv.config.yaml")["targets"]["a"]["body"]["text"] == "{{ prompt }}"
    api["components"]["schemas"]["Loop"] = {"allOf": [loop, {"type": "object"}]}
    project.write("api.json", json.dumps(api))
    assert project.run("init", "--from", "openapi", "api.json", "--force").returncode == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"swagger": "2.0"}', "api.json must be an OpenAPI 3 document, got no `openapi`."),
        ('{"openapi": "3.0.0", "paths": {}}', "api.json has no POST operation with a JSON body."),
        ("{", "api.json:2:1: not valid YAML"),
    ],
)
def test_file_that_is_not_an_api_is_an_error(project: Project, content: str, message: str) -> None:
    project.write("api.json", content)
    done = project.run("init", "--from", "openapi", "api.json")
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (project.root / "agentv.config.yaml").exists()


def test_existing_configuration_is_not_overwritten(project: Project) -> None:
    project.write("api.json", json.dumps(API))
    project.write("agentv.config.yaml", "targets: {}\n")
    done = project.run("init", "--from", "openapi", "api.json")
    assert (done.returncode, "agentv.config.yaml already exists." in done.stderr) == (2, True)
    assert (project.root / "agentv.config.yaml").read_text() == "targets: {}\n"
    assert not (project.root / "evals").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["qa.csv"], "FILE can only be used with --from."),
        (["--operation", "x"], "--operation can only be used with --from."),
        (["--from", "csv"], "--from csv needs a file."),
        (["--from", "csv", "qa.csv", "--operation", "x"], "--operation can only be used with --from openapi."),
    ],
)
def test_options_that_do_not_fit_are_errors(project: Project, arguments: list[str], message: str) -> None:
    done = project.run("init", *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
