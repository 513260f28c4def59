"""The process that starts scripts for the runtime: `python -I -S helper.py CONTROL RUNTIME_PID`.

    runtime -> helper -> a supervisor for each script -> the script and whatever it starts

It stands alone, on the standard library, with an environment of its own: it never saw what the runtime knows. Every
descendant of a script ends up below that script's supervisor, whatever sessions it makes, and the supervisor kills
them all when the script exits, when the runtime says so, and when the runtime dies. Who kills a supervisor hands its
descendants to the helper, which kills them too.

A few supervisors are always there in advance, each with a child that waits on the control socket for the next request
and becomes its script, and they stay for the next one: two forks of Python would add a tenth to the time that a small
script takes.

A request is one datagram, `<number> <size>`, with five descriptors: the script's stdin, stdout and stderr, the
lifeline, and a memory file of `size` bytes that says what to start. The helper answers only for a supervisor that did
not end well, once its orphans are dead: `<number> <pids that would not die>`.

The lifeline is a socket. When the runtime closes its end, everything is killed. On it the runtime reads lines:
`P <pid>` a supervisor is there and nothing has been started yet, `F <stage> <errno>` the script could not be started,
`S <wait status>` the script ended, `C` nothing of it is left, `L <pids>` these would not die.
"""

from __future__ import annotations

# ruff: noqa: PTH208, S606, SIM105  what would be nicer (pathlib, contextlib, enum through signal and socket) doubles
# the time this process takes to start, and makes every fork of it slower.
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
"""How long killed processes may take to die; one that waits for a broken disk may never."""
SPARES = max(2, min(4, os.cpu_count() or 2))
"""Supervisors kept waiting: enough that a burst of requests keeps every core busy."""
MOST_IDLE = 2 * SPARES + 4
"""With more than this many waiting, a supervisor that is done goes."""
NO_PROCESS = 75
"""The exit code of a supervisor that could not fork."""
RUNNING = -1
"""In place of an exit code: this process is no supervisor but the script itself, and goes on."""

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
    """The version of Landlock this kernel offers, None when it offers none."""
    abi: int = _libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return abi if abi > 0 else None


def landlock_ruleset(abi: int) -> int:
    """Rules that forbid as little as Landlock can. What counts is the domain: nobody in one may look into the memory
    or the environment of a process outside it.

    From version 6 on a domain can do without file rules. Before that, any file rule also forbids renaming from
    directory to directory unless that is allowed by name, which version 1 cannot do.
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
    """The direct children of this process, adopted ones included. May miss one while others come and go."""
    try:
        found: list[int] = []
        for thread in os.listdir("/proc/self/task"):
            found += map(int, _content(f"/proc/self/task/{thread}/children").split())
    except OSError:  # a kernel without these files
        me = os.getpid()
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == me]
    return found


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
    """The numbers of the next datagram and its descriptors; no numbers when there will be none any more."""
    text, ancillary, _, _ = channel.recvmsg(64, socket.CMSG_SPACE(4 * count), socket.MSG_CMSG_CLOEXEC | flags)
    received = [
        int.from_bytes(data[at : at + 4], sys.byteorder) for _, _, data in ancillary for at in range(0, len(data), 4)
    ]
    return [int(number) for number in text.split()], received


def supervise(
    control: socket.socket, inbox: int, runtime: int, ruleset: int, idle: mmap.mmap, *, turn: Callable[..., bool]
) -> int:
    """One script after the other, as long as nothing is left of the last. Gives the exit code of this process, and
    `RUNNING` in the child that `turn` made the script."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)  # a helper that dies wakes a supervisor somebody stopped
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
    """Wait until there is something to start, and for its end. None when all is well and the next may come."""
    poll = select.poll()
    for descriptor in (link.fileno(), ended, runtime):
        poll.register(descriptor, select.POLLIN)
    poll.poll()
    try:
        _, (lifeline,) = receive(link, 1, socket.MSG_DONTWAIT)
    except (OSError, ValueError):  # nothing was asked of it, and nothing will be
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
    """Wait for a request, and tell everybody concerned; its descriptors and size, nothing when there will be none."""
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
        for descriptor in received:  # not wanted any more; or no more could be opened, and the lifeline closes
            os.close(descriptor)
    lifeline = received[3]
    tell(lifeline, b"P %d\n" % supervisor)
    tell(inbox, b"%d %d\n" % (supervisor, numbers[0]))
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, lifeline.to_bytes(4, sys.byteorder))
    link.sendmsg([b"0"], [rights])
    return received, numbers[1]


