"""A zygote: a Python interpreter that has imported a script's modules and is forked for each execution of the script.

    runtime -> helper -> supervisor -> zygote -> one supervisor per execution -> the script and its descendants

It is the script's own interpreter, `python judge.py ...`, paused at the end of its start-up: `warm_site` comes first
on `sys.path`, so `site` runs this file as `sitecustomize`. It imports the modules and then serves requests as
`helper.py` does. Its children do not execute another program: they return from `site`, and the interpreter runs the
script and exits as usual. So the code here does not run the script itself and does not appear in tracebacks.

Its stdin is the socket to the runtime. The first datagram contains its settings. It replies with `R` and the
imported files when it is ready, or with `N` and the reason why it must not be forked. From then on it follows the
helper's protocol. The zygote itself never reads a request: the child that becomes the script does.
"""

from __future__ import annotations

# ruff: noqa: PTH100, PTH109, PTH110, PTH115, PTH117, PTH120, PTH123, PTH208, SIM105, SLF001  as in helper.py
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import atexit
import gc
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentv.processes.helper import (
        PR_SET_CHILD_SUBREAPER,
        PR_SET_DUMPABLE,
        Helper,
        RunningError,
        accept,
        children,
        prctl,
        tell,
    )
    from agentv.processes.supervisor import Seat
    from agentv.processes.warm_environment import Copies, Watched
    from agentv.processes.warm_imports import import_all
    from agentv.processes.warm_threads import Threads
else:
    from _agentv_helper import (
        PR_SET_CHILD_SUBREAPER,
        PR_SET_DUMPABLE,
        Helper,
        RunningError,
        accept,
        children,
        prctl,
        tell,
    )
    from _agentv_warm_environment import Copies, Watched
    from _agentv_warm_imports import import_all
    from _agentv_warm_threads import Threads

MODULES = ("helper", "warm_environment", "warm_imports", "warm_threads", "zygote")
"""The files that `warm_site` loads, as `_agentv_<name>`."""
MOST_OUTPUT = 1 << 20
"""Most output of the imports that is repeated for every execution."""
MOST_FILES = 500
SAFE_PATH = getattr(sys.flags, "safe_path", False)  # since Python 3.11
OURS = ("fork", "waitpid", "read", "write", "pread", "close", "dup2", "kill", "chdir", "_exit", "pidfd_open")


# -- side effects of imports that make forking unsafe


def descriptors() -> set[str]:
    numbers = set(os.listdir("/proc/self/fd"))
    return {number for number in numbers if os.path.exists(f"/proc/self/fd/{number}")}


def functions() -> list[Any]:
    return [*(getattr(os, name) for name in OURS), select.poll, time.monotonic]


class Before:
    """State of the process before the imports."""

    def __init__(self, environ: Watched, threads: Threads, copies: Copies, path: list[str]) -> None:
        self._environ = environ
        self._threads = threads
        self._copies = copies
        self._path = path
        self._directory = os.getcwd()
        self._functions = functions()
        self._descriptors = descriptors()

    def refusal(self) -> str | None:
        """Why this process must not be forked after the imports; None when it can be."""
        if functions() != self._functions or signal.getsignal(signal.SIGCHLD) != signal.SIG_DFL:
            return "its imports replace functions of `os`, or handle SIGCHLD"
        if (threads := self._threads.refusal()) is not None:
            return threads
        if children() or escaped():
            return "its imports start processes"
        if (memory := shared_memory()) is not None:
            return f"its imports create writable memory that all executions would share ({memory})"
        if opened := sorted(descriptors() - self._descriptors, key=int):
            return f"its imports open files or sockets and keep them open ({_target(opened[0])})"
        if self._environ.asked is not None:
            return f"its imports read variables that differ between executions ({os.fsdecode(self._environ.asked)})"
        if sys.path[: len(self._path)] != self._path or os.getcwd() != self._directory:
            return "its imports change the start of sys.path, or the working directory"
        return self._copies.refusal()


def escaped() -> bool:
    """Whether an import started a process that this process did not adopt, because the import undid the adoption."""
    try:
        me = os.readlink("/proc/self")
        with open("/proc/self/stat", "rb") as stat:
            parent = os.fsdecode(stat.read().rpartition(b")")[2].split()[1])
        with open(f"/proc/{parent}/task/{parent}/children", "rb") as pids:
            return any(pid != os.fsencode(me) for pid in pids.read().split())
    except OSError:  # hidden, or a kernel without these files
        return False


