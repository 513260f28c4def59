"""The supervisor of scripts: waits for one to start and to end, keeps its deadline, and ends every descendant.

Runs in processes that `helper.py` and zygotes fork; see there for the protocol. Like `helper.py`, it imports only what
it needs.
"""

from __future__ import annotations

# ruff: noqa: PTH208, S606, SIM105  as in helper.py
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import mmap
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agentv.processes import confinement
elif __name__ == "agentv.processes.supervisor":
    from agentv.processes import confinement
else:
    import _agentv_confinement as confinement

prctl = confinement.prctl

END_SECONDS = 5.0
"""How long to wait for killed processes to die; one that is blocked on a broken disk may never die."""
SPARES = max(2, min(4, os.cpu_count() or 2))
"""Number of idle supervisors kept ready: enough that a burst of requests keeps every core busy."""
MOST_IDLE = 2 * SPARES + 4
"""A supervisor exits after its script when more than this number are idle."""
NO_PROCESS = 75
"""Exit code of a supervisor that could not fork."""
LONGEST_PAUSE = 1 << 30
"""Longest time to wait in one call, in milliseconds."""
RUNNING = -1
"""Returned instead of an exit code in the forked child that continues as the script."""


# -- processes below this one


def children() -> list[int]:
    """Pids of the direct children of this process, including adopted ones. May miss one while others start or exit."""
    try:
        pids: list[int] = []
        for thread in os.listdir("/proc/self/task"):
            pids += map(int, _content(f"/proc/self/task/{thread}/children").split())
    except OSError:  # a kernel without these files
        me = os.getpid()
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == me]
    return pids


