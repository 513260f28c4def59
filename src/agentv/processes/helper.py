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

# ruff: noqa: PTH115, SIM105  importing pathlib, contextlib, or enum (through signal and socket) would double
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

    from agentv.processes import confinement, supervisor
elif __name__ == "agentv.processes.helper":
    from agentv.processes import confinement, supervisor
else:  # run as a program, or by a zygote: agentv cannot be imported
    from _frozen_importlib_external import SourceFileLoader

    def _load(name: str) -> object:
        module = sys.modules[f"_agentv_{name}"] = type(sys)(f"_agentv_{name}")
        file = f"{__file__.rpartition('/')[0]}/{name}.py"
        exec(SourceFileLoader(module.__name__, file).get_code(module.__name__), module.__dict__)  # noqa: S102
        return module

    confinement, supervisor = _load("confinement"), _load("supervisor")
    del sys.modules["_agentv_confinement"], sys.modules["_agentv_supervisor"]

NO_NAMESPACE = 76
"""Exit code of a supervisor that could not prepare its namespaces."""
NO_MEMORY = (11, 12)
"""EAGAIN and ENOMEM: the system allows no more processes at the moment."""

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = confinement.PR_SET_DUMPABLE, confinement.PR_SET_CHILD_SUBREAPER
prctl = confinement.prctl
accept, children, kill, tell = supervisor.accept, supervisor.children, supervisor.kill, supervisor.tell


class RunningError(Exception):
    """Raised in a forked child to leave the helper's code and continue as the script."""


class Helper:
    """Keeps supervisors ready, and kills what remains when a supervisor ends abnormally."""

    turn: Callable[..., bool] = staticmethod(supervisor.become)
    """Turns a waiting child into its script; True when the script continues in this same process."""

    def __init__(self, control: int, runtime_pid: int, *, namespaces: bool = False) -> None:
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, control)
        self._runtime = os.pidfd_open(runtime_pid) if runtime_pid else -1
        self._inbox, their_inbox = os.pipe()
        os.set_blocking(self._inbox, False)
        self._namespaces = namespaces and own_proc()
        self._births = os.getpid() * 61
        """Number of the next supervisor with namespaces; runs at the same time should differ."""
        self._supervisors: dict[int, int] = {}
        """pidfd -> pid."""
        self._numbers: dict[int, int] = {}
        """pid -> request number, for supervisors that are running a script."""
        self._idle_count = mmap.mmap(-1, 1)
        """Number of idle supervisors, in memory shared with them."""
        self._seat = supervisor.Seat(self._control, their_inbox, self._runtime, self._idle_count)
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
        while self._idle() < supervisor.SPARES:
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
                    if code != supervisor.RUNNING:
                        os._exit(code)
                raise RunningError
            ended = os.pidfd_open(pid)
            self._supervisors[ended] = pid
            self._poll.register(ended, select.POLLIN)
        return True

    def _fork(self) -> int:
        """Fork a supervisor, in its own namespaces where possible."""
        if self._namespaces:
            self._births += 1
            try:
                return confinement.fork_into_namespaces()
            except OSError as error:
                if error.errno in NO_MEMORY:
                    raise
                self._namespaces = False
        return os.fork()

    def _supervise(self) -> int:
        if self._namespaces:
            try:
                pid = int(os.readlink("/proc/self"))  # still the helper's /proc, so this is what the helper calls us
                confinement.mount_proc()
                self._seat.take(pid, self._births)
            except OSError:
                return NO_NAMESPACE
        else:
            self._seat.take(os.getpid(), None)
        return supervisor.supervise(self._seat, turn=self.turn)

    def _refuse(self, number: int) -> None:
        """Fail the waiting requests when no supervisor can be started for them."""
        while not self._idle():
            try:
                _, received = supervisor.receive(self._control, 5, socket.MSG_DONTWAIT)
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
        if status == supervisor.NO_PROCESS << 8:
            self._refuse(11)
        elif status == NO_NAMESPACE << 8:
            self._namespaces = False
        elif status:
            self._hunting = True
            self._hunt_until = time.monotonic() + supervisor.END_SECONDS
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
        self._close_at = time.monotonic() + supervisor.END_SECONDS + 1
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
            seat = supervisor.Seat(socket.socket(socket.AF_UNIX), -1, -1, mmap.mmap(-1, 1))
            seat.take(pid, 0)
            code = 0 if os.getpid() == 1 and own_proc() and seat.choose_pid() else code
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def main(control: int, runtime_pid: int, kind: str) -> None:
    os.set_inheritable(control, False)
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(confinement.PR_SET_PDEATHSIG, signal.SIGCONT)  # wakes a stopped helper when the runtime dies
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
