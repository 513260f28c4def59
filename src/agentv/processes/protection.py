"""Detect which kernel features isolate scripts from the runtime, and protect the runtime process itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agentv.processes.run import OWN_CHILDREN

HELPER = Path(__file__).with_name("helper.py")
PR_GET_DUMPABLE = 3
SIGNAL_SCOPE_ABI = 6
"""The first Landlock version that can confine signals."""


@dataclass(frozen=True, slots=True)
class Protection:
    """One thing that keeps scripts in their place, and what is weaker without it."""

    name: str
    available: bool | None
    """None when this was not tested."""
    detail: str
    """What this machine offers; when it is missing, a clause that says so."""
    needs: str
    """What a machine must offer, as a phrase."""
    consequence: str
    """What is not guaranteed when it is missing, as sentences."""

    @property
    def note(self) -> str:
        """A note for runs on machines where it is missing."""
        return f"{self.detail}: {self.consequence[0].lower()}{self.consequence[1:]}"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which guarantees a launcher can give on this machine."""

    supervised: bool
    """Whether every descendant of a script ends with it. Otherwise only its process group does."""
    landlock: int | None
    """Landlock version. None without Landlock: scripts can then read the environment of the runtime's parent
    processes, such as `make` or `sh -c`."""
    reads_everything: bool = False
    """Whether this process and its scripts have privileges that bypass all protection, such as root's."""
    seccomp: bool = False
    """Whether system calls that reach into other processes can be refused."""
    pid_namespace: bool | None = None
    """Whether scripts with judge access get their own PID namespace; None unless `tested_capabilities` tried it."""

    @property
    def signal_scope(self) -> bool:
        """Whether scripts with judge access cannot send signals to processes they did not start."""
        return self.landlock is not None and self.landlock >= SIGNAL_SCOPE_ABI

    @property
    def supervised_deadline(self) -> bool:
        """Whether timeouts end scripts even while the runtime is stopped (SIGSTOP)."""
        return self.supervised

    def gaps(self) -> list[Protection]:
        """The missing protections that a run with judge access should mention."""
        if self.reads_everything:
            names = {"privileges"}
        elif self.supervised:
            names = {"private memory", "Landlock"}
        else:  # then Landlock is not used either
            names = {"supervision", "private memory"}
        return [each for each in self.protections() if each.name in names and each.available is False]

    def protections(self) -> tuple[Protection, ...]:
        """All of the above in words."""
        landlock = "this kernel has no Landlock" if self.landlock is None else f"version {self.landlock}"
        linux = sys.platform == "linux"
        return (
            Protection(
                "supervision",
                self.supervised,
                "every process a script starts is killed with it"
                if self.supervised
                else "this system cannot supervise scripts",
                "Linux 5.4 or later, with pidfds permitted",
                "Only the process group of a script is killed when it ends; processes in other sessions survive.",
            ),
            Protection(
                "supervised timeout",
                self.supervised_deadline,
                "applies even while agentv is stopped"
                if self.supervised_deadline
                else "timeouts depend on agentv alone",
                "supervision",
                "A script that stops agentv (SIGSTOP) also suspends its own timeout.",
            ),
            Protection(
                "private memory",
                linux,
                "scripts cannot read the memory of agentv" if linux else "this system cannot protect memory",
                "Linux",
                "Scripts with judge access can read the memory and environment of agentv, including API keys.",
            ),
            Protection(
                "Landlock",
                self.landlock is not None,
                landlock + ("" if self.landlock is None else ": scripts cannot read processes they did not start"),
                "Linux 5.13 or later, with Landlock enabled",
                "Scripts with judge access can read the environment of the parent processes of agentv "
                "(make, sh -c, uv run). Start agentv directly.",
            ),
            Protection(
                "signal scope",
                self.signal_scope,
                "scripts cannot signal processes they did not start" if self.signal_scope else f"Landlock: {landlock}",
                f"Landlock version {SIGNAL_SCOPE_ABI} (Linux 6.12)",
                "Scripts with judge access can stop or kill processes they did not start, unless they have their own "
                "PID namespace.",
            ),
            Protection(
                "seccomp",
                self.seccomp,
                "scripts cannot change limits of other processes" if self.seccomp else "no filter for this machine",
                "seccomp filters, on x86-64 or arm64",
                "Scripts with judge access can change the resource limits of processes they did not start, unless they "
                "have their own PID namespace.",
            ),
            Protection(
                "PID namespace",
                self.pid_namespace,
                {
                    True: "scripts see no other processes, and nothing outlives them",
                    False: "not permitted for this user, or no private /proc",
                    None: "not tested",
                }[self.pid_namespace],
                "user namespaces that unprivileged users may create, and a private /proc in them",
                "Scripts with judge access can see the other processes of this machine, and what they leave "
                "behind is killed process by process.",
            ),
            Protection(
                "privileges",
                not self.reads_everything,
                "agentv and its scripts run as root" if self.reads_everything else "unprivileged",
                "an unprivileged user",
                "Nothing on this machine can be protected from scripts. Do not run evals as root.",
            ),
        )


