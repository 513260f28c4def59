"""The documentation pages and their fenced blocks.

A comment directly above a fence specifies how its block is tested:

    <!-- file: evals/x.yaml -->    write the block to that file, in the directory of the page
    <!-- exit: 1 -->               expected exit code of its last command or its validation
    <!-- no-test: reason -->       do not run the block
    <!-- needs: node curl -->      skip the block if any of these is missing: programs, or `isolation`
    <!-- needs: package:ragas -->  skip the block unless `make test-libraries` has installed this library

`console` blocks contain commands (`$ ...`) and optionally their expected output, in which `...` matches anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "docs/performance.md"
"""Pages with numbers from `make bench`, which runs its own commands."""

_FENCE = re.compile(r"^(\s*)```(\S*)\s*$")
_DIRECTIVE = re.compile(r"^\s*<!-- (file|exit|no-test|needs): (.+?) -->\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block and the comments above it."""

    page: Path
    line: int
    language: str
    text: str
    file: str | None = None
    exit_code: int = 0
    not_tested: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """All pages, in a stable order."""
    tops = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "AGENTS.md")]
    return [*tops, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    directives: dict[str, str] = {}
    inside: list[str] | None = None
    indent, language, start = "", "", 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is not None:
            if fence and fence[1] == indent and not fence[2]:
                yield _block(page, start, language, inside, directives)
                inside, directives = None, {}
            else:
                inside.append(line)
        elif fence:
            inside, indent, language, start = [], fence[1], fence[2], number
        elif directive := _DIRECTIVE.match(line):
            directives[directive[1]] = directive[2]
        elif line.strip():
            assert not directives, f"{page}:{number}: {directives} must be directly above a fenced block"
    assert inside is None, f"{page}:{start}: the fence is not closed"


def _block(page: Path, line: int, language: str, lines: list[str], directives: dict[str, str]) -> Block:
    return Block(
        page=page,
        line=line,
        language=language,
        text=dedent("\n".join(lines) + "\n"),
        file=directives.get("file"),
        exit_code=int(directives.get("exit", "0")),
        not_tested=directives.get("no-test"),
        needs=tuple(directives.get("needs", "").split()),
    )


@dataclass(frozen=True)
class Command:
    """One command of a console block and its expected output (None: any output)."""

    line: str
    output: str | None


def commands(block: Block) -> list[Command]:
    """The commands of a console block; `> ` continues one."""
    parsed: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            parsed.append(([line[2:]], []))
            continue
        assert parsed, f"{block.place}: a console block must start with `$ command`"
        command, output = parsed[-1]
        if line.startswith("> ") and not output:
            command.append(line[2:])
        else:
            output.append(line)
    return [Command("\n".join(c), "\n".join(o).strip("\n") if any(x.strip() for x in o) else None) for c, o in parsed]
