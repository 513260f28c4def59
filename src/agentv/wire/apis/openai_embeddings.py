"""OpenAI's embeddings: `POST /v1/embeddings`."""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentv.jsonio import dump_line
from agentv.messages import TokenUsage
from agentv.wire.apis.api import ApiReply
from agentv.wire.apis.fields import Fields

MOST_STRINGS = 2048


@dataclass(frozen=True, slots=True)
class EmbeddingsRequest:
    """Strings to embed."""

    model: str
    strings: tuple[str, ...]
    base64: bool = False
    """Whether the reply has base64 instead of numbers."""


class Embeddings:
    """Embeddings. One request is one call, whatever the number of strings."""

    def parse(self, path: str, body: bytes) -> EmbeddingsRequest:
        del path
        fields = Fields.of_body(body)
        fields.accept("user")
        model = fields.required("model", "the name of a model")
        value = fields.raw("input")
        strings = [value] if isinstance(value, str) else value
        if isinstance(strings, list) and strings and all(isinstance(item, int | list) for item in strings):
            raise fields.unsupported(
                "input", "must be text, got tokens; with LangChain, set `check_embedding_ctx_length=False`"
            )
        if not isinstance(strings, list) or not strings or not all(isinstance(item, str) and item for item in strings):
            raise fields.wrong("input", "a string or a list of strings, none of them empty")
        if len(strings) > MOST_STRINGS:
            raise fields.wrong("input", f"a list of at most {MOST_STRINGS:,} strings", len(strings))
        encoding = fields.text("encoding_format")
        if encoding not in (None, "float", "base64"):
            raise fields.wrong("encoding_format", "`float` or `base64`", encoding)
        fields.end()
        return EmbeddingsRequest(model, tuple(strings), encoding == "base64")

    def render(
        self, request: EmbeddingsRequest, vectors: Sequence[bytes], usage: TokenUsage | None, model: str
    ) -> ApiReply:
        # One by one: encoding a million numbers in one step would block all threads.
        data = [
            dump_line({"object": "embedding", "index": index, "embedding": _encoded(vector, base64=request.base64)})
            for index, vector in enumerate(vectors)
        ]
        tokens = 0 if usage is None else usage.input + (usage.cached or 0)
        counts = {"prompt_tokens": tokens, "total_tokens": tokens}
        rest = dump_line({"object": "list", "model": model, "usage": counts})
        return ApiReply(f'{rest[:-1]},"data":[{",".join(data)}]}}'.encode())


def _encoded(vector: bytes, *, base64: bool) -> Any:
    if base64:
        return b64encode(vector).decode("ascii")
    floats = array("f", vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return list(floats)
