"""A real Dask cluster on 127.0.0.1 with mutual TLS: one scheduler and workers, each a process with its own directory.

Workers run without a nanny, so a killed worker is a lost node: a nanny would start another one. A test may kill or stop
workers; `whole` starts new ones before the next test. Each xdist worker has its own cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.nodes.engines import EngineAddress, open_channel
from agentv.nodes.remote import Member, RemotePlace
from agentv.targets.nodes_section import NodesModel, TlsFiles

START_SECONDS = 60
HERE = Path(__file__).parent
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


@dataclass
class Certificates:
    """PEM files for all processes of a cluster."""

    ca: Path
    cert: Path
    key: Path

    @classmethod
    def create(cls, folder: Path) -> Certificates:
        """A new authority, and a certificate by it."""
        from distributed.security import Security  # noqa: PLC0415 - slow, and only for these tests

        temporary = Security.temporary()  # type: ignore[no-untyped-call]
        folder.mkdir()
        files = cls(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
        files.ca.write_text(temporary.tls_ca_file)
        files.cert.write_text(temporary.tls_client_cert)
        files.key.touch(0o600)
        files.key.write_text(temporary.tls_client_key)
        return files

    @property
    def options(self) -> list[str]:
        return ["--tls-ca-file", str(self.ca), "--tls-cert", str(self.cert), "--tls-key", str(self.key)]

    @property
    def model(self) -> TlsFiles:
        return TlsFiles(ca=str(self.ca), cert=str(self.cert), key=str(self.key))


@dataclass
class Daemon:
    """A scheduler or a worker."""

    name: str
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        if self.is_alive:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class Cluster:
    """One scheduler and its workers."""

    def __init__(self, folder: Path, *, host: str = "127.0.0.1", inside: Sequence[str] = ()) -> None:
        """`inside` is a command that runs the scheduler elsewhere, such as in a network namespace."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificates = Certificates.create(folder / "tls")
        self._count = 0
        self.workers: list[Daemon] = []
        options = ["--host", host, "--port", "0", "--scheduler-file", str(folder / "scheduler.json")]
        self.scheduler = self._daemon("scheduler", options, inside=inside)
        self.address = str(self._wait(self._read_address, self.scheduler))

    def _read_address(self) -> str | None:
        try:
            content = json.loads((self.folder / "scheduler.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return str(content["address"])

    def _daemon(
        self, kind: str, options: list[str], env: Mapping[str, str] | None = None, inside: Sequence[str] = ()
    ) -> Daemon:
        self._count += 1
        name = f"{kind}-{self._count}"
        folder = self.folder / name
        folder.mkdir()
        (folder / "tmp").mkdir()
        security = self.certificates.options
        command = [*inside, sys.executable, "-m", "dask", kind, *options, "--no-dashboard", *security]
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        environment = {
            **inherited,
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TMPDIR": str(folder / "tmp"),
            "DASK_CONFIG": str(folder / "none"),
            **(env or {}),
        }
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return Daemon(name, process, folder)

    def worker(
        self,
        *,
        preload: str | None = None,
        env: Mapping[str, str] | None = None,
        listed: bool = True,
        host: str = "127.0.0.1",
        inside: Sequence[str] = (),
    ) -> Daemon:
        """Start a worker, which joins some seconds later. `preload` is a module of `tests.nodes` that it runs."""
        options = [
            self.address,
            "--host",
            host,
            "--nthreads",
            "1",
            "--no-nanny",
            "--local-directory",
            str(self.folder / "scratch"),
        ]
        if preload is not None:
            options += ["--preload", str(HERE / f"{preload}.py")]
        worker = self._daemon("worker", options, env, inside)
        if listed:
            self.workers.append(worker)
        return worker

    def whole(self, count: int = 2) -> None:
        """Start workers until there are `count`, and let stopped ones continue."""
        for worker in self.workers:
            if worker.is_alive:
                worker.process.send_signal(signal.SIGCONT)
        self.workers = [worker for worker in self.workers if worker.is_alive]
        missing = [self.worker() for _ in range(count - len(self.workers))]
        for worker in missing:
            self.joined(worker)

    def joined(self, worker: Daemon) -> None:
        """Wait until a worker has joined."""
        self._wait(lambda: "Registered to:" in worker.log, worker)

    def _wait(self, ready: Callable[[], Any], daemon: Daemon) -> Any:
        end = time.monotonic() + START_SECONDS
        while not (result := ready()):
            assert daemon.is_alive, f"{daemon.name} has ended:\n{daemon.log}"
            assert time.monotonic() < end, f"{daemon.name} is not ready:\n{daemon.log}"
            time.sleep(0.02)
        return result

    def settings(self, **options: Any) -> NodesModel:
        tls = self.certificates.model
        return NodesModel(**{"tls": tls, "silence_seconds": 20.0, "slots": 4, **options})

    def place(self, *, trees: Any = (), settings: NodesModel | None = None, **options: Any) -> RemotePlace:
        settings = settings or self.settings()
        channel = open_channel(EngineAddress(self.address, settings))
        return RemotePlace(channel, settings, trees=trees, where=self.address, **options)

    def configuration(self, *, silence: float = 20, dead_man: float = 60) -> str:
        """The `nodes` section of a project that uses this cluster."""
        tls = self.certificates
        return (
            f"nodes: {{on: '{self.address}', silence_seconds: {silence}, dead_man_seconds: {dead_man}, slots: 4, "
            f"tls: {{ca: '{tls.ca}', cert: '{tls.cert}', key: '{tls.key}'}}}}\n"
        )

    def close(self) -> None:
        for daemon in self.workers:
            if daemon.is_alive:
                daemon.process.send_signal(signal.SIGCONT)
                daemon.process.terminate()
        for daemon in (*self.workers, self.scheduler):
            daemon.end()


# -- helpers for tests


async def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until something is true that has no event of its own, such as the state of another process."""
    async with asyncio.timeout(seconds):
        while not (result := condition()):
            await asyncio.sleep(0.01)
    return result


async def in_use(place: RemotePlace, count: int) -> list[Member]:
    """Wait until `count` nodes are used."""
    return list(
        await until(lambda: used if len(used := [m for m in place.members.values() if m.hello]) == count else None)
    )


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def worker_of(cluster: Cluster, member: Member) -> Daemon:
    """The worker process of a node."""
    assert member.hello is not None
    pid = parent_of(member.hello.pid)
    return next(worker for worker in cluster.workers if worker.pid == pid)


def processes_with(marker: str) -> list[int]:
    """Processes with this string in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if marker.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


def ancestors(pid: int) -> list[int]:
    """The process, its parent, and so on."""
    pids = []
    while pid > 1:
        pids.append(pid)
        pid = parent_of(pid)
    return pids


def outer_pid(pid: int) -> int | None:
    """The process that has this id in its own namespace; None if there is none any more."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                lines = (folder / "status").read_text().splitlines()
                ids = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
                if ids and int(ids[-1]) == pid and "\nState:\tZ" not in "\n".join(lines):
                    return int(folder.name)
    return None
