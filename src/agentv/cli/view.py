"""`agentv view`: look at runs in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from agentv.cli.signals import until_stopped
from agentv.record.catalog import Catalog
from agentv.record.run_dir import RUNS, find_run
from agentv.report.terminal import is_set
from agentv.view.addresses import page_address
from agentv.view.library import Library
from agentv.view.listing import addressed
from agentv.view.server import ViewServer

_PRIORITY_BESIDE_A_RUN = 10
_SWITCH_SECONDS = 0.001
"""How long one thread may keep others waiting: each request passes through two, while others search or calculate."""


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--port", type=click.IntRange(1024, 65535), metavar="N", help="Port of the server.  [any free port]")
@click.option("--no-open", is_flag=True, help="Only print the link; do not open a browser.")
@click.option("--beside", type=int, hidden=True)
def command(*, runs: tuple[str, ...], port: int | None, no_open: bool, beside: int | None) -> int:
    """Look at runs in a browser: cases, judge calls, comparisons, live progress.

    \b
    agentv view                  all runs in .agentv/runs
    agentv view latest           one run
    agentv view baseline latest  two runs, compared

    The first line of stdout is a link for this user on this machine. The server listens on
    127.0.0.1 only, and runs until Ctrl-C.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    root = Path.cwd()
    library, place = _opened(runs, root)
    opens = not no_open and _has_browser()
    if beside is not None:
        serving = _serve_beside(library, place, beside, opens=opens)
    else:
        is_empty = not runs and not Catalog(root).ids()
        serving = _serve(library, place, port=port or 0, opens=opens, is_empty=is_empty)
    asyncio.run(until_stopped(serving))
    return 0


def _opened(names: Sequence[str], root: Path) -> tuple[Library, str]:
    """The runs to serve, and the page to open. Raises RecordError for a run that does not exist.

    One or two runs of the project are opened among all of its runs: their history and other baselines are wanted, too.
    """
    directories = list(dict.fromkeys(find_run(name, root).path for name in names))
    addresses = list(addressed(directories))
    is_project = all(path.parent == (root / RUNS).absolute() for path in directories)
    library = Library(root, () if is_project and len(directories) <= 2 else [str(path) for path in directories])
    if len(addresses) == 1:
        return library, page_address("run", *addresses)
    return library, page_address("compare", *addresses) if len(addresses) == 2 else page_address()


async def _serve(library: Library, place: str, *, port: int, opens: bool, is_empty: bool) -> None:
    """Serve until this is cancelled."""
    async with ViewServer(library, port=port) as server:
        click.echo(server.link(place))
        if is_empty:
            click.echo(f"There are no runs in {RUNS} yet. `agentv eval` records one.", err=True)
        click.echo("Press Ctrl-C to stop.", err=True)
        if opens:
            _open_browser(server.invitation(place))
        await asyncio.Event().wait()


async def _serve_beside(library: Library, place: str, descriptor: int, *, opens: bool) -> None:
    """Serve on a port that `agentv eval --view` has opened, until it closes the pipe to stdin, or ends.

    The first line of stdin is the token: other users of this machine can read command lines.
    """
    os.nice(_PRIORITY_BESIDE_A_RUN)
    token = sys.stdin.buffer.readline().strip()
    async with ViewServer(library, listener=socket.socket(fileno=descriptor), token=token) as server:
        if opens:
            _open_browser(server.invitation(place))
        await _end_of_stdin()


def _has_browser() -> bool:
    """Whether a browser can be opened that a person sees. A text browser would take over the terminal."""
    if is_set(os.environ, "CI"):
        return False
    shown = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform == "darwin" or any(os.environ.get(name) for name in shown)


def _open_browser(link: str) -> None:
    """Open the link in a thread, because some browsers keep the process that started them waiting."""

    def open_link() -> None:
        import webbrowser  # noqa: PLC0415 - not needed with --no-open

        with contextlib.suppress(webbrowser.Error, OSError):  # the link is on the terminal, too
            webbrowser.open(link)

    threading.Thread(target=open_link, name="agentv-browser", daemon=True).start()


async def _end_of_stdin() -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def read() -> None:
        while os.read(0, 4096):
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read, name="agentv-stdin", daemon=True).start()
    await ended.wait()
