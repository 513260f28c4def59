"""Render problems found in files, for people and for editors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentv.errors import Problem
from agentv.report.terminal import Look, clean, masked
from agentv.text import plural


def render_problems(problems: Sequence[Problem], *, color: bool) -> str:
    """Each problem as `file:line:column: message` with its excerpt, then the number of problems.

    The first line of a problem is never coloured because editors and CI annotations parse it.
    """
    if not problems:
        return ""
    look = Look(color=color)
    here = Path.cwd()
    blocks = [_block(problem, here, look) for problem in problems]
    count = f"{plural(len(problems), 'problem')} in {plural(len({p.path for p in problems}), 'file')}"
    return "\n\n".join([*blocks, look.style(count, "bold", "red")])


def _block(problem: Problem, here: Path, look: Look) -> str:
    path = problem.path.relative_to(here) if problem.path.is_relative_to(here) else problem.path
    lines = [clean(replace(problem, path=path).headline())]
    # Keep tabs, which the excerpt expands; replace every other control character by one column.
    source = "\t".join(masked(part) for part in problem.source.rstrip("\r\n").split("\t"))
    excerpt = replace(problem, source=source).excerpt()
    if excerpt:
        code, caret = excerpt.split("\n")
        bar = code.index("|") + 1
        lines.append(look.style(code[:bar], "dim") + code[bar:])
        lines.append(look.style(caret[:bar], "dim") + caret[bar:-1] + look.style("^", "bold", "red"))
    return "\n".join(lines)
