"""`agentv targets`: list the configured targets, and check that they respond."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from agentv.cli.parameters import FiniteRange
from agentv.errors import UsageError
from agentv.judge.choice import JudgeChoice
from agentv.plan.build import Loaded
from agentv.report.terminal import Look, StatusLines, align, is_terminal, wants_color
from agentv.targets.config import NO_JUDGE, TargetsConfig, TargetSpec, no_config_error
from agentv.text import plural


@click.command()
@click.argument("near", default=".", metavar="[PATH]")
@click.option("--config", metavar="FILE", help="Target configuration.  [found near PATH]")
@click.option("--target", "names", multiple=True, metavar="NAME", help="Select a target; repeatable.")
@click.option("--ping", is_flag=True, help="Send a short test prompt to each target.")
@click.option(
    "--timeout", type=FiniteRange(0, min_open=True), metavar="S", help="With --ping: seconds to wait for a reply.  [30]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the targets as a JSON list.")
def command(near: str, config: str | None, names: tuple[str, ...], as_json: bool, **ping_options: Any) -> int:
    """List targets with provider, model, judge target, and missing variables.

    PATH is a suite or a directory. The configuration is found from there, as in `agentv eval`.

    \b
    Exit codes of --ping: 0 all targets responded
                          2 no target is ready to be called
                          3 some targets failed or are not ready
    """
    cwd = Path.cwd()
    start = (cwd / near).resolve()
    if not start.exists():
        raise UsageError(f"{near} does not exist.", next_step="Pass a suite or a directory.")
    start = start if start.is_dir() else start.parent
    targets_config = Loaded(cwd, config).config(start)
    if targets_config is None:
        raise no_config_error("`agentv targets` needs a configuration", start)
    specs = [targets_config.find(name, asked_by="--target") for name in dict.fromkeys(names)] or list(
        targets_config.targets.values()
    )
    rows = [_row(spec, targets_config) for spec in specs]
    code = _ping(rows, specs, targets_config, start, ping_options["timeout"]) if ping_options["ping"] else 0
    if as_json:
        click.echo(json.dumps([{k: v for k, v in row.items() if k != "state"} for row in rows], indent=2))
    else:
        click.echo(_table(rows, targets_config, Look(color=wants_color(sys.stdout, os.environ))))
    return code


def _ping(
    rows: list[dict[str, Any]], specs: list[TargetSpec], config: TargetsConfig, near: Path, seconds: float | None
) -> int:
    """Call every target, add the results to the rows, and return the exit code."""
    import asyncio  # noqa: PLC0415 - a third of the start-up time, not needed to list targets

    from agentv.cli.targets_ping import DEFAULT_TIMEOUT, ping_all  # noqa: PLC0415

    status = StatusLines(sys.stderr)
    if is_terminal(sys.stderr):
        status.draw([f"calling {plural(len(specs), 'target')} ..."])
    try:
        pings = asyncio.run(ping_all(specs, config, near, timeout=seconds or DEFAULT_TIMEOUT))
    finally:
        status.close()
    for row, ping in zip(rows, pings, strict=True):
        row["ping"], row["state"] = ping.to_dict(), ping.state
        row["ready"], row["missing"] = ping.tried, None if ping.tried else ping.error
    if not any(ping.tried for ping in pings):
        return 2
    return 0 if all(ping.ok for ping in pings) else 3


def _row(spec: TargetSpec, config: TargetsConfig) -> dict[str, Any]:
    judge = JudgeChoice.of(config, main=spec.name).resolve()
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
    header, *cells = align([head, *([look.text(cell) for cell in _cells(row)] for row in rows)])
    lines = [look.style("  ".join(header).rstrip(), "dim")]
    for (*padded, state), row in zip(cells, rows, strict=True):
        lines.append("  ".join([*padded, look.style(state.rstrip(), "green" if _good(row) else "red")]))
    lines += ["", *(f"{look.text(row['name'])}: {look.text(why)}" for row in rows if (why := _problem(row)))]
    return "\n".join([*lines, look.style(f"from {config.path}", "dim")])


def _good(row: dict[str, Any]) -> bool:
    return bool(row["ping"]["ok"] if "ping" in row else row["ready"])


def _problem(row: dict[str, Any]) -> str | None:
    """Why a target is not ready or failed, with the next step; None if it is fine."""
    if row["missing"] or "ping" not in row or row["ping"]["ok"]:
        return str(row["missing"]) if row["missing"] else None
    error, hint = row["ping"]["error"], row["ping"]["next_step"]
    return f"{error.rstrip('.')}. {hint}" if hint else error


def _cells(row: dict[str, Any]) -> list[str]:
    name = row["name"] + (" (default)" if row["default"] else "")
    state = row.get("state") or ("ready" if row["ready"] else "not ready")
    return [name, row["provider"], row["model"] or "-", _judge(row), state]


def _judge(row: dict[str, Any]) -> str:
    if row["judge"] is None:
        return "none"
    return "itself" if row["judge"] == row["name"] else str(row["judge"])
