"""The APIs by path, and the variables with which client libraries find them. APIs are imported when first used.

To add an API, write one file and add a line to `APIS`. A new vendor also needs a line in `VENDORS`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Set
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from agentv.wire.apis.api import Api
    from agentv.wire.apis.openai_embeddings import Embeddings

URL, TOKEN = "{url}", "{token}"
_METHOD = "[^/]*:[a-z]+[A-Z][A-Za-z]*"
"""A model and a method of Gemini. Names of models may contain a colon, too: `llama3:8b`."""


class Vendor(NamedTuple):
    """The APIs of a vendor: where they are, and what its client libraries read."""

    module: str
    """The module with the function `error_body(status, code, message, parameter)`."""
    paths: re.Pattern[str]
    """All paths of the vendor, also of APIs that are not supported. Errors there have the vendor's form."""
    variables: Mapping[str, str]
    """What scripts with judge access get: `{url}` and `{token}` are those of the proxy."""
    withheld: frozenset[str] = frozenset()
    """Variables that send its client libraries elsewhere, or another key to the proxy."""
    key_header: bytes | None = None
    """The header with the token, if it is not `Authorization`."""


VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(
        "agentv.wire.apis.openai",
        re.compile(
            rf"/v1/(?!messages\b|complete\b|models/{_METHOD}).*"
            r"|/(chat|responses|models|completions|embeddings|files|uploads|images|audio|moderations|batches"
            r"|fine_tuning|vector_stores|assistants|threads|realtime)(/.*)?"
        ),
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_BASE": "{url}/v1", "OPENAI_API_KEY": "{token}"},
        frozenset({"OPENAI_API_TYPE"}),
    ),
    "anthropic": Vendor(
        "agentv.wire.apis.anthropic",
        re.compile(r"/v1/(messages|complete)(/.*)?"),
        {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "{token}"},
        frozenset({"ANTHROPIC_API_BASE", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"}),
        b"x-api-key",
    ),
    "gemini": Vendor(
        "agentv.wire.apis.gemini",
        re.compile(rf"/v1(alpha|beta)/.*|/v1/models/{_METHOD}"),
        {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{token}", "GOOGLE_API_KEY": "{token}"},
        frozenset({"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"}),
        b"x-goog-api-key",
    ),
}
"""The vendors, by the option of `judge` that disables their variables."""

APIS: Mapping[str, str] = {
    "/v1/chat/completions": "agentv.wire.apis.openai_chat:ChatCompletions",
    "/chat/completions": "agentv.wire.apis.openai_chat:ChatCompletions",
    "/v1/responses": "agentv.wire.apis.openai_responses:Responses",
    "/responses": "agentv.wire.apis.openai_responses:Responses",
    "/v1/embeddings": "agentv.wire.apis.openai_embeddings:Embeddings",
    "/embeddings": "agentv.wire.apis.openai_embeddings:Embeddings",
    "/v1/messages": "agentv.wire.apis.anthropic:Messages",
    "/v1/models/{}": "agentv.wire.apis.gemini:GenerateContent",
    "/v1beta/models/{}": "agentv.wire.apis.gemini:GenerateContent",
    "/v1alpha/models/{}": "agentv.wire.apis.gemini:GenerateContent",
}
"""Path of `POST` requests -> the API. `{}` stands for one segment."""

MODELS = ("/v1/models", "/models")
MODEL = "/v1/models/{}"
API_VARIABLES = frozenset(name for vendor in VENDORS.values() for name in vendor.variables)


def variables_of(vendors: Iterable[str], url: str, token: str) -> dict[str, str]:
    """The variables of these vendors."""
    return {
        variable: value.replace(URL, url).replace(TOKEN, token)
        for name in vendors
        for variable, value in VENDORS[name].variables.items()
    }


def with_vendor_variables(
    environment: Mapping[str, str], vendors: Iterable[str], url: str, token: str, named: Set[str]
) -> dict[str, str]:
    """The environment in which client libraries of these vendors find the proxy and no other key.

    Nothing is changed for a vendor if the suite names one of its variables, which are then in `named`.
    """
    chosen = [name for name in vendors if named.isdisjoint({*VENDORS[name].variables, *VENDORS[name].withheld})]
    withheld = frozenset().union(*(VENDORS[name].withheld for name in chosen))
    kept = {name: value for name, value in environment.items() if name not in withheld}
    return kept | variables_of(chosen, url, token)


def vendor_at(path: str) -> Vendor | None:
    """The vendor whose client sends a request to this path; None for agentv's own routes."""
    return next((vendor for vendor in VENDORS.values() if vendor.paths.fullmatch(path)), None)


def error_body(vendor: Vendor, status: int, code: str, message: str, parameter: str | None) -> dict[str, Any]:
    """An error in the form of the vendor's API."""
    body: dict[str, Any] = importlib.import_module(vendor.module).error_body(status, code, message, parameter)
    return body


@cache
def _api(where: str) -> Api | Embeddings:
    module, _, name = where.partition(":")
    api: Api | Embeddings = getattr(importlib.import_module(module), name)()
    return api


def api_at(path: str) -> Api | Embeddings | None:
    """The API at a path."""
    where = APIS.get(path) or next(
        (APIS[known] for known in APIS if known.endswith("{}") and path.startswith(known[:-2])), None
    )
    return None if where is None else _api(where)
