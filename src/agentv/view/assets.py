"""The files in `static`, and the HTML around them: as separate files for the server, in one page for the HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from agentv import __version__
from agentv.view.linker import joined, link, stripped_style

_STATIC = files("agentv.view") / "static"
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
SERVER_ENTRY, FILE_ENTRY = "main.js", "main_file.js"
EARLY, SCRIPT, STYLE = SERVED = ("early.js", "all.js", "all.css")
"""What the page of the server loads: a short script, then all modules as one, and all style sheets as one."""

POLICY = (
    "default-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
"""The part of the content security policy that is the same for server and file."""


@cache
def names() -> frozenset[str]:
    """The names of all modules and style sheets."""
    return frozenset(file.name for file in _STATIC.iterdir() if content_type(file.name) is not None)


def content_type(name: str) -> str | None:
    """The media type of a file in `static`; None if files with this name are not served."""
    return next((kind for ending, kind in _TYPES.items() if name.endswith(ending)), None)


@cache
def served(name: str) -> bytes:
    """One of the files that the server sends."""
    if name == EARLY:
        return read(name)
    return (joined(SERVER_ENTRY, _text) if name == SCRIPT else style()).encode("utf-8")


@cache
def read(name: str) -> bytes:
    """The contents of a module or style sheet. Raises KeyError for all other names."""
    if name not in names():
        raise KeyError(name)
    return (_STATIC / name).read_bytes()


def _text(name: str) -> str:
    return read(name).decode("utf-8")


def styles() -> list[str]:
    """The names of the style sheets, in the order in which they apply."""
    return sorted((name for name in names() if name.endswith(".css")), key=lambda name: (name != "style.css", name))


@cache
def style() -> str:
    """All style sheets as one."""
    return "".join(stripped_style(_text(name)) for name in styles())


@cache
def script() -> str:
    """All modules of the HTML file as one classic script."""
    return link(FILE_ENTRY, _text)


@cache
def shell() -> str:
    """The page of the server."""
    head = (
        '<link rel="icon" href="data:,">\n'
        f'<script src="/static/{EARLY}"></script>\n'
        f'<script src="/static/{SCRIPT}" defer></script>\n'
        f'<link rel="stylesheet" href="/static/{STYLE}">\n'
    )
    return _start("agentv", head) + "</body>\n</html>\n"


def file_start(title: str, sums: Sequence[str] = ()) -> str:
    """The beginning of the HTML file, up to its blocks of data.

    `sums` are the hashes of its record. They are in the head with the version, to be read without the script.
    """
    directives = (
        *POLICY,
        f"script-src '{_hash(script())}'",
        f"style-src '{_hash(style())}'",
    )
    policy = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(directives)}">\n'
    sources = [("generator", f"agentv {__version__}"), *(("sha256", line) for line in sums)]
    metas = "".join(f'<meta name="{name}" content="{escape(content)}">\n' for name, content in sources)
    return _start(title, f"{metas}<style>{style()}</style>\n", policy)


def file_script() -> str:
    """The script of the HTML file. It starts when the parser gets here, and waits for blocks that come after it."""
    return f"<script>{script()}</script>\n"


def file_end() -> str:
    """The end of the HTML file."""
    return "</body>\n</html>\n"


def _start(title: str, head: str, policy: str = "") -> str:
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{policy}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n{head}</head>\n<body>\n"
        "<noscript>This page needs JavaScript.</noscript>\n"
        '<svg hidden aria-hidden="true"></svg>\n'  # dom.js takes the SVG namespace from it
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
