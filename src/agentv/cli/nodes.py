"""`agentv nodes`: connect to nodes, and show what each of them can do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentv.cli.signals import EXIT_CODES, until_stopped
from agentv.errors import NodesLostError, UsageError
from agentv.nodes.engines import EXAMPLES, EngineAddress, open_channel
from agentv.nodes.remote import Member, RemotePlace
from agentv.plan.build import Loaded
from agentv.plan.uses_nodes import nodes_named
from agentv.report.terminal import Look, StatusLines, align, is_terminal, wants_color
from agentv.text import plural

if TYPE_CHECKING:
    from agentv.plan.plan import UsesNodes

SOME_REFUSED = 3


@click.command()
@click.argument("near", default=".", metavar="[PATH]")
@click.option("--on", "option", metavar="NODES", help="Nodes to look at.  [`nodes.on` of the configuration]")
@click.option("--config", metavar="FILE", help="Target configuration.  [found near PATH]")
@click.option("--json", "as_json", is_flag=True, help="Print the nodes as a JSON list.")
def command(near: str, option: str | None, config: str | None, as_json: bool) -> int:
    """Connect to nodes, and show their versions, cores, isolation and disk.

    PATH is a suite or a directory. The configuration is found from there, as in `agentv eval`. Nothing is sent to the
    nodes but the handshake.

    \b
    Exit codes: 0 all nodes can be used
                2 invalid options or configuration
                3 some nodes cannot be used, or there are none
    """
    start = (Path.cwd() / near).resolve()
    if not start.exists():
        raise UsageError(f"{near} does not exist.", next_step="Pass a suite or a directory.")
    loaded = Loaded(Path.cwd(), config)
    uses = nodes_named(option, [loaded.config(start if start.is_dir() else start.parent)])
    if uses is None:
        raise UsageError("--on is missing, and the configuration has no `nodes.on`.", next_step=f"Pass {EXAMPLES}.")
    status = StatusLines(sys.stderr)
    if is_terminal(sys.stderr):
        status.draw([f"connecting to {uses.on} ..."])
    try:
        rows, received = asyncio.run(until_stopped(_rows(uses)))
    finally:
        status.close()
    if rows is None:
        return EXIT_CODES[received] if received is not None else SOME_REFUSED
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        click.echo(_table(rows, uses, Look(color=wants_color(sys.stdout, os.environ))))
    return 0 if rows and all(row["used"] for row in rows) else SOME_REFUSED


async def _rows(uses: UsesNodes) -> list[dict[str, Any]]:
    place = RemotePlace(open_channel(EngineAddress(uses.on, uses.settings)), uses.settings, where=uses.on, look=True)
    try:
        async with place:
            return [_row(member) for member in place.members.values()]
    except NodesLostError as error:
        error.exit_code = SOME_REFUSED
        raise


def _row(member: Member) -> dict[str, Any]:
    hello = member.last_hello
    row: dict[str, Any] = {
        "node": member.name,
        "used": member.hello is not None,
        "reason": member.refused if member.hello is None else None,
    }
    if member.hello is None and row["reason"] is None:
        row["reason"] = "it does not answer"
    if hello is not None:
        row |= {
            "agentv": hello.version,
            "python": hello.python,
            "platform": hello.platform,
            "host": hello.host,
            "cpus": hello.cpus,
            "slots": None if member.connection is None else member.connection.slots,
            "isolation": hello.isolation,
            "free_bytes": hello.free_bytes,
        }
    return row


def _table(rows: list[dict[str, Any]], uses: UsesNodes, look: Look) -> str:
    if not rows:
        return f"no nodes: none has joined {uses.on}"
    head = ["NODE", "AGENTV", "PYTHON", "HOST", "CORES", "SLOTS", "FREE DISK", "STATE"]
    header, *cells = align([head, *([look.text(cell) for cell in _cells(row)] for row in rows)])
    lines = [look.style("  ".join(header).rstrip(), "dim")]
    for (*padded, state), row in zip(cells, rows, strict=True):
        lines.append("  ".join([*padded, look.style(state.rstrip(), "green" if row["used"] else "red")]))
    lines += ["", *(f"{look.text(row['node'])}: {look.text(row['reason'])}" for row in rows if not row["used"])]
    for isolation in dict.fromkeys(row["isolation"] for row in rows if "isolation" in row):
        names = [row["node"] for row in rows if row.get("isolation") == isolation]
        whose = "all nodes" if len(names) == len(rows) else look.text(", ".join(names))
        lines.append(f"isolation of {whose}: {isolation}")
    slots = sum(row.get("slots") or 0 for row in rows)
    return "\n".join([*lines, f"{plural(slots, 'job')} at a time"])


def _cells(row: dict[str, Any]) -> list[str]:
    if "agentv" not in row:
        return [row["node"], "", "", "", "", "", "", "not used"]
    free = f"{row['free_bytes'] / 1e9:.0f} GB"
    state = "ready" if row["used"] else "not used"
    slots = "" if row["slots"] is None else str(row["slots"])
    return [row["node"], row["agentv"], row["python"], row["host"], str(row["cpus"]), slots, free, state]
