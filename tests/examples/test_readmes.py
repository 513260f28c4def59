"""The commands in the READMEs of the examples print the shown output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.reader import Reader
from tests.examples import typescript

PAGES = sorted((ROOT / "examples").glob("*/README.md"))
TYPESCRIPT = "typescript"


def name_of(page: Path) -> str:
    return page.parent.name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_a_page_print_the_shown_output(page: Path, folder: Path) -> None:
    # These pages use files next to them, so their commands are `text` blocks, which the tests of docs do not run.
    reader = Reader(folder)
    for block in blocks(page):
        if block.text.startswith("$ ") and TYPESCRIPT not in block.needs:
            reader.follow(replace(block, language="console"))


@typescript.needed
def test_typescript_commands_of_pages_work(built_folder: Path) -> None:
    found = [block for page in PAGES for block in blocks(page) if TYPESCRIPT in block.needs]
    assert len(found) == len(list((ROOT / "examples").glob("*/suite.typescript.yaml")))
    for block in found:
        Reader(built_folder).follow(replace(block, language="console", needs=()))


@pytest.mark.parametrize("suite", sorted((ROOT / "examples").glob("*/suite.yaml")), ids=name_of)
def test_every_example_is_listed_in_the_readme(suite: Path) -> None:
    assert f"| [{suite.parent.name}](" in (ROOT / "examples/README.md").read_text(encoding="utf-8")
