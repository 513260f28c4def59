"""A real Ray cluster of a head and two nodes, in a network namespace of its own: outside one, Ray listens on the
address of the machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 120
HEAD = "127.0.0.1:6379"
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


@dataclass
class Daemon:
    """`ray start --block` of the head or a node."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def child(self, name: str) -> int:
        """The process of Ray with this program, such as `raylet`."""
        return next(pid for pid in children_of(self.process.pid) if command_of(pid).endswith(f"/{name}"))

    def end(self) -> None:
        if self.is_alive:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class RayCluster:
    """One head without CPUs, and nodes with one each."""

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder = folder
        self.nodes: list[Daemon] = []
        self.others: list[Daemon] = []
        self._count = 0
        self.is_broken = False
        """Whether the head was killed, so that nodes do not end in order."""
        script = "ip link set lo up && echo up && exec sleep 3600"
        self._space = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE)
        assert self._space.stdout is not None
        assert self._space.stdout.readline() == b"up\n"
        self.session = folder / "ray"
        ports = ["--port=6379", "--ray-client-server-port=10001", "--include-dashboard=false"]
        self.head = self._daemon("--head", *ports, "--num-cpus=0", f"--temp-dir={self.session}")
        self._started(self.head)
        for _ in range(nodes):
            self.node()

    def command(self, *words: str) -> list[str]:
        """A command in the namespace of the cluster; the process is the same."""
        return ["nsenter", f"--net=/proc/{self._space.pid}/ns/net", *words]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        own = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "GRPC_ENABLE_FORK_SUPPORT": "0",  # with it, the server of Ray Client crashes at times
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        return {**inherited, **own, **(extra or {})}

    def _daemon(self, *options: str, env: Mapping[str, str] | None = None) -> Daemon:
        self._count += 1
        log_file = self.folder / f"{self._count}.log"
        program = str(Path(sys.executable).parent / "ray")
        words = [program, "start", "--block", "--node-ip-address=127.0.0.1", "--object-store-memory=80000000"]
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                self.command(sys.executable, *words, *options),
                cwd=self.folder,
                env=self.environment(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return Daemon(process, log_file)

    def node(self, *, env: Mapping[str, str] | None = None, listed: bool = True) -> Daemon:
        """Start a node, and wait until Ray has it."""
        node = self._daemon(f"--address={HEAD}", "--num-cpus=1", env=env)
        (self.nodes if listed else self.others).append(node)
        self._started(node)
        return node

    def whole(self, count: int = 2) -> None:
        """Start nodes until there are `count`."""
        self.nodes = [node for node in self.nodes if node.is_alive]
        for _ in range(count - len(self.nodes)):
            self.node()

    def _started(self, daemon: Daemon) -> None:
        until(lambda: "Ray runtime started" in daemon.log or not daemon.is_alive, START_SECONDS)
        assert daemon.is_alive, daemon.log

    def processes(self) -> list[int]:
        """All processes in the namespace."""
        return [pid for pid in processes() if namespace_of(pid) == namespace_of(self._space.pid) != ""]

    def close(self) -> None:
        for daemon in (*self.nodes, *self.others, self.head):
            if not self.is_broken:
                daemon.end()
        for pid in self.processes():
            kill(pid)
        for daemon in (*self.nodes, *self.others, self.head):
            daemon.process.wait()
        self._space.communicate()


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until something is true that has no event, such as the state of another process."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"not true after {seconds:g} s"
        time.sleep(0.05)
    return result


def processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]


def command_of(pid: int, *, all_words: bool = False) -> str:
    """The program of a process or all its words; empty if it has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return " ".join(words) if all_words else words[0]


def namespace_of(pid: int) -> str:
    """The network namespace of a process; empty if it has ended."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def children_of(pid: int) -> list[int]:
    return [child for child in processes() if parent_of(child) == pid]


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