def shared_memory() -> str | None:
    """The name of a mapping that stays shared after a fork and can be written to; None without one."""
    with open("/proc/self/maps", "rb") as maps:
        if not any(line.split(None, 2)[1].endswith(b"s") for line in maps):
            return None
    shared: bytes | None = None
    with open("/proc/self/smaps", "rb") as smaps:
        for line in smaps:
            words = line.split(None, 5)
            if b"-" in words[0]:  # `<start>-<end> rw-s <offset> <device> <inode> <name>`
                shared = words[1] if words[1].endswith(b"s") else None
                name = words[5].strip() if len(words) > 5 else b""
                if shared is not None and b"w" in shared:
                    break
            elif shared is not None and words[0] == b"VmFlags:" and b"mw" in line.split():  # may become writable
                break
        else:
            return None
    return "anonymous" if name in (b"", b"/dev/zero (deleted)") else os.fsdecode(name)


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return f"descriptor {descriptor}"


# -- the zygote


class Zygote(Helper):
    """A helper whose children continue as the script instead of executing a program."""

    def __init__(self, control: int, runtime_pid: int, environ: Watched, copies: Copies) -> None:
        super().__init__(control, runtime_pid)
        self._environ = environ
        self._copies = copies

    def turn(self, seat: Seat, link: socket.socket, supervisor: int) -> bool:
        """Wait for a request and prepare to run its script with only the descriptors that a new process would have."""
        received, size = accept(seat, link, supervisor)
        if not received:
            return False
        *stdio, lifeline, memory = received
        stage = b"start"
        try:
            isolate, cwd, _, *variables = os.pread(memory, size, 0).split(b"\0")
            for number, descriptor in enumerate(stdio):
                os.dup2(descriptor, number)
            stage = b"chdir"
            os.chdir(cwd)
            stage = b"isolate"
            if isolate == b"1":
                seat.confine()
            prctl(PR_SET_DUMPABLE, 1)
        except OSError as error:
            tell(lifeline, b"F %s %d\n" % (stage, error.errno or 0))
            return False
        seat.control.close()
        link.close()
        self._idle_count.close()  # memory shared with the supervisors
        os.closerange(3, 1 << 20)
        self._environ.end(variables)
        self._copies.fill(variables)
        return True


