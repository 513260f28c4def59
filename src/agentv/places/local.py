"""Run jobs on this machine: with the launcher, and with a judge proxy on loopback if the job may call a judge."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

from agentv.jsonio import dump_line
from agentv.processes.execution import Script
from agentv.processes.job import Job, job_files
from agentv.processes.run import OnBytes, ProcessOutcome
from agentv.wire.apis.registry import API_VARIABLES, with_vendor_variables

if TYPE_CHECKING:
    from agentv.judge.proxied import ProxiedSession
    from agentv.judge.proxy import JudgeProxy
    from agentv.processes.launcher import Launcher

PROXY_NAMES = ("AGENTV_JUDGE_PROXY", "AGENTV_TARGET_PROXY", "AGENTV_PROVIDER_PROXY")
"""The names of the judge proxy: ours, and those of the SDKs of AgentV 2 to 4 and of AgentV 5."""
PROXY_VARIABLES = tuple(f"{name}_{part}" for name in PROXY_NAMES for part in ("URL", "TOKEN"))
PROTOCOL_VARIABLE = "AGENTV_JUDGE_PROTOCOL"
"""Set to `jsonl` for scripts that serve many executions in one process."""


class Variables(Protocol):
    """The variables of this machine, for jobs."""

    def all(self) -> Mapping[str, str]:
        """All variables."""

    def without_secrets(self) -> Mapping[str, str]:
        """Only those that contain no secret."""


class LocalPlace:
    """This machine. It is also the slot of each of its jobs."""

    node = None
    attempts = 1

    def __init__(self, launcher: Launcher, variables: Variables, slots: asyncio.Semaphore | None = None) -> None:
        """`slots` limits how many jobs run at the same time; None for no limit."""
        self._launcher, self._variables, self._slots = launcher, variables, slots

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[LocalPlace]:
        async with nullcontext() if self._slots is None else self._slots:
            yield self

    def path(self, path: str) -> str:
        return path

    async def run(
        self,
        job: Job,
        *,
        judge: ProxiedSession | None = None,
        on_stderr: OnBytes | None = None,
        on_cold: Callable[[str], None] | None = None,
        repeatable: Callable[[], bool] = lambda: False,
    ) -> ProcessOutcome:
        with job_files(job) as files:
            async with _proxy(judge) as proxy:
                script = self._script(files.job, proxy, judge, on_stderr, repeatable)
                on_exit = None if judge is None else judge.close
                outcome = await self._launcher.run(script, on_exit=on_exit, on_cold=on_cold)
            return files.read(outcome) if job.outputs else outcome

    def _script(
        self,
        job: Job,
        proxy: JudgeProxy | None,
        judge: ProxiedSession | None,
        on_stderr: OnBytes | None,
        repeatable: Callable[[], bool],
    ) -> Script:
        environment, stdin, execution_id = self._environment(job, proxy), job.stdin, ""
        if job.lines:
            execution_id = token_hex(8)
            extra: dict[str, Any] = {"execution_id": execution_id}
            if proxy is not None:
                extra["judge_proxy"] = {"url": proxy.url, "token": proxy.token}
            stdin = _with_members(stdin or b"{}", extra)
        return Script(
            argv=job.argv,
            cwd=job.cwd,
            env=environment,
            stdin=stdin,
            timeout=job.timeout,
            waiting=None if judge is None else judge.waiting,
            stdout_cap=job.stdout_cap,
            stderr_keep=job.stderr_keep,
            isolate=job.isolate,
            on_stderr=on_stderr,
            warm=job.warm,
            lines=job.lines,
            execution_id=execution_id,
            repeatable=repeatable,
            inline=job.inline,
            own_variables=_of_this_execution(environment, proxy),
        )

    def _environment(self, job: Job, proxy: JudgeProxy | None) -> dict[str, str]:
        """The variables of the place (without secrets if the job must not have them) and those of the job."""
        everything = self._variables.all()
        allowed = self._variables.without_secrets() if job.isolate or job.scrub else everything
        environment = {name: value for name, value in allowed.items() if name not in PROXY_VARIABLES}
        environment |= {name: everything[name] for name in job.passed if name in everything}
        environment |= job.env
        if job.search_path:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), *job.search_path)))
        if job.lines:
            environment[PROTOCOL_VARIABLE] = "jsonl"
        elif proxy is not None:
            environment |= dict(zip(PROXY_VARIABLES, (proxy.url, proxy.token) * len(PROXY_NAMES), strict=True))
            named = {*job.env, *job.passed}
            environment = with_vendor_variables(environment, job.vendors, proxy.url, proxy.token, named)
        if proxy is not None:
            _bypass_http_proxies(environment)
        return environment


def _of_this_execution(environment: Mapping[str, str], proxy: JudgeProxy | None) -> frozenset[str]:
    """The variables with the address or the token of the proxy: another execution has other values."""
    names = frozenset(name for name in PROXY_VARIABLES if name in environment)
    if proxy is None:
        return names
    own = (name for name in API_VARIABLES if environment.get(name, "").startswith((proxy.url, proxy.token)))
    return names.union(own)


def _proxy(judge: ProxiedSession | None) -> AbstractAsyncContextManager[JudgeProxy | None]:
    if judge is None:
        return nullcontext()
    from agentv.judge.proxy import JudgeProxy  # noqa: PLC0415 - scripts without judge access need no HTTP

    return JudgeProxy(judge)


def _with_members(line: bytes, members: Mapping[str, Any]) -> bytes:
    """A line with a JSON object that has these members, too."""
    head, comma = line.rstrip()[:-1], b", " if line.strip() != b"{}" else b""
    return head + comma + dump_line(members).encode("ascii")[1:] + b"\n"


def _bypass_http_proxies(environment: dict[str, str]) -> None:
    """Exclude loopback from HTTP proxies of the environment, which would otherwise receive the token."""
    loopback = "127.0.0.1,localhost,::1"
    names = ("NO_PROXY", "no_proxy")
    # Some programs read only one of the two names, so both get the hosts of either.
    hosts = {name: environment.get(name) or environment.get(other, "") for name, other in (names, names[::-1])}
    for name, value in hosts.items():
        environment[name] = value if value.strip() == "*" else f"{value},{loopback}" if value else loopback
