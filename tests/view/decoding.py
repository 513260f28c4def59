"""Reads an HTML file of the viewer without a browser."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agentv.view.packed_columns import plain, unpack

_BLOCK = re.compile(r'<script type="text/plain" id="data-([\w-]+)">([A-Za-z0-9+/=]*)</script>\n')


def _json(name: str, data: bytes) -> str:
    if name == "contents":
        return data.decode("utf-8")
    contents = zlib.decompress(data, -zlib.MAX_WBITS)
    if name.startswith("columns-"):
        return json.dumps(plain(unpack(contents)), ensure_ascii=False)
    return contents.decode("utf-8")


@dataclass(frozen=True)
class Decoded:
    """An HTML file: its blocks of data, and the markup and code around them."""

    text: str

    @classmethod
    def read(cls, path: Path) -> Decoded:
        return cls(path.read_text(encoding="utf-8"))

    @cached_property
    def markup(self) -> str:
        return _BLOCK.sub("", self.text)

    @cached_property
    def json(self) -> Mapping[str, str]:
        """The JSON of all blocks by name."""
        found = {name: base64.b64decode(data, validate=True) for name, data in _BLOCK.findall(self.text)}
        assert len(found) == len(_BLOCK.findall(self.text))
        return {name: _json(name, data) for name, data in found.items()}

    def __getitem__(self, name: str) -> Any:
        return json.loads(self.json[name])

    @property
    def contents(self) -> Any:
        return self["contents"]

    @property
    def notes(self) -> list[str]:
        notes: list[str] = self.contents["about"]["notes"]
        return notes

    def entries(self, run: int = 0) -> list[dict[str, Any]]:
        """The rows with details, in all blocks of a run."""
        starts = self.contents["runs"][run]["starts"]
        blocks = [self[f"details-{run}-{number}"] for number in range(len(starts))]
        assert [block[0]["row"] for block in blocks] == starts
        assert f"details-{run}-{len(starts)}" not in self.json
        return [entry for block in blocks for entry in block]