class Output:
    """Captures the output of the imports, so that every execution can repeat it."""

    def __init__(self) -> None:
        self._files = [os.memfd_create("output", os.MFD_CLOEXEC) for _ in range(2)]
        self._pipes = [os.dup(number) for number in (1, 2)]
        for number, file in enumerate(self._files, 1):
            os.dup2(file, number, inheritable=True)
        self.captured: list[bytes] = []

    def end(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass
        self.captured = [os.pread(file, MOST_OUTPUT + 1, 0) for file in self._files]
        for number, pipe in enumerate(self._pipes, 1):
            os.dup2(pipe, number)
        for descriptor in (*self._files, *self._pipes):
            os.close(descriptor)

    def repeat(self) -> None:
        for number, unwritten in enumerate(self.captured, 1):
            while unwritten:
                try:
                    unwritten = unwritten[os.write(number, unwritten) :]  # noqa: PLW2901
                except OSError:
                    break


def leave(known: set[str], resumed: list[Any]) -> None:
    """The last `atexit` handler: exits immediately when the script ran to its end without an error.

    Tearing down the interpreter object by object copies shared memory pages and can take longer than the script.
    Any other exit is left to the interpreter, because only it knows the exit code.
    """
    main = sys.modules.get("__main__")
    # The interpreter gives the script a loader, deletes `__file__` when the script has run to its end, and sets
    # `last_type` when it ended with an exception.
    loader = type(getattr(main, "__loader__", None)).__name__
    if loader != "SourceFileLoader" or hasattr(main, "__file__") or hasattr(main, "__cached__"):
        return
    if hasattr(sys, "last_type"):
        return
    # Other threads still need their globals, except those that imports have started: their modules are kept below.
    if len(os.listdir("/proc/self/task")) > 1 + sum(thread.is_alive() for thread in resumed):
        return
    try:
        flush_files()
        # Files that the script did not close are closed when its globals are cleared.
        own = [main, *(module for name, module in list(sys.modules.items()) if name not in known)]
        for names in [vars(module) for module in own if module is not None]:
            for name in [name for name in names if name != "__builtins__"]:
                names[name] = None
        gc.collect()
        flush_files()
    except Exception:  # the interpreter sets the exit code for this
        return
    os._exit(0)


def flush_files() -> None:
    """Flush the standard streams and all files opened after the fork."""
    file = sys.modules["io"].IOBase
    for thing in (*gc.get_objects(), sys.stdout, sys.stderr):
        if isinstance(thing, file) and not thing.closed and thing.writable():
            thing.flush()


def own_site(site: str) -> None:
    """Remove `warm_site` from the path, and run the `sitecustomize` that it replaced."""
    sys.path[:] = [entry for entry in sys.path if entry != site]
    sys.path_importer_cache.pop(site, None)
    before = os.environ.pop("PYTHONPATH", site)[len(site) + 1 :]
    if before:
        os.environ["PYTHONPATH"] = before
    ours = sys.modules.pop("sitecustomize")
    for name in MODULES:
        del sys.modules[f"_agentv_{name}"]
    try:
        __import__("sitecustomize")
    except BaseException:
        sys.modules["sitecustomize"] = ours  # `site` looks for it when we return
    if sys.modules["site"].ENABLE_USER_SITE:
        sys.modules["site"].execusercustomize()


class Prepared:
    """The process after the imports."""

    def __init__(self, site: str, script: str, own: dict[bytes, bytes | None]) -> None:
        """`own` are the variables whose values differ between executions; addresses have their paths, others None."""
        self.output = Output()
        own_site(site)
        self.environ = Watched(os.environ._data, own)  # type: ignore[attr-defined]
        self.copies = Copies(self.environ)
        self.threads = Threads()
        path = [] if SAFE_PATH else [os.path.dirname(os.path.realpath(script))]
        sys.path[:0] = path
        sys.modules["__main__"].__file__ = os.path.abspath(script)
        before = Before(self.environ, self.threads, self.copies, path)
        self.environ.install()
        import_all(script)
        self.refusal = before.refusal()
        """Why this process must not be forked; None when it can be."""
        self.output.end()
        if max(map(len, self.output.captured)) > MOST_OUTPUT:
            self.refusal = "its imports print more than 1 MiB"


def own_files() -> list[bytes]:
    """Imported files outside of installed packages, which may be edited while the zygote is alive."""
    user_site = sys.modules["site"].USER_SITE or sys.prefix
    installed = (sys.prefix + "/", sys.base_prefix + "/", user_site + "/")
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = [file for file in files if isinstance(file, str) and not file.startswith(installed)]
    return [os.fsencode(file) for file in own if os.path.isabs(file)][:MOST_FILES]


def serve(site: str) -> int:
    """Serve until the runtime disconnects. Raises `RunningError` in every child that continues as the script."""
    known: set[str] = set()
    resumed: list[Any] = []
    atexit.register(leave, known, resumed)  # registered first, so called last
    control, nothing = os.dup(0), os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)  # an import that reads stdin fails here and is repeated by the script
    os.close(nothing)
    runtime, script, *names = os.read(control, 65536).split(b"\0")
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # processes that imports start and detach become children, which are not forked
    own = {name: path if is_url else None for name, is_url, path in (each.partition(b"=") for each in names)}
    prepared = Prepared(site, os.fsdecode(script), own)
    if prepared.refusal is not None:
        os.write(control, b"N" + os.fsencode(prepared.refusal))
        return 0
    known.update(sys.modules)
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    prctl(PR_SET_DUMPABLE, 0)
    collecting = gc.isenabled()
    gc.disable()
    gc.freeze()
    # In a PID namespace, the supervisor is its first process and watches the runtime, whose pid means nothing here.
    zygote = Zygote(control, 0 if os.getppid() == 1 else int(runtime), prepared.environ, prepared.copies)
    os.write(control, b"R" + b"\0".join(own_files()))
    try:
        zygote.serve()
    except RunningError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if collecting:
            gc.enable()
        if not SAFE_PATH:
            del sys.path[0]  # the interpreter is about to add it
        del sys.modules["__main__"].__file__  # and to set this
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()
        prepared.output.repeat()
        resumed += prepared.threads.resume()
        raise
    return 0


def main(site: str) -> None:
    """Serve and exit; returns only in a child that continues as the script."""
    code = 70
    try:
        code = serve(site)
    except RunningError:
        return
    except BaseException as error:
        tell(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
    os._exit(code)
