"""The process that starts scripts for the runtime: `python -I -S helper.py CONTROL RUNTIME_PID KIND`.

    runtime -> helper -> one supervisor per script -> the script and its descendants

The helper uses only the standard library and has a minimal environment, so it never sees the runtime's secrets. Every
descendant of a script stays below that script's supervisor, even in a new session. The supervisor kills them all when
the script exits, when the runtime asks for it, and when the runtime dies. When a supervisor is killed, its descendants
become children of the helper, which kills them too.

A few supervisors are started in advance. Each has a child that waits on the control socket for the next request and
then executes its script. Supervisors are reused, because two forks of Python per script would make small scripts about
10 % slower.

The helper for isolated scripts (KIND `namespaces`) puts each supervisor into its own PID namespace, where possible.
As the first process there, a supervisor cannot be stopped or killed by its script, and when it dies, the kernel kills
the rest.

A request is one datagram, `<number> <size> <deadline>`, with five descriptors: the script's stdin, stdout and stderr,
the lifeline, and a memory file of `size` bytes that describes what to start. The helper replies only when a supervisor
ended abnormally, after killing its orphans: `<number> <pids that could not be killed>`.

The lifeline is a socket. When the runtime closes its end, the script and its descendants are killed. It can also send
`T <deadline>` to change the deadline, and `W` to wake a stopped script. Deadlines are times of the monotonic clock in
milliseconds; 0 means none. The runtime reads these lines from the lifeline:

    P                   a supervisor accepted the request; nothing has been started yet. Comes with its pidfd
    F <stage> <errno>   the script could not be started
    T                   the deadline has passed; the script is about to be killed
    S <wait status>     the script exited
    C                   all its descendants are dead
    L <pids>            these processes could not be killed
"""

from __future__ import annotations

# ruff: noqa: PTH115, PTH208, S606, SIM105  importing pathlib, contextlib, or enum (through signal and socket) would double
# the start-up time of this process and slow down each of its forks.
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import gc
import mmap
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agentv.processes import confinement
elif __name__ == "agentv.processes.helper":
    from agentv.processes import confinement
else:  # run as a program, or by a zygote: agentv cannot be imported
    from _frozen_importlib_external import SourceFileLoader

    confinement = type(sys)("_agentv_confinement")
    exec(  # noqa: S102
        SourceFileLoader(confinement.__name__, f"{__file__.rpartition('/')[0]}/confinement.py").get_code(
            confinement.__name__
        ),
        confinement.__dict__,
    )

END_SECONDS = 5.0
"""How long to wait for killed processes to die; one that is blocked on a broken disk may never die."""
SPARES = max(2, min(4, os.cpu_count() or 2))
"""Number of idle supervisors kept ready: enough that a burst of requests keeps every core busy."""
MOST_IDLE = 2 * SPARES + 4
"""A supervisor exits after its script when more than this number are idle."""
NO_PROCESS = 75
"""Exit code of a supervisor that could not fork."""
NO_NAMESPACE = 76
"""Exit code of a supervisor that could not prepare its namespaces."""
NO_MEMORY = (11, 12)
"""EAGAIN and ENOMEM: the system allows no more processes at the moment."""
LONGEST_PAUSE = 1 << 30
RUNNING = -1
"""Returned instead of an exit code in the forked child that continues as the script."""

prctl = confinement.prctl
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = confinement.PR_SET_PDEATHSIG, confinement.PR_SET_DUMPABLE
PR_SET_CHILD_SUBREAPER = confinement.PR_SET_CHILD_SUBREAPER


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
        self.pid = self.pidfd = self.signals = -1

    def take(self, pid: int) -> None:
        """Called in a new supervisor, with its pid as the helper sees it."""
        self.pid = pid
        self.pidfd = os.pidfd_open(os.getpid())
        self.signals = confinement.signal_descriptor(signal.SIGCHLD)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGCONT)  # wakes a stopped supervisor when the helper dies

    def confine(self) -> None:
        """Confine this process for good: processes outside become inaccessible, where the kernel can do that."""
        confinement.enter_domain(self._ruleset, self._calls)


def supervise(seat: Seat, *, turn: Callable[..., bool]) -> int:
    """Supervise scripts one after the other, until one of them leaves processes that cannot be killed.

    Returns the exit code for this process, and `RUNNING` in the child that `turn` made the script.
    """
    me = os.getpid()
    code: int | None = None
    while code is None and seat.idle[0] <= MOST_IDLE:
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
    os.read(signals, 4096)
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
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
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


# -- the helper


class RunningError(Exception):
    """Raised in a forked child to leave the helper's code and continue as the script."""