def capabilities() -> Capabilities:
    if not supervision_works():
        return Capabilities(supervised=False, landlock=None, reads_everything=_reads_everything())
    from agentv.processes.confinement import landlock_abi, seccomp_works  # noqa: PLC0415  loads ctypes

    return Capabilities(
        supervised=True, landlock=landlock_abi(), reads_everything=_reads_everything(), seccomp=seccomp_works()
    )


def tested_capabilities() -> Capabilities:
    """Like `capabilities`, but also tries a PID namespace, in a child process (about 50 ms)."""
    return replace(capabilities(), pid_namespace=_namespace_works())


def _namespace_works() -> bool:
    if not supervision_works():
        return False
    command = [sys.executable, "-I", "-S", str(HELPER), "test-namespace"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=helper_environment(), cwd="/", check=False
    )
    return done.returncode == 0


def helper_environment() -> dict[str, str]:
    """The variables passed to the helper; some interpreters do not start without them."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}


def _reads_everything() -> bool:
    """Whether this process can read any other: CAP_SYS_PTRACE, CAP_SYS_ADMIN or CAP_PERFMON."""
    with contextlib.suppress(OSError, ValueError), Path("/proc/self/status").open(encoding="ascii") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) & (1 << 19 | 1 << 21 | 1 << 38))
    return False


def supervision_works() -> bool:
    """Whether scripts can be supervised: Linux 5.3 or later, with pidfds permitted."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open") or not hasattr(os, "memfd_create"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


_lock = threading.Lock()
_protections = 0
_dumpable_before = 0


@contextlib.contextmanager
def protect_runtime() -> Iterator[None]:
    """Prevent other processes of the same user from reading this process's memory and environment.

    Can be nested and used from several threads; the previous state is restored when the last one leaves.
    """
    if sys.platform != "linux":
        yield
        return
    _protect(1)
    try:
        yield
    finally:
        _protect(-1)


def _protect(change: int) -> None:
    from agentv.processes.confinement import PR_SET_DUMPABLE, prctl  # noqa: PLC0415  loads ctypes

    global _protections, _dumpable_before  # noqa: PLW0603  the protection belongs to the process
    with _lock:
        if _protections == 0:
            _dumpable_before = prctl(PR_GET_DUMPABLE, 0)
            prctl(PR_SET_DUMPABLE, 0)
        _protections += change
        if _protections == 0 and _dumpable_before == 1:
            prctl(PR_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants."""
    from agentv.processes.confinement import PR_SET_CHILD_SUBREAPER, prctl  # noqa: PLC0415  loads ctypes

    prctl(PR_SET_CHILD_SUBREAPER, 1)


def strangers(known: set[int]) -> list[int]:
    """Pids of adopted children: those that neither agentv nor a library in this process started.

    Scripts run in their own sessions, and their descendants can never rejoin ours. So a child in our session was
    started by a library.
    """
    from agentv.processes.supervisor import children  # noqa: PLC0415  loads ctypes

    ours = os.getsid(0)
    return [pid for pid in children() if pid not in OWN_CHILDREN and pid not in known and _session(pid) != ours]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
