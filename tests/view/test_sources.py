"""The sources of the pages: no way to run text, no address of another host, and types that fit."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from agentv.view import assets
from agentv.view.linker import modules_of, parse
from tests.sdk_typescript.support import ROOT, TSC, needs_node, run

STATIC = ROOT / "src" / "agentv" / "view" / "static"
MODULES = sorted(STATIC.glob("*.js"))
STYLES = sorted(STATIC.glob("*.css"))
LARGEST = 60_000

SINKS = re.compile(
    r"""innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|parseFromString|setHTML|javascript:
    |document\.write|\beval\s*\(|new\s+Function|\bFunction\s*\(|set(?:Timeout|Interval)\s*\(\s*["'`]|\bimport\s*\(
    |\bWorker\s*\(|\bXMLHttpRequest\b|\bWebSocket\b|sendBeacon|window\.open|\.cookie\b|postMessage""",
    re.VERBOSE,
)
ADDRESS = re.compile(r"https?:|(?<![:\w])//\w[\w-]*\.\w|\burl\(|@import|@font-face")
"""An address of another host, and the ways in which a style sheet loads a file."""
IMPORT = re.compile(
    r"""^\s*(?:import|export)\b[^;]*?\bfrom\s*["']([^"']+)["']|^\s*import\s*["']([^"']+)["']""", re.MULTILINE
)
NETWORK = re.compile(r"\bfetch\s*\(|\bEventSource\s*\(")
STYLE_ATTRIBUTE = re.compile(r"""\bstyle:\s|\.style\.(?!setProperty\()|setAttribute\(\s*["']style""")


def found(pattern: re.Pattern[str], text: str) -> list[str]:
    return [match.group().strip() for match in pattern.finditer(text)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_module_has_no_sink_and_no_address(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.startswith("// @ts-check\n")
    assert found(ADDRESS, source) == []
    code = parse(path.name, source).code  # comments may have types that are imported
    assert found(SINKS, code) == []
    assert found(STYLE_ATTRIBUTE, code) == []
    outside = [one or other for one, other in IMPORT.findall(source) if not re.fullmatch(r"\./\w+\.js", one or other)]
    assert outside == []
    if path.name not in ("early.js", "server_source.js"):
        assert found(NETWORK, code) == [], "only these two make requests"


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_style_loads_nothing(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert found(ADDRESS, source) == []
    assert found(re.compile(r"expression\(|behavior:|-moz-binding"), source) == []


def test_checks_find_what_they_look_for() -> None:
    for sink in (
        "x.innerHTML = y",
        "document.write(x)",
        "eval (x)",
        "new Function(x)",
        "setTimeout('x')",
        "import('x')",
    ):
        assert found(SINKS, sink), sink
    for address in ("https://x", "http:", '"//cdn.example/x"', "url(x.png)", '@import "x"'):
        assert found(ADDRESS, address), address
    for harmless in ("// A comment about a thing.", "a //b", "evaluate(x)", "isFunction(x)", "setTimeout(() => 1)"):
        assert found(SINKS, harmless) + found(ADDRESS, harmless) == [], harmless


def test_every_module_is_part_of_a_page() -> None:
    used = {
        module.name
        for entry in (assets.SERVER_ENTRY, assets.FILE_ENTRY)
        for module in modules_of(entry, lambda name: assets.read(name).decode("utf-8"))
    }
    assert {path.name for path in MODULES} - used == {"types.js", assets.EARLY}


def test_file_contains_everything_but_the_requests() -> None:
    script = assets.script()
    assert found(SINKS, script) == []
    assert found(ADDRESS, script + assets.style() + assets.file_start("title")) == []
    assert found(NETWORK, script) == []


def test_code_is_small() -> None:
    size = len(gzip.compress((assets.script() + assets.style()).encode("utf-8"), 9))
    assert size < LARGEST, f"script and style have {size:,} bytes compressed; the limit is {LARGEST:,}"


@needs_node
def test_types_fit() -> None:
    if not TSC.exists():
        pytest.skip("TypeScript is not installed: `make test` installs it where npm is installed")
    done = run("node", TSC, "--project", ROOT / "tests" / "view" / "tsconfig.json")
    assert done.returncode == 0, done.stdout
