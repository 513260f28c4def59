"""The examples in the documentation work, and its links are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import MEASURED, ROOT, Block, blocks, pages
from tests.docs.reader import Reader, matches

_LINK = re.compile(r"(?<!\\)!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


PAGES = pages()
TESTED = [page for page in PAGES if page != MEASURED and any(True for _ in blocks(page))]


@pytest.mark.parametrize("page", TESTED, ids=name_of)
def test_every_example_of_a_page_works_in_order(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path.resolve())
    for block in blocks(page):
        reader.follow(block)
    reader.validate()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_is_valid(page: Path) -> None:
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)} links to {link}, which does not exist"
        if anchor:
            assert anchor in anchors(there), f"{name_of(page)} links to {link}; {there.name} has no such heading"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub generates for the headings of a page."""
    headings = _HEADING.findall(_CODE.sub(lambda code: code[0].strip("`"), page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_untested_blocks_give_a_reason() -> None:
    reasons = {page: [block.not_tested for block in blocks(page) if block.not_tested is not None] for page in TESTED}
    assert all(len(reason.split()) > 3 for of_page in reasons.values() for reason in of_page)
    clusters = next(page for page in reasons if page.name == "many-machines.md")
    assert len(reasons.pop(clusters)) <= 11
    assert sum(map(len, reasons.values())) <= 11


def test_blocks_that_need_isolation_run_without_capabilities(tmp_path: Path) -> None:
    block = Block(
        ROOT / "README.md",
        1,
        "console",
        "$ grep CapEff /proc/self/status\nCapEff:\t0000000000000000\n",
        needs=("isolation",),
    )
    Reader(tmp_path).follow(block)


def test_block_is_skipped_if_a_needed_program_is_missing(tmp_path: Path) -> None:
    Reader(tmp_path).follow(Block(ROOT / "README.md", 1, "bash", "false\n", needs=("no-such-program",)))


def test_agents_md_is_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 60


def test_expected_output_must_match_the_printed_output() -> None:
    printed = "all 2 passed   0.3 s\n\n  Run     .agentv/runs/20261115-212032-73e733\n"
    assert matches("all 2 passed   1.9 s\n\n  Run     .agentv/runs/20260101-000000-abcdef", printed)
    assert matches("all 2 passed...\n...", printed)
    assert not matches("all 3 passed...\n...", printed)
    assert not matches("all 2 passed   0.3 s", printed)


def test_files_named_in_the_walk_and_the_map_exist() -> None:
    for page in ("docs/walk.md", "AGENTS.md"):
        paths = re.findall(r"`(src/agentv[\w./]*)`", (ROOT / page).read_text(encoding="utf-8"))
        assert paths
        assert [path for path in paths if not (ROOT / path).exists()] == []
