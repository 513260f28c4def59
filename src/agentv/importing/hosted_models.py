"""Convert promptfoo's providers for models with an API of their own: Replicate, Hugging Face, and SageMaker."""

from __future__ import annotations

import json
import re
from typing import Any

from agentv.importing.http_provider import response_path
from agentv.importing.source import Node, Notes, entries
from agentv.importing.templates import environment_variables

REPLICATE = "https://api.replicate.com/v1"
_REPLICATE_KEY = "REPLICATE_API_TOKEN"
INFERENCE = "https://router.huggingface.co/hf-inference/models"
CALL_SAGEMAKER = """\
import json, sys
import boto3
prompt, (name, options) = sys.stdin.read(), (sys.argv[1], json.loads(sys.argv[2]))
body = {options["prompt"]: prompt, **options["body"]}
session = boto3.Session(profile_name=options["profile"], region_name=options["region"])
reply = session.client("sagemaker-runtime").invoke_endpoint(
    EndpointName=name, Body=json.dumps(body), ContentType=options["type"], Accept=options["accept"])
text = reply["Body"].read().decode()
def found(value, path):
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value
try:
    answer = json.loads(text)
    answer = next((part for part in (found(answer, path) for path in options["paths"]) if part), answer)
except ValueError:
    answer = text
print(json.dumps({"text": answer if isinstance(answer, str) else json.dumps(answer)}))
"""
_REPLICATE_PROMPT = "{%- set users = messages | selectattr('role', 'equalto', 'user') | list -%}"
_HUGGING_FACE = {
    *("top_k", "top_p", "temperature", "repetition_penalty", "max_new_tokens", "max_time", "return_full_text"),
    *("num_return_sequences", "do_sample", "use_cache", "wait_for_model"),
}
_CHOICES: tuple[list[str | int], ...] = (["choices", 0, "message", "content"], ["choices", 0, "text"], ["generation"])
_SAGEMAKER_PATHS: dict[str, tuple[list[str | int], ...]] = {
    "openai": (["generated_text"], *_CHOICES),
    "jumpstart": (["generated_text"],),
    "huggingface": (["generated_text"], [0, "generated_text"], [0]),
}


def hosted_settings(identity: str, config: Node | None, notes: Notes, node: Node) -> dict[str, Any] | None:
    """The settings of the target; None for other providers. Raises ValueError."""
    vendor, _, rest = identity.partition(":")
    if vendor == "replicate" and not re.match(r"(?:image|moderation|video):", rest):
        return _replicate(rest, config, notes, node)
    kind, _, model = rest.partition(":")
    if vendor in ("huggingface", "hf") and kind == "text-generation" and model:
        return _text_generation(model, config, notes)
    if vendor == "sagemaker" and kind in _SAGEMAKER_PATHS and model:
        return _sagemaker(kind, model, config, notes, node)
    return None


def _replicate(model: str, config: Node | None, notes: Notes, node: Node) -> dict[str, Any]:
    fixed: dict[str, Any] = {}
    variable = _REPLICATE_KEY
    for key, entry in entries(config):
        if key == "apiKey":
            variable = _variable(entry, variable, notes)
        elif key == "prompt":
            raise ValueError("its `prompt` with a prefix or suffix is not supported")
        else:
            fixed[key] = environment_variables(entry.value)
    system = f", {json.dumps('system_prompt')}: {{{{ system_prompt | tojson }}}}"
    instructions = fixed.pop("system_prompt", None)
    otherwise = f", {json.dumps('system_prompt')}: {json.dumps(instructions)}" if instructions else ""
    start = json.dumps(fixed)[:-1] + (", " if fixed else "")
    # The first user message is sent, as in promptfoo.
    inputs = (
        f'{start}"prompt": {{{{ (users[0].content if users else prompt) | tojson }}}}'
        f"{{% if system_prompt %}}{system}{{% else %}}{otherwise}{{% endif %}}}}"
    )
    owner, _, version = model.partition(":")
    start = f'"version": {json.dumps(version)}, ' if version else ""
    notes.look_at(node, "Replicate must finish the prediction within 60 seconds; the target does not wait longer")
    return {
        "provider": "http",
        "url": f"{REPLICATE}/predictions" if version else f"{REPLICATE}/models/{owner}/predictions",
        "method": "POST",
        "headers": {
            "Authorization": f"Bearer ${{{{ {variable} }}}}",
            "Content-Type": "application/json",
            "Prefer": "wait=60",
        },
        "body": f'{_REPLICATE_PROMPT}{{{start}"input": {inputs}}}',
        "response": "join('', to_array(output))",
    }