def become(control: socket.socket, link: socket.socket, inbox: int, supervisor: int, ruleset: int) -> bool:
    """Wait for a request and turn into its script; every other descriptor closes on exec. Returns only to fail."""
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
    """Where the kernel has Landlock, see nothing of processes outside from now on."""
    if ruleset >= 0:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        _checked(_libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))


def hung_up(lifeline: int) -> bool:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    return bool(poll.poll(0))


def execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Look on the script's PATH as a shell does: a file that may not be run is remembered, and the search goes on."""
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
    """Kill the script and its descendants, reap them, and say so as it happens; those who would not die."""
    deadline = time.monotonic() + END_SECONDS
    kill(-script)  # not reaped yet: the number is still its own
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
    """Kill and reap until nobody is below this process; those who would not die in time."""
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
    except OSError:  # nobody listens any more
        pass


# -- the helper


class RunningError(Exception):
    """Leaves the helper behind, in a child that is the script and goes on as that."""


class Helper:
    """Keeps supervisors ready, and cleans up after those who did not end well."""

    turn: Callable[..., bool] = staticmethod(become)
    """Makes a waiting child its script; True when that goes on in this very process."""

    def __init__(self, control: int, runtime_pid: int) -> None:
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)
        self._runtime = os.pidfd_open(runtime_pid)
        self._inbox, self._their_inbox = os.pipe()
        os.set_blocking(self._inbox, False)
        abi = landlock_abi()
        self._ruleset = landlock_ruleset(abi) if abi else -1
        self._supervisors: dict[int, int] = {}
        """Their pid, by pidfd."""
        self._numbers: dict[int, int] = {}
        """The request of those that have one, by pid."""
        self._shown = mmap.mmap(-1, 1)
        """How many wait, for the supervisors to see."""
        self._unread = b""
        self._lost: list[int] = []
        self._hunting = False
        self._hunt_until = 0.0
        self._close_at: float | None = None
        self._poll = select.poll()
        self._poll.register(self._control.fileno(), 0)  # hanging up is reported all the same
        self._poll.register(self._runtime, select.POLLIN)
        self._poll.register(self._inbox, select.POLLIN)

    def serve(self) -> None:
        """Until the runtime hangs up or dies, and then until nobody is left below."""
        while self._close_at is None or self._supervisors or self._hunting:
            short = self._close_at is None and not self._keep_spares()
            self._shown[0] = min(255, self._idle())
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
        """Fork until enough are waiting; False when the system allows no more processes."""
        while self._idle() < SPARES:
            try:
                pid = os.fork()
            except OSError as error:
                self._refuse(error.errno or 0)
                return False
            if pid == 0:
                code = 70
                given = (self._control, self._their_inbox, self._runtime, self._ruleset, self._shown)
                try:
                    code = supervise(*given, turn=self.turn)
                finally:
                    if code != RUNNING:
                        os._exit(code)
                raise RunningError
            ended = os.pidfd_open(pid)
            self._supervisors[ended] = pid
            self._poll.register(ended, select.POLLIN)
        return True

    def _refuse(self, number: int) -> None:
        """With nobody there to take requests, say so to those who wait."""
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
        """Kill whoever was below a lost supervisor: every child here that is no supervisor."""
        strangers = self._strangers() or self._strangers()  # one look may miss somebody
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
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)  # a runtime that dies wakes a helper somebody stopped
    # Who ends us is the runtime: a signal meant for it, or for everybody, must not leave scripts unwatched.
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