def _content(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while chunk := os.read(file, 65536):
            content += chunk
        return content
    finally:
        os.close(file)


def _parent(pid: str) -> int | None:
    try:
        return int(_content(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return None


def kill(pid: int, number: int = 9) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # gone already, or not ours to kill
        pass


# -- the supervisor of one script


def receive(channel: socket.socket, count: int, flags: int = 0) -> tuple[list[int], list[int]]:
    """The numbers and descriptors of the next datagram; no numbers when the socket was closed."""
    text, ancillary, _, _ = channel.recvmsg(64, socket.CMSG_SPACE(4 * count), socket.MSG_CMSG_CLOEXEC | flags)
    received = [
        int.from_bytes(data[at : at + 4], sys.byteorder) for _, _, data in ancillary for at in range(0, len(data), 4)
    ]
    return [int(number) for number in text.split()], received


class Seat:
    """What a supervisor and the child that becomes its script need."""

    def __init__(self, control: socket.socket, inbox: int, runtime: int, idle: mmap.mmap) -> None:
        self.control = control
        """Where requests arrive."""
        self.inbox = inbox
        """The pipe to the helper: `<supervisor> <number of its request, or 0>`."""
        self.runtime = runtime
        """The pidfd of the runtime; -1 when another supervisor above this one watches it."""
        self.idle = idle
        abi = confinement.landlock_abi()
        self._ruleset = confinement.landlock_ruleset(abi) if abi else -1
        self._calls = confinement.Filter() if confinement.seccomp_works() else None
        self.pid = self.pidfd = self.signals = self._last_pid = -1
        self._pids = iter(range(0))

    def take(self, pid: int, birth: int | None) -> None:
        """Called in a new supervisor, with its pid as the helper sees it, and its number if it has a PID namespace."""
        if birth is not None:
            self._last_pid = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
            os.pwrite(self._last_pid, b"1", 0)  # fails here and not later, if it is not permitted
            self._pids = iter(confinement.own_pids(birth))
        self.pid = pid
        self.pidfd = os.pidfd_open(os.getpid())
        self.signals = confinement.signal_descriptor(signal.SIGCHLD)
        prctl(confinement.PR_SET_CHILD_SUBREAPER, 1)
        prctl(confinement.PR_SET_PDEATHSIG, signal.SIGCONT)  # wakes a stopped supervisor when the helper dies

    def choose_pid(self) -> bool:
        """Choose the pid of the next child. False when this supervisor should be replaced by one with other pids."""
        if self._last_pid < 0:
            return True
        pid = next(self._pids, None)
        if pid is not None:
            os.pwrite(self._last_pid, b"%d" % (pid - 1), 0)
        return pid is not None

    def confine(self) -> None:
        """Confine this process for good: processes outside become inaccessible, where the kernel can do that."""
        confinement.enter_domain(self._ruleset, self._calls)


def supervise(seat: Seat, *, turn: Callable[..., bool]) -> int:
    """Supervise scripts one after the other, until one of them leaves processes that cannot be killed.

    Returns the exit code for this process, and `RUNNING` in the child that `turn` made the script.
    """
    me = os.getpid()
    code: int | None = None
    while code is None and seat.idle[0] <= MOST_IDLE and seat.choose_pid():
        link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            script = os.fork()
        except OSError:
            return NO_PROCESS
        if script == 0:
            running = False
            link.close()
            try:
                running = turn(seat, theirs, me)
            finally:
                if not running:
                    os._exit(127)
            return RUNNING
        theirs.close()
        ended = os.pidfd_open(script)
        code = attend(script, ended, link, seat)
        link.close()
        os.close(ended)
    return code or 0


def attend(script: int, ended: int, link: socket.socket, seat: Seat) -> int | None:
    """Wait for a script to start and to end. Returns None when the supervisor can take the next script."""
    poll = select.poll()
    for descriptor in (link.fileno(), ended, seat.runtime):
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    poll.poll()
    try:
        (deadline,), (lifeline,) = receive(link, 1, socket.MSG_DONTWAIT)
    except (OSError, ValueError):  # no request arrived, and none will
        kill(script)
        os.waitpid(script, 0)
        return 0
    poll.unregister(link.fileno())
    poll.register(lifeline, select.POLLIN)
    poll.register(seat.signals, select.POLLIN)
    if watch(script, poll, lifeline, seat.signals, deadline):
        tell(lifeline, b"T\n")
    left = clear(script, ended, lifeline, seat.pid)
    os.close(lifeline)
    tell(seat.inbox, b"%d 0\n" % seat.pid)
    return 1 if left else None


def watch(script: int, poll: select.poll, lifeline: int, signals: int, deadline: int) -> bool:
    """Reap orphans until the script must be cleared away. True when its deadline has passed."""
    unread = b""
    while True:
        pause = min(max(0, deadline - time.monotonic_ns() // 1_000_000), LONGEST_PAUSE) if deadline else None
        ready = poll.poll(pause)
        for descriptor, _ in ready:
            if descriptor == signals:
                reap_orphans(script, signals)
            elif descriptor == lifeline:
                text = received(lifeline)
                if not text:
                    return False
                *orders, unread = (unread + text).split(b"\n")
                for order in orders:
                    if order[:1] == b"T":
                        deadline = int(order[1:])
                    else:
                        kill(script, signal.SIGCONT)
            else:
                return False
        if not ready and pause != LONGEST_PAUSE:
            return True


def received(lifeline: int) -> bytes:
    try:
        return os.read(lifeline, 4096)
    except OSError:
        return b""


def reap_orphans(script: int, signals: int) -> None:
    """Reap the dead descendants that lost their parents, but not the script."""
    try:
        os.read(signals, 4096)
    except BlockingIOError:
        pass
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid == script:
            return
        os.waitpid(dead.si_pid, 0)


def accept(seat: Seat, link: socket.socket, supervisor: int) -> tuple[list[int], int]:
    """Wait for a request and notify runtime, helper and supervisor. Its descriptors and size; empty on shutdown."""
    os.setsid()
    prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        return [], 0
    while True:
        numbers, received = receive(seat.control, 5)
        if not numbers:
            return [], 0
        if len(received) == 5 and not hung_up(received[3]):
            break
        for descriptor in received:  # cancelled; or out of descriptors, and closing the lifeline reports it
            os.close(descriptor)
    number, size, deadline = numbers
    lifeline = received[3]
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, lifeline)
    try:
        channel.sendmsg([b"P\n"], rights(seat.pidfd))
    except OSError:  # too many descriptors are in flight, or the runtime is gone
        tell(lifeline, b"P\n")
    channel.detach()
    tell(seat.inbox, b"%d %d\n" % (seat.pid, number))
    link.sendmsg([b"%d" % deadline], rights(lifeline))
    return received, size


def rights(descriptor: int) -> list[tuple[int, int, bytes]]:
    """The part of a message that carries a descriptor."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor.to_bytes(4, sys.byteorder))]


def become(seat: Seat, link: socket.socket, supervisor: int) -> bool:
    """Wait for a request and execute its script; all other descriptors close on exec. Returns only on failure."""
    received, size = accept(seat, link, supervisor)
    if not received:
        return False
    *stdio, lifeline, memory = received
    stage = b"start"
    try:
        isolate, cwd, count, *words = os.pread(memory, size, 0).split(b"\0")
        argv, variables = words[: int(count)], words[int(count) :]
        stage = b"chdir"
        os.chdir(cwd)
        stage = b"start"
        for number, descriptor in enumerate(stdio):
            os.dup2(descriptor, number)
        stage = b"isolate"
        if isolate == b"1":
            seat.confine()
        stage = b"exec"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        execute(argv, dict(variable.split(b"=", 1) for variable in variables))
    except OSError as error:
        tell(lifeline, b"F %s %d\n" % (stage, error.errno or 0))
    return False


def hung_up(lifeline: int) -> bool:
    poll = select.poll()
    poll.register(lifeline, select.POLLRDHUP)
    return bool(poll.poll(0))


def execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Search the script's PATH as a shell does: a file that cannot be executed does not end the search."""
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    problem = OSError(2, "not on PATH")
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        try:
            os.execve(os.path.join(folder, argv[0]), argv, env)  # noqa: PTH118
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            problem = error
    raise problem


def clear(script: int, ended: int, lifeline: int, supervisor: int) -> list[int]:
    """Kill and reap the script and its descendants, reporting progress. Returns pids that could not be killed."""
    deadline = time.monotonic() + END_SECONDS
    kill_all(script)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.poll(END_SECONDS * 1000)
    reaped, status = os.waitpid(script, os.WNOHANG)
    report = b"S %d\n" % status if reaped else b""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:  # the usual case, in one message
        tell(lifeline, report + b"C\n")
        return []
    tell(lifeline, report)
    left = end_descendants(deadline)
    if left and os.getpid() == 1:
        left = [supervisor]  # it cannot end before them, and the runtime does not know their pids
    tell(lifeline, b"L %s\n" % b" ".join(b"%d" % pid for pid in left) if left else b"C\n")
    return left


def kill_all(script: int) -> None:
    """Kill the script and its process group or, as the first process of a PID namespace, all processes there."""
    if os.getpid() == 1:
        kill(-1)
    else:
        kill(-script)  # not reaped yet, so the pid cannot have been reused
        kill(script)


def end_descendants(deadline: float) -> list[int]:
    """Kill and reap until this process has no descendants. Returns pids that did not die before the deadline."""
    while True:
        for pid in children():
            kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        pause = deadline - time.monotonic()
        if pause <= 0:
            return children()
        signal.sigtimedwait((signal.SIGCHLD,), min(pause, 0.05))


def tell(lifeline: int, text: bytes) -> None:
    try:
        os.write(lifeline, text)
    except OSError:  # the reader has closed its end
        pass
