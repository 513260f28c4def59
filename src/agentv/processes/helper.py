"""The process that starts scripts for the runtime: `python -I -S helper.py CONTROL RUNTIME_PID`.

    runtime -> helper -> one supervisor per script -> the script and its descendants

The helper uses only the standard library and has a minimal environment, so it never sees the runtime's secrets. Every
descendant of a script stays below that script's supervisor, even in a new session. The supervisor kills them all when
the script exits, when the runtime asks for it, and when the runtime dies. When a supervisor is killed, its descendants
become children of the helper, which kills them too.

A few supervisors are started in advance. Each has a child that waits on the control socket for the next request and
then executes its script. Supervisors are reused, because two forks of Python per script would make small scripts about
10 % slower.

A request is one datagram, `<number> <size>`, with five descriptors: the script's stdin, stdout and stderr, the
lifeline, and a memory file of `size` bytes that describes what to start. The helper replies only when a supervisor
ended abnormally, after killing its orphans: `<number> <pids that could not be killed>`.

The lifeline is a socket. When the runtime closes its end, the script and its descendants are killed. The runtime reads
these lines from it:

    P <pid>             a supervisor accepted the request; nothing has been started yet
    F <stage> <errno>   the script could not be started
    S <wait status>     the script exited
    C                   all its descendants are dead
    L <pids>            these processes could not be killed
"""

from __future__ import annotations

# ruff: noqa: PTH208, S606, SIM105  importing pathlib, contextlib, or enum (through signal and socket) would double
# the start-up time of this process and slow down each of its forks.
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import ctypes
import gc
import mmap
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

END_SECONDS = 5.0
"""How long to wait for killed processes to die; one that is blocked on a broken disk may never die."""
SPARES = max(2, min(4, os.cpu_count() or 2))
"""Number of idle supervisors kept ready: enough that a burst of requests keeps every core busy."""
MOST_IDLE = 2 * SPARES + 4
"""A supervisor exits after its script when more than this number are idle."""
NO_PROCESS = 75
"""Exit code of a supervisor that could not fork."""
RUNNING = -1
"""Returned instead of an exit code in the forked child that continues as the script."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
ACCESS_FS_MAKE_BLOCK, ACCESS_FS_REFER, SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 11, 1 << 13, 1 << 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.syscall.restype = ctypes.c_long


def prctl(option: int, value: int) -> int:
    result: int = _libc.prctl(option, value, 0, 0, 0)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
    return result


# -- Landlock


def landlock_abi() -> int | None:
    """The Landlock version of this kernel; None without Landlock."""
    abi: int = _libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return abi if abi > 0 else None


def landlock_ruleset(abi: int) -> int:
    """A ruleset with as few restrictions as Landlock allows. Only the domain matters: processes in a domain cannot
    read the memory or environment of processes outside it.

    From version 6 on, a domain does not need file rules. Before that, any file rule also forbids moving files between
    directories unless this is explicitly allowed, which version 1 does not support.
    """
    if abi >= 6:
        rules = (ctypes.c_uint64 * 3)(0, 0, SCOPE_ABSTRACT_UNIX_SOCKET)
    else:
        rules = (ctypes.c_uint64 * 3)(ACCESS_FS_REFER if abi >= 2 else ACCESS_FS_MAKE_BLOCK)
    size = ctypes.c_size_t(24 if abi >= 6 else 8)
    ruleset = _checked(_libc.syscall(LANDLOCK_CREATE_RULESET, rules, size, ctypes.c_uint32(0)))
    if 2 <= abi < 6:
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        everywhere = ACCESS_FS_REFER.to_bytes(8, sys.byteorder) + root.to_bytes(4, sys.byteorder)
        _checked(_libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, everywhere, 0))
        os.close(root)
    return ruleset


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "landlock")
    return result


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


def supervise(
    control: socket.socket, inbox: int, runtime: int, ruleset: int, idle: mmap.mmap, *, turn: Callable[..., bool]
) -> int:
    """Supervise scripts one after the other, until one of them leaves processes that cannot be killed.

    Returns the exit code for this process, and `RUNNING` in the child that `turn` made the script.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)  # wakes a stopped supervisor when the helper dies
    me = os.getpid()
    code: int | None = None
    while code is None and idle[0] <= MOST_IDLE:
        link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            script = os.fork()
        except OSError:
            return NO_PROCESS
        if script == 0:
            running = False
            link.close()
            try:
                running = turn(control, theirs, inbox, me, ruleset)
            finally:
                if not running:
                    os._exit(127)
            return RUNNING
        theirs.close()
        ended = os.pidfd_open(script)
        code = attend(script, ended, link, inbox, runtime)
        link.close()
        os.close(ended)
    return code or 0


