"""The pages in docs/libraries, with the libraries installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.reader import Reader
from tests.live.libraries.environments import CURRENT, NODE, TRULENS, folder_of, interpreter, is_installed

pytestmark = pytest.mark.libraries
ENVIRONMENTS = {"trulens": TRULENS, "vercel-ai": NODE}
"""Pages whose library is not in the environment of most."""
PAGES = sorted(
    page
    for page in (ROOT / "docs" / "libraries").glob("*.md")
    if any(need.startswith("package:") for block in blocks(page) for need in block.needs)
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_of_a_page_works(page: Path, tmp_path: Path) -> None:
    name = ENVIRONMENTS.get(page.stem, CURRENT)
    if not is_installed(name):
        pytest.skip(f"the libraries ({name}) are not installed; `make test-libraries` installs them")
    if name == NODE:
        (tmp_path / "node_modules").symlink_to(folder_of(NODE))
    reader = Reader(tmp_path.resolve(), interpreter(name))
    for block in blocks(page):
        reader.follow(block)
    reader.validate()
