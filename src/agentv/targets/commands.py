"""Runs the commands of `cli` targets. Processes they start end with the command, at the latest with the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentv.processes.job import Job
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


PathThere = Callable[[str], str]
"""A path of this machine as it is where a command runs."""


class RunJob(Protocol):
    """Runs the command of a target, on this machine or on a node."""

    def __call__(self, job: Callable[[PathThere], Job], environment: Mapping[str, str]) -> Awaitable[ProcessOutcome]:
        """Run the command that `job` returns, with the files that it writes.

        `environment` are the variables of the target on this machine. Nodes have their own.
        """


async def run_job_here(
    job: Callable[[PathThere], Job],
    environment: Mapping[str, str],
    run_command: RunCommand | None = None,
) -> ProcessOutcome:
    """Run a command on this machine. The directory and the files exist until it has ended."""
    from agentv.processes.job import job_files  # noqa: PLC0415 - few runs have a cli target
    from agentv.processes.run import run_process  # noqa: PLC0415
    from agentv.targets.providers.cli_template import without_inherited  # noqa: PLC0415

    with job_files(job(str)) as files:
        outcome = await (run_command or run_process)(
            files.job.argv,
            stdin=files.job.stdin,
            cwd=Path(files.job.cwd),
            env={**without_inherited(environment), **files.job.env},
            timeout=files.job.timeout,
        )
        return files.read(outcome) if files.job.outputs else outcome


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

    async def run_job(self, job: Callable[[PathThere], Job], environment: Mapping[str, str]) -> ProcessOutcome:
        """Run the command of a target on this machine."""
        return await run_job_here(job, environment, self.run)

    async def aclose(self) -> None:
        """Stop running commands and the launcher."""
        if self._launcher is not None:
            async with self._launcher:
                pass
