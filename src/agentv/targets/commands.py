"""Runs the commands of `cli` targets. Processes they start end with the command, at the latest with the run."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentv.processes.launcher import Launcher
    from agentv.processes.run import ProcessOutcome


class RunCommand(Protocol):
    """Runs a command until it exits or times out. Raises `ProcessStartError` if it cannot be started."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None,
        cwd: Path | str,
        env: Mapping[str, str],
        timeout: float | None,
    ) -> Awaitable[ProcessOutcome]: ...


class Commands:
    """Runs the commands of all targets of a pool. The launcher process is started for the first command."""

    def __init__(self) -> None:
        self._launcher: Launcher | None = None

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None,
        cwd: Path | str,
        env: Mapping[str, str],
        timeout: float | None,
    ) -> ProcessOutcome:
        from agentv.processes.launcher import Launcher, Script  # noqa: PLC0415 - few runs have a cli target

        if self._launcher is None:
            self._launcher = Launcher()
        return await self._launcher.run(Script(argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout))

    async def aclose(self) -> None:
        """Stop running commands and the launcher."""
        if self._launcher is not None:
            async with self._launcher:
                pass
