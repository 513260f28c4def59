"""Find what is wrong in a built site: dead links, and assets from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ASSETS = {"src", "srcset", "poster", "data"}
_NO_ASSET = {"canonical", "prev", "next", "edit", "alternate"}
"""Values of `rel` of a `<link>` that loads nothing."""
_REMOTE_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")
_REMOTE_TEXT = re.compile(r"https?://(?!www\.w3\.org/)[^\"'`\s]+")
_REMOTE_IMAGE = re.compile(r"href=\"((?:https?:)?//[^\"]+)\"")


@dataclass
class Page(HTMLParser):
    """The ids, links and assets of a page."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        loads = tag == "link" and not _NO_ASSET & set(values.get("rel", "").split())
        for name, value in values.items():
            if name in _ASSETS or (name == "href" and loads):
                self.assets += [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
            elif name == "href":
                self.links.append(value)
            elif name == "style":
                self.assets += _REMOTE_STYLE.findall(value)


def problems_of(site: Path) -> list[str]:
    """One line for each dead link and each asset of another host."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    found = [problem for path in pages for problem in _page_problems(site, path, pages)]
    for path in sorted(site.rglob("*")):
        pattern = {".css": _REMOTE_STYLE, ".svg": _REMOTE_STYLE}.get(path.suffix)
        if path.suffix == ".js" and path.is_relative_to(site / "assets"):
            pattern = _REMOTE_TEXT
        if pattern is not None:
            text = path.read_text(encoding="utf-8")
            remote = pattern.findall(text) + (_REMOTE_IMAGE.findall(text) if path.suffix == ".svg" else [])
            found += [f"{path.relative_to(site)} refers to another host: {address}" for address in remote]
    return found


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _page_problems(site: Path, path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    name, page = path.relative_to(site), pages[path]
    for asset in page.assets:
        if urlsplit(asset).netloc:
            yield f"{name} refers to another host: {asset}"
        elif not asset.startswith("data:") and not _file(site, path, asset).is_file():
            yield f"{name} uses {asset}, which is not in the site"
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        there = _file(site, path, link) if parts.path else path
        if not there.is_file():
            yield f"{name} links to {link}, which is not in the site"
        elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].ids:
            yield f"{name} links to {link}; {there.name} has no such heading"


def _file(site: Path, page: Path, link: str) -> Path:
    path = unquote(urlsplit(link).path)
    there = site / path.lstrip("/") if path.startswith("/") else page.parent / path
    there = there.resolve()
    return there / "index.html" if there.is_dir() else there
