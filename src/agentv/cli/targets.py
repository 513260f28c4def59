"""`agentv targets`: what is configured, and what is missing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from agentv.errors import UsageError
from agentv.plan.build import Loaded
from agentv.report.terminal import Look, wants_color
from agentv.targets.config import NO_JUDGE, TargetsConfig, TargetSpec, no_config_error


@click.command()
@click.argument("near", default=".", metavar="[PATH]")
@click.option("--config", metavar="FILE", help="The target configuration, instead of the one found near PATH.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(near: str, config: str | None, as_json: bool) -> int:
    """Show each target: provider, model, ready or which variable is missing, and who judges it.

    PATH is a suite or a directory; the configuration is found from there as for `agentv eval`.
    """
    cwd = Path.cwd()
    start = (cwd / near).resolve()
    if not start.exists():
        raise UsageError(f"{near}: there is no such file or directory.", next_step="Name a suite or a directory.")
    start = start if start.is_dir() else start.parent
    found = Loaded(cwd, config).config(start)
    if found is None:
        raise no_config_error("`agentv targets` needs a configuration", start)
    rows = [_row(spec, found) for spec in found.targets.values()]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        click.echo(_table(rows, found, Look(color=wants_color(sys.stdout, os.environ))))
    return 0


def _row(spec: TargetSpec, config: TargetsConfig) -> dict[str, Any]:
    judge = spec.judge_target or config.defaults.judge_target or spec.name
    return {
        "name": spec.name,
        "provider": spec.provider,
        "model": spec.model,
        "ready": spec.unavailable is None,
        "missing": spec.unavailable,
        "judge": None if judge == NO_JUDGE else judge,
        "default": spec.name == config.default_target(),
    }


def _table(rows: list[dict[str, Any]], config: TargetsConfig, look: Look) -> str:
    head = ["TARGET", "PROVIDER", "MODEL", "JUDGED BY", "STATE"]
    cells = [[look.text(cell) for cell in _cells(row)] for row in rows]
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
    lines = [look.style(_line(head, widths), "dim")]
    for line, row in zip(cells, rows, strict=True):
        state = look.style(line[-1], "green" if row["ready"] else "red")
        lines.append(_line([*line[:-1], state], [*widths[:-1], 0]))
    lines += ["", *(f"{look.text(row['name'])}: {look.text(row['missing'])}" for row in rows if row["missing"])]
    return "\n".join([*lines, look.style(f"from {config.path}", "dim")])


def _cells(row: dict[str, Any]) -> list[str]:
    name = row["name"] + (" (default)" if row["default"] else "")
    state = "ready" if row["ready"] else "not ready"
    return [name, row["provider"], row["model"] or "-", _judge(row), state]


def _judge(row: dict[str, Any]) -> str:
    if row["judge"] is None:
        return "nobody"
    return "itself" if row["judge"] == row["name"] else str(row["judge"])


def _line(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
