"""Every page of the documentation is in the navigation of the site and in an index, and the site works offline."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.view.browsers import open_browser

SITE = ROOT / "docs/site"
CONFIG = SITE / "mkdocs.yml"
SECTIONS = ["Home", "Tutorial", "How-to", "Reference", "Explanation", "Contributing"]
INDEXES = {
    "docs/adr": "docs/adr/README.md",
    "docs/libraries": "docs/libraries/README.md",
    "docs/providers": "docs/providers/README.md",
}
"""Directories whose pages are listed in a page of their own; all others are listed in the README."""


@cache
def nav() -> list[dict[str, Any]]:
    text = CONFIG.read_text(encoding="utf-8").partition("\nnav:\n")[2]
    entries: list[dict[str, Any]] = yaml.safe_load(text)
    return entries


def paths(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from paths(part)


def pages_of_docs() -> list[str]:
    return sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))


def test_every_page_of_docs_and_examples_is_in_the_navigation_of_the_site() -> None:
    examples = {str(page.relative_to(ROOT)) for page in (ROOT / "examples").rglob("*.md")}
    missing = sorted({*pages_of_docs(), *examples} - set(paths(nav())))
    lines = "\n".join(f"  - Title as people search for it: {page}" for page in missing)
    assert not missing, f"add to `nav` in docs/site/mkdocs.yml, under {', '.join(SECTIONS[1:])}:\n{lines}"


def test_every_page_of_the_navigation_exists_and_is_listed_once() -> None:
    listed = Counter(paths(nav()))
    assert [page for page in listed if not (ROOT / page).is_file()] == []
    assert [page for page, count in listed.items() if count > 1] == []
    assert [title for entry in nav() for title in entry] == SECTIONS


@pytest.mark.parametrize("page", pages_of_docs())
def test_every_page_of_docs_is_in_an_index(page: str) -> None:
    index = INDEXES.get(str(Path(page).parent), "README.md")
    if page == index:
        index = "README.md"
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / index).read_text(encoding="utf-8"))
    linked = {(ROOT / index).parent / link for link in links if ":" not in link}
    assert ROOT / page in {path.resolve() for path in linked}, f"{page} is not linked: add it to the table of {index}"


# -- the built site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed; `make docs-site` installs it")
    out = tmp_path_factory.mktemp("built") / "site"
    done = build("--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SITE / "build.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def check(site: Path) -> list[str]:
    program = "import pathlib, sys, check; print(*check.problems_of(pathlib.Path(sys.argv[1])), sep='\\n')"
    command = [sys.executable, "-c", program, str(site)]
    done = subprocess.run(command, cwd=SITE, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("compare two prompts", "compare-prompts.md"),
        ("bring csv", "datasets.md"),
        ("debug failing case", "debugging.md"),
        ("flaky cases", "flaky-cases.md"),
        ("test http api", "http-api.md"),
        ("test LangChain OpenAI Agents pydantic-ai", "python-function.md"),
        ("CI gate", "ci.md"),
        ("coming from promptfoo", "importing-promptfoo.md"),
        ("coming from Inspect", "from-inspect-ai.md"),
        ("coming from DeepEval", "from-deepeval.md"),
    ],
)
def test_how_to_is_found_under_the_words_people_search_for(words: str, page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").lower()
    beginning = "\n".join(text.splitlines()[:8])
    assert not [word for word in words.lower().split() if word not in beginning]


def test_dead_links_and_assets_of_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "bundle.js").write_text('load("https://cdn.example/x.js"), ns("http://www.w3.org/2000/svg")')
    (tmp_path / "style.css").write_text("a { background: url('//fonts.example/f.woff2') }")
    (tmp_path / "picture.svg").write_text('<svg><image href="https://img.example/1.png"/></svg>')
    (tmp_path / "other.html").write_text('<h1 id="here">Here</h1>')
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/css"><script src="gone.js"></script>'
        '<img srcset="picture.svg 1x, https://img.example/2.png 2x"><p style="background: url(http://img.example/3.png)">'
        '<a href="other.html#here"></a><a href="other.html#there"></a><a href="no.html"></a><a href="https://fine.example"></a>'
    )
    assert check(tmp_path) == [
        "index.html refers to another host: https://fonts.example/css",
        "index.html uses gone.js, which is not in the site",
        "index.html refers to another host: https://img.example/2.png",
        "index.html refers to another host: http://img.example/3.png",
        "index.html links to other.html#there; other.html has no such heading",
        "index.html links to no.html, which is not in the site",
        "assets/bundle.js refers to another host: https://cdn.example/x.js",
        "picture.svg refers to another host: https://img.example/1.png",
        "style.css refers to another host: //fonts.example/f.woff2",
    ]


def test_site_has_every_page_and_names_the_files_of_examples(site: Path) -> None:
    for page in set(paths(nav())):
        built = site / page.replace("README.md", "index.md")
        assert built.with_suffix(".html").is_file(), page
    guide = (site / "docs/guide.html").read_text(encoding="utf-8")
    assert '<span class="filename">agentv.config.yaml</span>' in guide


@pytest.mark.soak
def test_site_is_built_the_same_way_twice(site: Path, tmp_path: Path) -> None:
    assert build("--out", str(tmp_path / "again")).returncode == 0
    first, second = (
        {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
        for root in (site, tmp_path / "again")
    )
    assert first == second


def test_site_can_be_searched_as_files_and_requests_nothing_else(site: Path) -> None:
    requested: list[str] = []
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.on("request", lambda request: requested.append(request.url))
        page.goto((site / "docs/guide.html").as_uri())
        page.get_by_role("button", name="Search").first.click()
        page.get_by_role("combobox").fill("flaky cases")
        page.get_by_role("option", name="Flaky cases").first.wait_for()
    assert [address for address in requested if not address.startswith(("file:", "data:", "blob:"))] == []
