"""`agentv eval --view`: the viewer in its own process, beside the run.

The process only reads the record, and nothing that happens to it affects the run. It ends when the pipe to its stdin is
closed: by `end`, or because this process has ended, in whatever way. It has its own process group, so that Ctrl-C
reaches this process only.

The port is opened here and inherited, so that the link can be printed before the process is ready: browsers wait.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from agentv.cli.signals import TO_STOP, until_stopped
from agentv.http.server import HOST
from agentv.report.terminal import is_set, is_terminal
from agentv.view.access import Access
from agentv.view.addresses import page_address
from agentv.view.listing import addressed

END_SECONDS = 2.0
_LOOK_SECONDS = 0.1


def is_interactive() -> bool:
    """Whether a person is there who can look at pages after the run, and stop the viewer with Ctrl-C."""
    return all(map(is_terminal, (sys.stdin, sys.stdout, sys.stderr))) and not is_set(os.environ, "CI")


class ViewerBeside:
    """The process of the viewer."""

    def __init__(self, process: subprocess.Popen[bytes], link: str) -> None:
        self._process = process
        self.link = link

    @classmethod
    def start(cls, run: Path, environment: Mapping[str, str]) -> ViewerBeside:
        """Start the viewer of a run. Raises OSError if that is impossible.

        `environment` must not contain keys: a script of the run may be able to read it from the process.
        """
        access = Access()
        with socket.create_server((HOST, 0)) as listener:
            # -P: modules in the working directory must not replace those of Python.
            command = [sys.executable, "-P", "-m", "agentv", "view", str(run), "--beside", str(listener.fileno())]
            process = subprocess.Popen(
                [*command, *([] if is_interactive() else ["--no-open"])],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                process_group=0,
                bufsize=0,
            )
            assert process.stdin  # noqa: S101 - it is a pipe
            process.stdin.write(access.token + b"\n")
            host = f"{HOST}:{listener.getsockname()[1]}".encode("ascii")
        return cls(process, access.link(host, page_address("run", *addressed([run]))))

    def serve_on(self) -> None:
        """Serve until the user presses Ctrl-C. Without a terminal, return immediately."""
        if is_interactive() and self._process.poll() is None:
            click.echo("The viewer is still running. Press Ctrl-C to stop it.", err=True)
            asyncio.run(until_stopped(self._until_it_ends(), (*TO_STOP, signal.SIGHUP), even_if_ignored=TO_STOP))

    async def _until_it_ends(self) -> None:
        while self._process.poll() is None:  # noqa: ASYNC110 - no event is set when a process ends
            await asyncio.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        assert self._process.stdin  # noqa: S101 - it is a pipe
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
