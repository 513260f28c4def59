"""Targets from an OpenAPI 3 document: one `http` target for each POST operation that takes JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from agentv.errors import UsageError
from agentv.importing.openapi_schemas import Schemas, answer_expression, body_with_prompt
from agentv.importing.source import UnreadableError, read_document
from agentv.text import all_of, did_you_mean

LOCAL = "http://localhost:8000"
"""Where the server is assumed to be if the document does not say it."""
_JSON = re.compile(r"application/([\w.+-]+\+)?json(;.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Operation:
    """A POST operation, as a target."""

    name: str
    path: str
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()
    """What the user should check."""


def read_operations(path: Path, wanted: tuple[str, ...] = ()) -> list[Operation]:
    """The operations of a document, or those with these ids or paths. UsageError if there are none."""
    try:
        document = read_document(path).value
    except UnreadableError as error:
        raise UsageError(f"{error}.") from None
    version = document.get("openapi") if isinstance(document, Mapping) else None
    if not isinstance(version, str) or not version.startswith("3."):
        got = f"`openapi: {version}`" if version is not None else "no `openapi`"
        raise UsageError(
            f"{path} must be an OpenAPI 3 document, got {got}.",
            next_step="Convert older documents to OpenAPI 3 first.",
        )
    operations = list(_operations(document))
    if not operations:
        raise UsageError(f"{path} has no POST operation with a JSON body.")
    for name in wanted:
        if not any(name in (each.name, each.path) for each in operations):
            known = [each.name for each in operations]
            raise UsageError(
                f"{path} has no POST operation '{name}' with a JSON body{did_you_mean(name, known)}.",
                next_step=f"Available: {all_of([f'{each.name} ({each.path})' for each in operations])}",
            )
    return [each for each in operations if not wanted or each.name in wanted or each.path in wanted]


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    schemas = Schemas(document)
    names: set[str] = set()
    for path, item in _mapping(document.get("paths")).items():
        shared = schemas.resolve(item)
        operation = schemas.resolve(shared.get("post"))
        content = _json_content(schemas.resolve(operation.get("requestBody")))
        if content is None:
            continue
        name = _name(str(operation.get("operationId") or path), names)
        names.add(name)
        yield _operation(_Found(name, str(path), operation, shared, content), document, schemas)


class _Found(NamedTuple):
    """An operation in the document, and the part of it that all operations of its path share."""

    name: str
    path: str
    operation: Mapping[str, Any]
    shared: Mapping[str, Any]
    content: Mapping[str, Any]


def _operation(found_at: _Found, document: Mapping[str, Any], schemas: Schemas) -> Operation:
    name, path, operation, shared, content = found_at
    notes: list[str] = []
    base = _server(operation, shared, document, notes)
    parameters = [
        schemas.resolve(each) for each in (*_list(shared.get("parameters")), *_list(operation.get("parameters")))
    ]
    url = _without_templates(base + _with_values(path, parameters, schemas, notes), notes)
    body, found = body_with_prompt(schemas.resolve(content.get("schema")), content.get("example"), schemas)
    if not found:
        notes.append("no text field for the question was found in the body: put `{{ prompt }}` where it belongs")
    settings: dict[str, Any] = {"provider": "http", "url": url, "method": "POST"}
    if headers := _headers(operation, document, parameters, schemas):
        settings["headers"] = headers
    settings["body"] = body
    answer = answer_expression(_reply_schema(operation, schemas), schemas)
    if answer is not None:
        settings["response"] = answer
    else:
        notes.append("no text field for the answer was found in the reply: set `response` (JMESPath) if it is JSON")
    return Operation(name, path, settings, tuple(notes))


def _without_templates(url: str, notes: list[str]) -> str:
    """An address of the document. `${{ NAME }}` in it would send a variable of the environment to that server."""
    harmless = re.sub(r"\$?\{\{.*?\}\}|\{[%#].*?[%#]\}|\{\{|\{[%#]", "", url)
    if harmless != url:
        notes.append("the address contained templates, which were removed")
    return harmless


def _name(written: str, taken: set[str]) -> str:
    """A name for the target: short, and different from the others."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", written).strip("-").lower() or "post"
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in names if each not in taken)


def _json_content(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for kind, content in _mapping(request.get("content")).items():
        if _JSON.fullmatch(str(kind)):
            return _mapping(content)
    return None


def _reply_schema(operation: Mapping[str, Any], schemas: Schemas) -> Mapping[str, Any]:
    replies = _mapping(operation.get("responses"))
    for status in sorted(map(str, replies), key=lambda status: (not status.startswith("2"), status)):
        reply = replies.get(status, replies.get(int(status)) if status.isdigit() else None)
        content = _json_content(schemas.resolve(reply))
        if content is not None and (status.startswith("2") or status == "default"):
            return schemas.resolve(content.get("schema"))
    return {}


def _server(
    operation: Mapping[str, Any], shared: Mapping[str, Any], document: Mapping[str, Any], notes: list[str]
) -> str:
    levels = (_list(each.get("servers")) for each in (operation, shared, document))
    server = _mapping(next((servers[0] for servers in levels if servers), None))
    url = str(server.get("url") or "/")
    for name, variable in _mapping(server.get("variables")).items():
        url = url.replace(f"{{{name}}}", str(_mapping(variable).get("default", "")))
    url = url.rstrip("/")
    if re.match(r"https?://[^/{}]+", url):
        return url
    notes.append(f"the document does not name a host: {LOCAL} is assumed")
    return f"{LOCAL}{url if url.startswith('/') else ''}"


def _with_values(path: str, parameters: list[Mapping[str, Any]], schemas: Schemas, notes: list[str]) -> str:
    """The path with values for its parameters, and required query parameters."""
    query: dict[str, str] = {}
    for parameter in parameters:
        name, where = str(parameter.get("name")), parameter.get("in")
        if where == "path":
            value = str(schemas.example(parameter))
            path = path.replace(f"{{{name}}}", value)
            notes.append(f"`{name}` in the URL is {value!r}: check it")
        elif where == "query" and parameter.get("required") is True:
            query[name] = str(schemas.example(parameter))
            notes.append(f"`{name}` in the URL is {query[name]!r}: check it")
    return f"{path}?{urlencode(query)}" if query else path


def _headers(
    operation: Mapping[str, Any], document: Mapping[str, Any], parameters: list[Mapping[str, Any]], schemas: Schemas
) -> dict[str, str]:
    headers = {
        str(each.get("name")): str(schemas.example(each))
        for each in parameters
        if each.get("in") == "header" and each.get("required") is True
    }
    schemes = _mapping(_mapping(document.get("components")).get("securitySchemes"))
    required = _list(operation.get("security", document.get("security")))
    for name in _mapping(required[0]) if required else ():
        scheme = schemas.resolve(schemes.get(name))
        if scheme.get("type") == "apiKey" and scheme.get("in") == "header":
            headers[str(scheme.get("name"))] = "${{ API_KEY }}"
        elif scheme.get("type") in ("http", "oauth2", "openIdConnect") and scheme.get("scheme") != "basic":
            headers["Authorization"] = "Bearer ${{ API_KEY }}"
    return headers


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
