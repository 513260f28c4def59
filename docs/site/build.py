"""Build the documentation as a site (`make docs-site`): stage the pages, run zensical, check what it wrote.

The site has the layout of the repository, so that a link that works on GitHub works in the site. Staged are the pages
of the navigation in `mkdocs.yml` and every file that they link to.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from check import problems_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONFIG = HERE / "mkdocs.yml"
ASSETS = (HERE / "iframe-worker.js", HERE / "extra.css")
"""Copied to the directory `assets` of the site, where `mkdocs.yml` refers to them."""

_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_FENCE = re.compile(r"^(\s*)```(\S*)\s*$")
_FILE = re.compile(r"^\s*<!-- file: (.+?) -->\s*$")
_REMOTE = re.compile(r"https?://(?!www\.w3\.org/)[^\"'`\s]+")


class SiteError(Exception):
    """The site cannot be built; the message says why."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="Directory of the site.  [site]")
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="agentv-site-") as folder:
        work = Path(folder)
        try:
            stage(work / "pages")
            generate(work)
        except SiteError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        site = work / "site"
        without_remote_loaders(site)
        problems = problems_of(site)
        for problem in problems:
            print(f"error: {problem}", file=sys.stderr)
        if problems:
            return 1
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(site, out)
    print(f"wrote {out}: open {out / 'index.html'}")
    return 0


# -- staging


def stage(pages: Path) -> None:
    """Copy the pages of the navigation, and the files that they link to."""
    in_nav = list(nav_pages(configuration()["nav"]))
    waiting = [ROOT / name for name in in_nav]
    known = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.is_file():
            raise SiteError(f"{path.relative_to(ROOT)} is in the navigation and must be a file")
        there = pages / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, there)
            continue
        text = path.read_text(encoding="utf-8")
        there.write_text(with_titles(text), encoding="utf-8")
        for link, linked in files_linked(path, text):
            if linked.suffix == ".md" and str(linked.relative_to(ROOT)) not in in_nav:
                raise SiteError(
                    f"{path.relative_to(ROOT)} links to {link}, which is not in the navigation: "
                    f"add it to `nav` in {CONFIG.relative_to(ROOT)}"
                )
            if linked not in known:
                known.add(linked)
                waiting.append(linked)
    (pages / "assets").mkdir()
    for asset in ASSETS:
        shutil.copy(asset, pages / "assets")


def configuration() -> dict[str, Any]:
    """`mkdocs.yml`, without the tags that only the generator reads."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _, suffix, __: suffix)
    data: dict[str, Any] = yaml.load(CONFIG.read_text(encoding="utf-8"), Loader)  # noqa: S506 - derived from SafeLoader
    return data


def nav_pages(entry: Any) -> Iterator[str]:
    """The paths in a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from nav_pages(part)


def files_linked(page: Path, text: str) -> Iterator[tuple[str, Path]]:
    """The files of the repository that a page links to."""
    for link in _LINK.findall(_CODE.sub("", text)):
        name = link.partition("#")[0]
        if not name or re.match(r"[a-z]+:", name):
            continue
        linked = (page.parent / name).resolve()
        if not linked.is_file() or not linked.is_relative_to(ROOT):
            raise SiteError(f"{page.relative_to(ROOT)} links to {link}, which must be a file of the repository")
        yield link, linked


def with_titles(text: str) -> str:
    """The page with the name of each example file above its block; on GitHub it is in a comment."""
    lines: list[str] = []
    title, inside = None, False
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if name := _FILE.match(line) if not inside else None:
            title = name[1]
        if fence and not inside and fence[2] and title is not None:
            lines.append(f'{line.rstrip()} title="{title}"')
        else:
            lines.append(line)
        if fence:
            inside = not inside
            title = None
    return "\n".join(lines) + "\n"


# -- building


def generate(work: Path) -> None:
    shutil.copy(CONFIG, work)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", CONFIG.name]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not (work / "site" / "index.html").is_file():
        raise SiteError(f"zensical failed:\n{done.stdout}{done.stderr}")


def without_remote_loaders(site: Path) -> None:
    """Remove the addresses from which the theme would load parts that these pages do not use, like diagrams."""
    for script in (site / "assets").rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        script.write_text(_REMOTE.sub("data:,", text), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