def _text_generation(model: str, config: Node | None, notes: Notes) -> dict[str, Any]:
    url, token = f"{INFERENCE}/{model}", "HF_TOKEN"
    parameters: dict[str, Any] = {"return_full_text": False}
    for key, entry in entries(config):
        if key == "apiEndpoint" and "/v1/chat" not in str(entry.value):
            url = str(environment_variables(entry.value))
        elif key == "apiKey":
            token = _variable(entry, token, notes)
        elif key in _HUGGING_FACE:
            parameters[key] = environment_variables(entry.value)
        else:
            notes.left_out(entry, f"`{key}` in the provider's config is not imported")
    return {
        "provider": "http",
        "url": url,
        "method": "POST",
        "headers": {"Authorization": f"Bearer ${{{{ {token} }}}}", "Accept": "application/json"},
        "body": {"inputs": "{{ prompt }}", "parameters": parameters},
        "response": "generated_text || [0].generated_text",
    }


def _sagemaker(kind: str, endpoint: str, config: Node | None, notes: Notes, node: Node) -> dict[str, Any]:
    numbers: dict[str, Any] = {"maxTokens": 1024, "temperature": 0.7, "topP": 1.0}
    options = {"profile": None, "region": None, "contentType": "application/json", "acceptType": "application/json"}
    stop: list[Any] = []
    paths = list(_SAGEMAKER_PATHS[kind])
    for key, entry in entries(config):
        value = environment_variables(entry.value)
        if key in numbers and isinstance(value, int | float):
            numbers[key] = value
        elif key in options and isinstance(value, str):
            options[key] = value
        elif key == "endpoint":
            endpoint = str(value)
        elif key == "stopSequences" and kind == "openai":
            stop = entry.value
        elif key == "responseFormat" and (steps := _steps(entry)) is not None:
            paths = [steps]
        elif key != "modelType":
            notes.left_out(entry, f"`{key}` in the provider's config is not imported")
    limits = {"temperature": numbers["temperature"], "top_p": numbers["topP"]}
    if kind == "openai":
        body: dict[str, Any] = {"max_tokens": numbers["maxTokens"], **limits, **({"stop": stop} if stop else {})}
    else:
        sampled = {"max_new_tokens": numbers["maxTokens"], **limits, "do_sample": numbers["temperature"] > 0}
        body = {"parameters": sampled | ({"return_full_text": False} if kind == "huggingface" else {})}
    call = {
        "prompt": "prompt" if kind == "openai" else "inputs",
        "body": body,
        "profile": options["profile"],
        "region": options["region"],
        "type": options["contentType"],
        "accept": options["acceptType"],
        "paths": paths,
    }
    notes.look_at(node, "the target needs `boto3` in the environment of agentv; conversations are sent as text")
    return {"provider": "cli", "command": ["python", "-c", CALL_SAGEMAKER, endpoint, json.dumps(call)]}


def _steps(entry: Node) -> list[str | int] | None:
    """The keys and indexes in the `path` of a response format; None if it is a program."""
    path = response_path(entry.raw("path")) if entry.is_mapping else None
    if path is None:
        return None
    found = re.findall(r'\[(\d+)\]|"([^"]+)"|([A-Za-z_]\w*)', path)
    return [int(index) if index else quoted or name for index, quoted, name in found]


def _variable(node: Node, default: str, notes: Notes) -> str:
    """The environment variable of an API key, which is never copied."""
    if match := re.fullmatch(r"\$\{\{ (\w+) \}\}", environment_variables(str(node.value))):
        return match[1]
    notes.left_out(node, f"the API key is not copied; set the environment variable {default}")
    return default
