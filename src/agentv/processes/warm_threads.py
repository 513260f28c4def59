"""Threads that the imports of a script start in a zygote (see `zygote.py`).

A fork copies only the thread that forks. Daemon threads, which a program may lose at any moment, are therefore not
started during the imports: each execution starts them before its script. If an import waits for such a thread, it is
started nevertheless, and the process must not be forked as long as it runs. The same applies to all other threads.
"""

from __future__ import annotations

# ruff: noqa: PLC0415, PTH115, PTH119, PTH123, PTH208, SLF001  as in helper.py
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import Any

FORK_SAFE = frozenset({"jemalloc_bg_thd"})
"""Names of native threads whose library restores its state after a fork. jemalloc is a part of pyarrow."""


class Threads:
    """Postpones daemon threads, and remembers who started the others."""

    def __init__(self) -> None:
        import _thread
        import threading

        self._postponed: list[threading.Thread] = []
        self._started: list[tuple[threading.Thread, str]] = []
        self._native: list[str] = []
        self._active = True
        self._starting = False
        self._threading: Any = threading
        thread, condition = threading.Thread, threading.Condition
        self._start = thread.start
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._replace(thread, "start", self._start_thread)
        self._replace(thread, "is_alive", self._is_alive)
        self._replace(thread, "join", self._waiting)
        self._replace(condition, "wait", self._waiting)
        self._replace(_thread, "start_new_thread", self._start_native)

    def _replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def replacement(*args: Any, **options: Any) -> Any:
            return function(original, *args, **options) if self._active else original(*args, **options)

        replacement.__name__, replacement.__qualname__ = name, getattr(original, "__qualname__", name)
        replacement.__doc__ = original.__doc__
        self._replaced.append((owner, name, original, replacement))
        setattr(owner, name, replacement)

    def _start_thread(self, original: Callable[..., Any], thread: Any) -> None:
        if any(each is thread for each in self._postponed):
            raise RuntimeError("threads can only be started once")
        if getattr(thread, "_initialized", False) and thread.daemon and not thread._started.is_set():
            self._postponed.append(thread)
            self._threading._dangling.discard(thread)  # a fork would mark it as ended
            return
        self._really_start(original, thread)

    def _really_start(self, original: Callable[..., Any], thread: Any) -> None:
        self._started.append((thread, f"{thread.name}{_starter()}"))
        self._starting = True  # the original waits until the thread runs
        try:
            original(thread)
        finally:
            self._starting = False

    def _start_native(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self._native.append(f"{getattr(args[0] if args else None, '__qualname__', '?')}{_starter()}")
        return original(*args, **options)

    def _is_alive(self, original: Callable[..., Any], thread: Any) -> bool:
        return any(each is thread for each in self._postponed) or bool(original(thread))

    def _waiting(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Something is about to wait, perhaps for a postponed thread."""
        while self._postponed and not self._starting:
            thread = self._postponed.pop(0)
            self._threading._dangling.add(thread)
            self._really_start(self._start, thread)
        return original(*args, **options)

    def refusal(self) -> str | None:
        """Why this process must not be forked; None when it can be.

        A fork is the test: libraries such as OpenBLAS end their threads before it, and start them again when needed.
        """
        import warnings

        postponed = len(self._postponed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads, which is what this finds out
            pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if len(self._postponed) == postponed and len(os.listdir("/proc/self/task")) == 1 else 1
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            return "its imports start threads again after a fork"
        if native := native_threads():
            names = [name for thread, name in self._started if thread.is_alive()] or self._native or sorted(native)
            return f"its imports start threads ({', '.join(names[:3])})"
        return None

    def resume(self) -> list[threading.Thread]:
        """Start the postponed threads, in the process of an execution, and return them."""
        self._active = False
        for owner, name, original, replacement in self._replaced:
            if getattr(owner, name) is replacement:
                setattr(owner, name, original)
        for thread in self._postponed:
            if hasattr(thread, "_handle"):  # since Python 3.13, which gives up unused handles with a fork
                thread._handle = type(thread._handle)()
            self._threading._dangling.add(thread)
            self._start(thread)
        return self._postponed


def native_threads() -> set[str]:
    """The names of all other threads of this process, without those that forks do not harm."""
    names, me = set(), os.path.basename(os.readlink("/proc/thread-self"))
    for task in os.listdir("/proc/self/task"):
        if task != me:
            try:
                with open(f"/proc/self/task/{task}/comm") as comm:
                    names.add(comm.read().strip())
            except OSError:  # it has ended meanwhile
                pass
    return names - FORK_SAFE


def _starter() -> str:
    """The module that starts a thread, for the message."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in (__name__, "threading"):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f" of `{frame.f_globals.get('__name__', '?')}`"
