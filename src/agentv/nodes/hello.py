"""What a node tells about itself before it is used."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import agentv
from agentv.processes.protection import capabilities


@dataclass(frozen=True, slots=True)
class Hello:
    """A node's software, its resources, and the isolation that it can give to scripts."""

    version: str
    """Version of agentv."""
    python: str
    platform: str
    host: str
    user: str
    pid: int
    cpus: int
    free_bytes: int
    """Free space for files of suites."""
    supervised: bool
    landlock: int | None
    seccomp: bool
    reads_everything: bool
    """Whether scripts have privileges that no isolation holds, such as root's."""
    package: str
    """The directory of agentv, for scripts that are part of it."""

    @property
    def isolation(self) -> str:
        """The isolation in words."""
        if not self.supervised:
            return "none: scripts cannot be supervised"
        parts = ["supervised"]
        if self.landlock is not None:
            parts.append(f"Landlock {self.landlock}")
        if self.seccomp:
            parts.append("seccomp")
        return ", ".join(parts) + ("; runs as root, which no isolation holds" if self.reads_everything else "")

    @property
    def gap(self) -> str | None:
        """What the node cannot protect from scripts, as a note; None if nothing is missing."""
        if not self.supervised:
            return "some nodes cannot supervise scripts: processes may survive the scripts that started them"
        if self.reads_everything:
            return "some nodes run scripts as root: nothing on them is protected from scripts"
        if self.landlock is None:
            return "some nodes have no Landlock: scripts can read the environment of other processes of their user"
        return None


PACKAGE = str(Path(agentv.__file__).parent)


def python_minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def describe(store: Path) -> Hello:
    """This machine, with the free space of the directory for files."""
    found = capabilities()
    try:
        free = shutil.disk_usage(_existing(store)).free
    except OSError:
        free = 0
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Hello(
        version=agentv.__version__,
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        host=socket.gethostname(),
        user=str(os.getuid()) if hasattr(os, "getuid") else "",
        pid=os.getpid(),
        cpus=cpus,
        free_bytes=free,
        supervised=found.supervised,
        landlock=found.landlock,
        seccomp=found.seccomp,
        reads_everything=found.reads_everything,
        package=PACKAGE,
    )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