def attend(script: int, ended: int, link: socket.socket, inbox: int, runtime: int) -> int | None:
    """Wait for a script to start and to end. Returns None when the supervisor can take the next script."""
    poll = select.poll()
    for descriptor in (link.fileno(), ended, runtime):
        poll.register(descriptor, select.POLLIN)
    poll.poll()
    try:
        _, (lifeline,) = receive(link, 1, socket.MSG_DONTWAIT)
    except (OSError, ValueError):  # no request arrived, and none will
        kill(script)
        os.waitpid(script, 0)
        return 0
    poll.unregister(link.fileno())
    poll.register(lifeline, select.POLLIN)
    poll.poll()
    left = clear(script, ended, lifeline)
    os.close(lifeline)
    tell(inbox, b"%d 0\n" % os.getpid())
    return 1 if left else None


def accept(control: socket.socket, link: socket.socket, inbox: int, supervisor: int) -> tuple[list[int], int]:
    """Wait for a request and notify runtime, helper and supervisor. Its descriptors and size; empty on shutdown."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        return [], 0
    while True:
        numbers, received = receive(control, 5)
        if not numbers:
            return [], 0
        if len(received) == 5 and not hung_up(received[3]):
            break
        for descriptor in received:  # cancelled; or out of descriptors, and closing the lifeline reports it
            os.close(descriptor)
    lifeline = received[3]
    tell(lifeline, b"P %d\n" % supervisor)
    tell(inbox, b"%d %d\n" % (supervisor, numbers[0]))
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, lifeline.to_bytes(4, sys.byteorder))
    link.sendmsg([b"0"], [rights])
    return received, numbers[1]


def become(control: socket.socket, link: socket.socket, inbox: int, supervisor: int, ruleset: int) -> bool:
    """Wait for a request and execute its script; all other descriptors close on exec. Returns only on failure."""
    received, size = accept(control, link, inbox, supervisor)
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
            enter_domain(ruleset)
        stage = b"exec"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        execute(argv, dict(variable.split(b"=", 1) for variable in variables))
    except OSError as error:
        tell(lifeline, b"F %s %d\n" % (stage, error.errno or 0))
    return False


def enter_domain(ruleset: int) -> None:
    """Enter the Landlock domain, if there is one: processes outside it become inaccessible."""
    if ruleset >= 0:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        _checked(_libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))


def hung_up(lifeline: int) -> bool:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
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


def clear(script: int, ended: int, lifeline: int) -> list[int]:
    """Kill and reap the script and its descendants, reporting progress. Returns pids that could not be killed."""
    deadline = time.monotonic() + END_SECONDS
    kill(-script)  # not reaped yet, so the pid cannot have been reused
    kill(script)
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
    tell(lifeline, b"L %s\n" % b" ".join(b"%d" % pid for pid in left) if left else b"C\n")
    return left


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

    def __init__(self, control: int, runtime_pid: int) -> None:
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)
        self._runtime = os.pidfd_open(runtime_pid)
        self._inbox, self._their_inbox = os.pipe()
        os.set_blocking(self._inbox, False)
        abi = landlock_abi()
        self._ruleset = landlock_ruleset(abi) if abi else -1
        self._supervisors: dict[int, int] = {}
        """pidfd -> pid."""
        self._numbers: dict[int, int] = {}
        """pid -> request number, for supervisors that are running a script."""
        self._idle_count = mmap.mmap(-1, 1)
        """Number of idle supervisors, in memory shared with them."""
        self._unread = b""
        self._lost: list[int] = []
        self._hunting = False
        self._hunt_until = 0.0
        self._close_at: float | None = None
        self._poll = select.poll()
        self._poll.register(self._control.fileno(), 0)  # POLLHUP is always reported
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
                pid = os.fork()
            except OSError as error:
                self._refuse(error.errno or 0)
                return False
            if pid == 0:
                code = 70
                arguments = (self._control, self._their_inbox, self._runtime, self._ruleset, self._idle_count)
                try:
                    code = supervise(*arguments, turn=self.turn)
                finally:
                    if code != RUNNING:
                        os._exit(code)
                raise RunningError
            ended = os.pidfd_open(pid)
            self._supervisors[ended] = pid
            self._poll.register(ended, select.POLLIN)
        return True

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
        self._poll.unregister(self._runtime)
        for pid in self._supervisors.values():
            kill(pid, signal.SIGCONT)


def main(control: int, runtime_pid: int) -> None:
    os.set_inheritable(control, False)
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)  # wakes a stopped helper when the runtime dies
    # Only the runtime ends this process: a signal sent to the whole group must not leave scripts unsupervised.
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    helper = Helper(control, runtime_pid)
    gc.disable()
    gc.freeze()
    helper.serve()


if __name__ == "__main__":
    exit_code = 70
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
        exit_code = 0
    finally:
        os._exit(exit_code)