class Helper:
    """Keeps supervisors ready, and kills what remains when a supervisor ends abnormally."""

    turn: Callable[..., bool] = staticmethod(become)
    """Turns a waiting child into its script; True when the script continues in this same process."""

    def __init__(self, control: int, runtime_pid: int, *, namespaces: bool = False) -> None:
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)
        self._runtime = os.pidfd_open(runtime_pid) if runtime_pid else -1
        self._inbox, their_inbox = os.pipe()
        os.set_blocking(self._inbox, False)
        self._namespaces = namespaces and own_proc()
        self._supervisors: dict[int, int] = {}
        """pidfd -> pid."""
        self._numbers: dict[int, int] = {}
        """pid -> request number, for supervisors that are running a script."""
        self._idle_count = mmap.mmap(-1, 1)
        """Number of idle supervisors, in memory shared with them."""
        self._seat = Seat(self._control, their_inbox, self._runtime, self._idle_count)
        self._unread = b""
        self._lost: list[int] = []
        self._hunting = False
        self._hunt_until = 0.0
        self._close_at: float | None = None
        self._poll = select.poll()
        self._poll.register(self._control.fileno(), 0)  # POLLHUP is always reported
        if self._runtime >= 0:
            self._poll.register(self._runtime, select.POLLIN)
        self._poll.register(self._inbox, select.POLLIN)

    def serve(self) -> None:
        """Serve until the runtime disconnects or dies and all descendants are dead."""
        while self._close_at is None or self._supervisors or self._hunting:
            short = self._close_at is None and not self._keep_spares()
            self._idle_count[0] = min(255, self._idle())
            busy = self._hunting or short or self._close_at is not None
            for descriptor, _ in self._poll.poll(2 if self._hunting else 50 if busy else None):
                if descriptor in self._supervisors:
                    self._read_inbox()
                    self._supervisor_ended(descriptor)
                elif descriptor == self._inbox:
                    self._read_inbox()
                elif self._close_at is None:
                    self._close()
            if self._close_at is not None and time.monotonic() > self._close_at:
                for pid in self._supervisors.values():
                    kill(pid)
            if self._hunting:
                self._hunt()

    def _idle(self) -> int:
        return len(self._supervisors) - len(self._numbers)

    def _keep_spares(self) -> bool:
        """Fork until enough supervisors are idle. False when the system allows no more processes."""
        while self._idle() < SPARES:
            try:
                pid = self._fork()
            except OSError as error:
                self._refuse(error.errno or 0)
                return False
            if pid == 0:
                code = 70
                try:
                    code = self._supervise()
                finally:
                    if code != RUNNING:
                        os._exit(code)
                raise RunningError
            ended = os.pidfd_open(pid)
            self._supervisors[ended] = pid
            self._poll.register(ended, select.POLLIN)
        return True

    def _fork(self) -> int:
        """Fork a supervisor, in its own namespaces where possible."""
        if self._namespaces:
            try:
                return confinement.fork_into_namespaces()
            except OSError as error:
                if error.errno in NO_MEMORY:
                    raise
                self._namespaces = False
        return os.fork()

    def _supervise(self) -> int:
        pid = os.getpid()
        if self._namespaces:
            try:
                pid = int(os.readlink("/proc/self"))  # still the helper's /proc, so this is what the helper calls us
                confinement.mount_proc()
            except OSError:
                return NO_NAMESPACE
        self._seat.take(pid)
        return supervise(self._seat, turn=self.turn)

    def _refuse(self, number: int) -> None:
        """Fail the waiting requests when no supervisor can be started for them."""
        while not self._idle():
            try:
                _, received = receive(self._control, 5, socket.MSG_DONTWAIT)
            except OSError:
                return
            if len(received) == 5:
                tell(received[3], b"F start %d\nC\n" % number)
            for descriptor in received:
                os.close(descriptor)
            if not received:
                return

    def _read_inbox(self) -> None:
        try:
            text = self._unread + os.read(self._inbox, 65536)
        except BlockingIOError:
            return
        *lines, self._unread = text.split(b"\n")
        for line in lines:
            pid, number = map(int, line.split())
            if number and pid in self._supervisors.values():
                self._numbers[pid] = number
            else:
                self._numbers.pop(pid, None)

    def _supervisor_ended(self, ended: int) -> None:
        pid = self._supervisors.pop(ended)
        number = self._numbers.pop(pid, None)
        self._poll.unregister(ended)
        os.close(ended)
        status = os.waitpid(pid, 0)[1]
        if status == NO_PROCESS << 8:
            self._refuse(11)
        elif status == NO_NAMESPACE << 8:
            self._namespaces = False
        elif status:
            self._hunting = True
            self._hunt_until = time.monotonic() + END_SECONDS
            self._lost += [] if number is None else [number]

    def _hunt(self) -> None:
        """Kill the orphans of a lost supervisor: every child of the helper that is not a supervisor."""
        strangers = self._strangers() or self._strangers()  # one pass may miss a process
        for pid in strangers:
            kill(pid)
            os.waitpid(pid, os.WNOHANG)
        if strangers and time.monotonic() < self._hunt_until:
            return
        for number in self._lost:
            try:
                self._control.send(b" ".join(b"%d" % each for each in (number, *strangers[:100])), socket.MSG_DONTWAIT)
            except OSError:
                pass
        self._lost.clear()
        self._hunting = False

    def _strangers(self) -> list[int]:
        supervisors = set(self._supervisors.values())
        return [pid for pid in children() if pid not in supervisors]

    def _close(self) -> None:
        self._close_at = time.monotonic() + END_SECONDS + 1
        self._poll.unregister(self._control.fileno())
        if self._runtime >= 0:
            self._poll.unregister(self._runtime)
        for pid in self._supervisors.values():
            kill(pid, signal.SIGCONT)


def own_proc() -> bool:
    """Whether /proc shows this process's PID namespace."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def namespace_works() -> bool:
    """Whether this process can start others in a PID namespace with its own /proc."""
    if not own_proc():
        return False
    try:
        pid = confinement.fork_into_namespaces()
    except OSError:
        return False
    if pid == 0:
        code = NO_NAMESPACE
        try:
            confinement.mount_proc()
            code = 0 if os.getpid() == 1 and own_proc() else code
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def main(control: int, runtime_pid: int, kind: str) -> None:
    os.set_inheritable(control, False)
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)  # wakes a stopped helper when the runtime dies
    # Only the runtime ends this process: a signal sent to the whole group must not leave scripts unsupervised.
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    helper = Helper(control, runtime_pid, namespaces=kind == "namespaces")
    gc.disable()
    gc.freeze()
    helper.serve()


if __name__ == "__main__":
    exit_code = 70
    try:
        if sys.argv[1] == "test-namespace":
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            exit_code = 0 if namespace_works() else NO_NAMESPACE
        else:
            main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
            exit_code = 0
    finally:
        os._exit(exit_code)
