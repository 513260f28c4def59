"""The page about the viewer names every field of filters and every key, and shows pictures that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from agentv.view import assets
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "viewer.md").read_text(encoding="utf-8")
LARGEST_PICTURES = 1_700_000


def source(name: str) -> str:
    return assets.read(name).decode("utf-8")


def test_page_lists_every_field_of_filters() -> None:
    fields = re.findall(r'^  "?([\w.]+)"?: (?:text|number)\(', source("filter_fields.js"), re.MULTILINE)
    assert len(fields) > 20
    table = PAGE.partition("## Filter cases")[2].partition("## Look at one case")[0]
    assert [name for name in fields if f"`{name}" not in table] == []


def test_page_lists_every_key() -> None:
    keys = {
        key
        for name in assets.names()
        if name.endswith(".js")
        for key in re.findall(r'\{ key: "(\S+?)", does: ', source(name))
    }
    assert {"j", "k", "?", "Escape"} <= keys
    table = PAGE.partition("## Keyboard")[2].partition("## Print")[0]
    written = {key: {"ArrowLeft": "←", "ArrowRight": "→"}.get(key, key) for key in keys}
    assert [key for key, shown in written.items() if f"`{shown}`" not in table] == []


def test_every_page_has_pictures_in_light_dark_and_narrow() -> None:
    script = runpy.run_path(str(ROOT / "docs/images/make_viewer_pictures.py"))
    folder = Path(script["FOLDER"])
    expected = {f"{name}-{kind}.webp" for name in script["pages"]() for kind in script["KINDS"]}
    assert {path.name for path in folder.iterdir()} == expected, "Run: make pictures"
    assert sum(path.stat().st_size for path in folder.iterdir()) < LARGEST_PICTURES
