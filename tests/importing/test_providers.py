"""Providers of promptfoo with an API of their own, and what suites need from other directories."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentv.importing.promptfoo import Imported, import_promptfoo
from agentv.suite.yaml import YamlWalk
from agentv.templates import compile_template
from tests.conftest import Project


def imported(tmp_path: Path, provider: str, *lines: str, prompts: str = "['{{x}}']") -> Imported:
    path = tmp_path / "promptfooconfig.yaml"
    tests = "" if any(line.startswith("tests:") for line in lines) else "tests: [{vars: {x: a}}]"
    path.write_text("\n".join([f"prompts: {prompts}", f"providers: [{provider}]", tests, *lines]))
    return import_promptfoo(path, tmp_path)


def left_out(result: Imported) -> list[str]:
    return [note.message for note in result.notes if note.left_out]


def only_target(result: Imported) -> dict[str, Any]:
    (target,) = result.config["targets"].values()
    return dict(target)


@pytest.mark.parametrize(
    ("provider", "settings"),
    [
        (
            "{id: 'bedrock:arn:aws:bedrock:us-east-2::inference-profile/a', config: {inferenceModelType: claude}}",
            {"provider": "bedrock", "model": "arn:aws:bedrock:us-east-2::inference-profile/a"},
        ),
        (
            "{id: 'bedrock:mantle:zai.glm-4.6', config: {region: us-west-2, max_tokens: 9}}",
            {
                "provider": "openai_compatible",
                "model": "zai.glm-4.6",
                "base_url": "https://bedrock-mantle.us-west-2.api.aws/v1",
                "max_output_tokens": 9,
                "api_key": "${{ AWS_BEARER_TOKEN_BEDROCK }}",
            },
        ),
        (
            "{id: 'bedrock:mantle:xai.grok-4'}",
            {
                "provider": "openai_compatible",
                "model": "xai.grok-4",
                "base_url": "https://bedrock-mantle.us-west-2.api.aws/openai/v1",
                "api_key": "${{ AWS_BEARER_TOKEN_BEDROCK }}",
            },
        ),
        (
            "{id: 'azure:chat:r1', config: {apiHost: h, isReasoningModel: true, max_completion_tokens: 9}}",
            {
                "provider": "azure",
                "model": "r1",
                "base_url": "https://h",
                "max_output_tokens": 9,
                "api_key": "${{ AZURE_API_KEY }}",
            },
        ),
        (
            "{id: 'huggingface:text-generation:m', config: {apiEndpoint: 'https://127.0.0.1/m', temperature: 1}}",
            {
                "provider": "http",
                "url": "https://127.0.0.1/m",
                "method": "POST",
                "headers": {"Authorization": "Bearer ${{ HF_TOKEN }}", "Accept": "application/json"},
                "body": {"inputs": "{{ prompt }}", "parameters": {"return_full_text": False, "temperature": 1}},
                "response": "generated_text || [0].generated_text",
            },
        ),
    ],
)
def test_providers_become_targets_without_losses(tmp_path: Path, provider: str, settings: dict[str, Any]) -> None:
    result = imported(tmp_path, provider)
    assert left_out(result) == []
    assert only_target(result) == settings


def test_reasoning_model_with_a_temperature_is_noted(tmp_path: Path) -> None:
    result = imported(tmp_path, "{id: 'azure:chat:r1', config: {isReasoningModel: true, temperature: 1}}")
    assert left_out(result) == ["`isReasoningModel` in the provider's config is not imported"]


def test_system_instruction_of_gemini_is_read_from_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("Be brief.")
    result = imported(tmp_path, "{id: 'google:g', config: {systemInstruction: 'file://system.txt'}}")
    assert left_out(result) == []
    assert only_target(result)["extra_body"] == {"systemInstruction": {"parts": [{"text": "Be brief."}]}}
    result = imported(tmp_path, "{id: 'google:g', config: {systemInstruction: 'Speak {{ language }}.'}}")
    assert left_out(result) == ["`systemInstruction` in the provider's config is not imported"]


@pytest.mark.parametrize(
    ("provider", "settings"),
    [
        (
            "mistral:embedding:mistral-embed",
            {"model": "mistral-embed", "base_url": "https://api.mistral.ai/v1", "api_key": "${{ MISTRAL_API_KEY }}"},
        ),
        (
            "{id: 'azure:embeddings:e', config: {apiHost: h.openai.azure.com}}",
            {"model": "e", "base_url": "https://h.openai.azure.com/openai/v1", "api_key": "${{ AZURE_API_KEY }}"},
        ),
    ],
)
def test_embeddings_of_mistral_and_azure_become_targets(
    tmp_path: Path, provider: str, settings: dict[str, Any]
) -> None:
    tests = f"tests: [{{vars: {{x: a}}, assert: [{{type: similar, value: b, provider: {provider}}}]}}]"
    result = imported(tmp_path, "echo", tests)
    assert left_out(result) == []
    (name,) = set(result.config["targets"]) - {"echo"}
    assert result.config["targets"][name] == {"provider": "embeddings", **settings}
    assert result.suites[""]["evalcases"][0]["evaluators"][0]["target"] == name


def test_replicate_gets_the_request_of_promptfoo(tmp_path: Path) -> None:
    provider = "{id: 'replicate:meta/m', config: {max_tokens: 9, system_prompt: Be kind}}"
    result = imported(tmp_path, provider)
    assert left_out(result) == []
    target = only_target(result)
    assert target["url"] == "https://api.replicate.com/v1/models/meta/m/predictions"
    body = compile_template(target["body"])
    users = [{"role": "system", "content": "Be rude"}, {"role": "user", "content": 'say "a"'}]
    values = {"messages": users, "prompt": "last", "system_prompt": "Be rude"}
    sent = {"max_tokens": 9, "prompt": 'say "a"', "system_prompt": "Be rude"}
    assert json.loads(body.render(values)) == {"input": sent}
    sent = {"max_tokens": 9, "prompt": "last", "system_prompt": "Be kind"}
    assert json.loads(body.render({"messages": [], "prompt": "last", "system_prompt": ""})) == {"input": sent}
    versioned = only_target(imported(tmp_path, "'replicate:owner/m:0123'"))
    assert versioned["url"] == "https://api.replicate.com/v1/predictions"
    request = compile_template(versioned["body"]).render({"messages": [], "prompt": "a", "system_prompt": ""})
    assert json.loads(request) == {"version": "0123", "input": {"prompt": "a"}}


BOTO = """\
import io, json
class Client:
    def invoke_endpoint(self, EndpointName, Body, ContentType, Accept):
        body = json.loads(Body)
        assert (EndpointName, body["parameters"]["max_new_tokens"]) == ("mine", 9)
        return {"Body": io.BytesIO(json.dumps([{"generated_text": body["inputs"].upper()}]).encode())}
