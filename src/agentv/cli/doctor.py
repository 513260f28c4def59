"""`agentv doctor`: what this machine offers, and what is weaker without it."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from agentv import __version__
from agentv.cli.programs import NODE, is_old_node, version_of
from agentv.processes.protection import tested_capabilities
from agentv.report.terminal import Look, can_print_unicode, pad, terminal_width, wants_color
from agentv.text import plural

FEW_FILES = 4096
"""A run with a few hundred scripts at the same time needs more open files than this."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    available: bool | None
    """None if it is optional and missing."""
    detail: str
    consequence: str | None
    """What follows if it is missing; None if it is available."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the report as a JSON object.")
def command(as_json: bool) -> int:
    """Report what this machine offers for runs: programs, limits, and protection from judge scripts.

    Nothing is changed and no target is called. Missing features are listed with their consequence. The exit code is
    always 0; use --json to decide what you require.
    """
    groups = {
        "programs": _programs(),
        "limits": [_open_files()],
        "protection": _protection(),
    }
    system = f"{platform.system()} {platform.release()} ({platform.machine()})"
    if as_json:
        report = {name: [asdict(check) for check in checks] for name, checks in groups.items()}
        click.echo(json.dumps({"agentv": __version__, "system": system, **report}, indent=2))
        return 0
    look = Look(
        color=wants_color(sys.stdout, os.environ), width=terminal_width(), unicode=can_print_unicode(sys.stdout)
    )
    lines = [f"agentv {__version__} on {look.text(system)}"]
    for title, name in (
        ("Programs", "programs"),
        ("Limits", "limits"),
        ("Protection from judge scripts", "protection"),
    ):
        lines += ["", look.style(title, "bold"), *_lines(groups[name], look)]
    missing = [check.name for check in groups["protection"] if check.available is False]
    lines += ["", _verdict(missing, look)]
    click.echo("\n".join(lines), color=look.color)
    return 0


def _programs() -> list[Check]:
    node, bun = version_of("node"), version_of("bun")
    typescript = f"TypeScript judge scripts need Node {NODE[0]}.{NODE[1]} or later, or Bun."
    enough = bun is not None or (node is not None and not is_old_node(node))
    return [
        Check("Python", True, f"{platform.python_version()} ({sys.executable})", None),
        Check(
            "Node",
            True if node is not None and not is_old_node(node) else None if enough else False,
            node or "not found",
            None if enough else typescript,
        ),
        Check("Bun", True if bun else None, bun or "not found (optional)", None),
    ]


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft_text, hard_text = ("unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,}" for limit in (soft, hard))
    enough = hard == resource.RLIM_INFINITY or hard >= FEW_FILES
    few = "Runs with many workers can run out of file descriptors. Raise the hard limit, or use fewer workers."
    detail = soft_text if soft == hard else f"{soft_text}, raised during runs (hard limit {hard_text})"
    return Check("open files", enough, detail, None if enough else few)


def _protection() -> list[Check]:
    return [
        Check(
            each.name,
            each.available,
            each.detail if each.available else f"{each.detail}; needs {each.needs}",
            None if each.available else each.consequence,
        )
        for each in tested_capabilities().protections()
    ]


def _lines(checks: Sequence[Check], look: Look) -> list[str]:
    width = max(len("supervised timeout"), *(len(check.name) for check in checks))
    lines = []
    for check in checks:
        symbol, style = {
            True: (look.mark("✓", "ok"), "green"),
            False: (look.mark("✗", "--"), "red"),
            None: (look.mark("·", "  "), "dim"),
        }[check.available]
        indent = " " * (len(symbol) + width + 5)
        first, *rest = look.wrap(look.text(check.detail), look.width - len(indent), most=3)
        lines.append(f"  {look.style(symbol, style)} {pad(check.name, width)}  {first}".rstrip())
        lines += [indent + text for text in rest]
        consequence = look.wrap(check.consequence or "", look.width - len(indent), most=6)
        lines += [indent + look.style(text, "yellow") for text in consequence if text]
    return lines


def _verdict(missing: Sequence[str], look: Look) -> str:
    if not missing:
        return look.style("All guarantees of docs/security.md apply on this machine.", "green")
    weaker = f"{plural(len(missing), 'protection')} missing: some guarantees of docs/security.md are weaker here."
    return look.style(weaker, "yellow")
