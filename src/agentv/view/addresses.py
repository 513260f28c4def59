"""Addresses of pages, as `static/router.js` writes and reads them, and filters in them."""

from __future__ import annotations

import re
from urllib.parse import quote

_RESOLVED_BY_BROWSERS = ("", ".", "..")
_NEEDS_QUOTES = re.compile(r"""[\s\ufeff()=!<>~"'\\]""")
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def page_address(*parts: str, **query: str) -> str:
    """The address of a page: `page_address("run", "20261116-120000-abc")` is `#/run/20261116-120000-abc`."""
    settings = "&".join(f"{name}={_quoted(value)}" for name, value in query.items())
    return "#/" + "/".join(map(_encoded, parts)) + (f"?{settings}" if settings else "")


def run_address(run: str) -> str:
    """The page of the run with this address in the library."""
    return page_address("run", run)


def filter_word(text: str) -> str:
    """A name or a value as it is written in a filter."""
    return text if text and not _NEEDS_QUOTES.search(text) else f'"{text.translate(_ESCAPES)}"'


def _encoded(part: str) -> str:
    if part in _RESOLVED_BY_BROWSERS:
        return f"~{part}"
    encoded = _quoted(part)
    return f"~{encoded}" if encoded.startswith("~") else encoded


def _quoted(text: str) -> str:
    return quote(text, safe="!*'()", errors="replace")