class Session:
    def __init__(self, profile_name, region_name): assert (profile_name, region_name) == (None, "us-west-2")
    def client(self, name): return Client()
"""


def test_sagemaker_endpoint_is_called_with_boto3(project: Project) -> None:
    project.write("boto3.py", BOTO)
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ['say {{x}}']
        providers:
          - id: sagemaker:huggingface:mine
            config: {region: us-west-2, maxTokens: 9, responseFormat: {path: 'json[0].generated_text'}}
        tests: [{vars: {x: hi}, assert: [{type: equals, value: SAY HI}]}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 0, done.stderr
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_class_of_a_package_for_node_is_called(project: Project) -> None:
    project.write("node_modules/mine/package.json", '{"name": "mine", "main": "./main.js"}')
    project.write(
        "node_modules/mine/main.js",
        "module.exports = {inner: {Echo: class { callApi(prompt) { return {output: 'Echo: ' + prompt}; } }}};\n",
    )
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ['{{x}}']
        providers: ['package:mine:inner.Echo']
        tests: [{vars: {x: hi}, assert: [{type: equals, value: 'Echo: hi'}]}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 0, done.stderr
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_environment_and_directory_of_codex_are_kept(tmp_path: Path) -> None:
    config = (
        "{working_dir: '{{ env.FOLDER | default(\"./work\") }}', "
        "cli_env: {AWS_REGION: us-east-2, AWS_SECRET_ACCESS_KEY: '{{env.KEY}}', MY_API_KEY: abcdef}}"
    )
    path = tmp_path / "old" / "promptfooconfig.yaml"
    path.parent.mkdir()
    path.write_text(f"prompts: [hi]\nproviders: [{{id: 'openai:codex-sdk', config: {config}}}]\ntests: [{{}}]\n")
    result = import_promptfoo(path, tmp_path / "evals")
    target = only_target(result)
    assert target["cwd"] == "${{ FOLDER:-../old/work }}"
    assert target["env"] == {
        "AWS_REGION": "us-east-2",
        "AWS_SECRET_ACCESS_KEY": "${{ KEY }}",
        "MY_API_KEY": "${{ MY_API_KEY }}",
    }
    assert left_out(result) == ["the value of MY_API_KEY is not copied; set the environment variable MY_API_KEY"]


def test_mcp_servers_of_claude_are_passed_to_the_program(tmp_path: Path) -> None:
    servers = "[{name: a, command: npx, args: [b]}, {name: c, url: 'http://127.0.0.1/'}]"
    result = imported(tmp_path, f"{{id: 'anthropic:claude-agent-sdk', config: {{mcp: {{servers: {servers}}}}}}}")
    assert left_out(result) == []
    command = only_target(result)["command"]
    assert "--strict-mcp-config" in command
    assert json.loads(command[command.index("--mcp-config") + 1]) == {
        "mcpServers": {
            "a": {"command": "npx", "args": ["b"]},
            "c": {"type": "http", "url": "http://127.0.0.1/"},
        }
    }
    result = imported(tmp_path, "{id: 'anthropic:claude-agent-sdk', config: {mcp: {servers: [{name: a, auth: {}}]}}}")
    assert left_out(result) == ["`mcp` in the provider's config is not imported"]


def test_images_and_audio_of_variables_are_sent_in_parts(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\xff\xd8\xff\xe0")  # the content decides
    (tmp_path / "b.mp3").write_bytes(b"ID3\xff")
    parts = (
        '[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "{{image}}"}}, '
        '{"type": "input_audio", "input_audio": {"data": "{{sound}}", "format": "mp3"}}]}]'
    )
    (tmp_path / "prompt.json").write_text(parts)
    tests = "tests: [{vars: {image: 'file://a.png', sound: 'file://b.mp3'}}]"
    result = imported(tmp_path, "echo", tests, prompts="['file://prompt.json']")
    assert left_out(result) == []
    (case,) = result.suites[""]["evalcases"]
    assert case["vars"] == {
        "image": "data:image/jpeg;base64," + base64.b64encode(b"\xff\xd8\xff\xe0").decode(),
        "sound": base64.b64encode(b"ID3\xff").decode(),
    }
    result = imported(tmp_path, "echo", tests, prompts="['What is it? {{image}}']")
    (message,) = left_out(result)
    assert message.startswith("the file of the variable `image` is sent as text")


XML = """\
prompts: ["{{x}}"]
providers: [echo]
defaultTest: {assert: [{type: is-xml}]}
tests: [{vars: {x: "<a><b/></a>"}}, {vars: {x: "<a>"}}, {vars: {x: text}}]
"""


def test_is_xml_becomes_a_check(project: Project) -> None:
    project.write("promptfooconfig.yaml", XML)
    assert project.run("import", "promptfoo", "promptfooconfig.yaml").returncode == 0
    project.run("eval", "suite.yaml")
    verdicts = {row["eval_id"]: (row["verdict"], row["error"]) for row in project.rows()}
    assert verdicts == {"test-1": ("pass", None), "test-2": ("fail", None), "test-3": ("fail", None)}


CHECKS = """\
prompts: [Hello]
providers: [echo]
tests: [{assert: [{type: python, value: "file://lib/check.py"}, {type: javascript, value: "file://lib/check.js"}]}]
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_scripts_outside_the_repository_of_the_suite_are_copied(project: Project) -> None:
    project.write("theirs/promptfooconfig.yaml", CHECKS)
    project.write(
        "theirs/lib/check.py", "import re\ndef get_assert(output, context): return bool(re.match('H', output))\n"
    )
    project.write("theirs/lib/check.js", "module.exports = (output) => output.startsWith('H');\n")
    (project.root / "ours" / ".git").mkdir(parents=True)
    done = project.run("import", "promptfoo", "theirs/promptfooconfig.yaml", "--out", "ours/suite.yaml")
    assert done.returncode == 0, done.stderr
    assert "the suite uses a copy (note)" in done.stderr
    assert "wrote ours/check.py\nwrote ours/check-2.cjs\n" in done.stdout
    suite = YamlWalk((project.root / "ours/suite.yaml").read_bytes()).document()
    values = [each["value"] for each in suite["evalcases"][0]["evaluators"]]
    assert values == ["check.py:get_assert", "check-2.cjs"]
    done = project.run("eval", "suite.yaml", cwd=project.root / "ours")
    assert done.returncode == 0, done.stdout + done.stderr
    # An own file of this name is only replaced on request, and never by a suite that is invalid.
    project.write("ours/check.py", "mine")
    (project.root / "ours/suite.yaml").unlink()
    (project.root / "ours/agentv.config.yaml").unlink()
    arguments = ("import", "promptfoo", "theirs/promptfooconfig.yaml", "--out", "ours/suite.yaml")
    done = project.run(*arguments)
    assert (done.returncode, "ours/check.py already exists" in done.stderr) == (2, True)
    assert (project.root / "ours/check.py").read_text() == "mine"
    project.write(
        "theirs/promptfooconfig.yaml", CHECKS.replace("{assert: [", "{assert: [{type: latency, threshold: -1}, ")
    )
    assert project.run(*arguments, "--force").returncode == 2
    assert (project.root / "ours/check.py").read_text() == "mine"
    assert (project.root / "ours/check-2.cjs").read_text().endswith("startsWith('H');\n")
    assert not (project.root / "ours/suite.yaml").exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("check.py", "import helper\ndef get_assert(output, context): return True\n"),
        ("check.py", "from . import helper\ndef get_assert(output, context): return True\n"),
        ("check.py", "HERE = __file__\ndef get_assert(output, context): return True\n"),
        ("check.js", "const helper = require('./helper');\nmodule.exports = () => true;\n"),
        ("check.js", "module.exports = () => __dirname !== '';\n"),
        ("check.js", "import helper from 'helper';\nexport default () => true;\n"),
    ],
)
def test_script_that_needs_other_files_is_not_copied(project: Project, name: str, code: str) -> None:
    project.write(f"theirs/{name}", code)
    project.write("theirs/helper.py", "")
    kind = "python" if name.endswith("py") else "javascript"
    project.write(
        "theirs/promptfooconfig.yaml",
        f"prompts: [Hello]\nproviders: [echo]\ntests: [{{assert: [{{type: {kind}, value: 'file://{name}'}}]}}]\n",
    )
    (project.root / "ours" / ".git").mkdir(parents=True)
    done = project.run("import", "promptfoo", "theirs/promptfooconfig.yaml", "--out", "ours/suite.yaml")
    assert done.returncode == 1
    assert "and needs other files; write the suite next to the configuration (`--out`)" in done.stderr
    assert not (project.root / "ours" / name).exists()
