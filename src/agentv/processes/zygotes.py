"""The runtime's side of zygotes: starts, shares, refreshes and ends the processes that warm scripts are forked from.

The helper starts a zygote like a script, under a supervisor that kills everything below it; `zygote.py` is the code
that runs inside it. A warm script is then started by its zygote instead of the helper.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentv.processes.execution import Execution, NeverStartedError, Script
from agentv.processes.run import ProcessStartError, resolve
from agentv.processes.starter import Starter

if TYPE_CHECKING:
    import socket

    from agentv.processes.launcher import HelperProcess

SITE = Path(__file__).with_name("warm_site")
MOST_ZYGOTES = 16
"""Most zygotes alive; the least recently used idle one is ended to make room."""
IDLE_SECONDS = 60.0
"""A zygote that has been idle for this long is ended."""
READY_SECONDS = 30.0
"""How long a script's imports may take, at most half of the script's timeout."""
ATTEMPTS = 2
PYTHON = re.compile(r"/(.*/)?python\d*(\.\d+)*t?")
PLAIN_OPTIONS = frozenset({"-u", "-B", "-O", "-OO", "-P", "-s", "-q", "-b", "-bb"})
OPTIONS_WITH_VALUE = frozenset({"-W", "-X"})
LAST_LINES = 3

Stamp = tuple[int, int, int] | None


def script_file(argv: Sequence[str]) -> str | None:
    """The Python file that the command runs; None for any other command."""
    if not argv or not is_python(argv[0]):
        return None
    words = iter(argv[1:])
    for word in words:
        if word in OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word if word.endswith(".py") else None
        elif word not in PLAIN_OPTIONS and word[:2] not in OPTIONS_WITH_VALUE:
            return None
    return None


@cache
def is_python(program: str) -> bool:
    """Whether a program is a Python interpreter, by its name; a shell script that starts one is not."""
    if program == sys.executable:
        return True
    if not PYTHON.fullmatch(program):
        return False
    try:
        with open(program, "rb") as file:  # noqa: PTH123 - as above, a plain file by its absolute path
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


class ZygoteExecution(Execution):
    """The execution of a zygote by the helper; its stdin is the control socket."""

    def __init__(self, script: Script, number: int, control: socket.socket) -> None:
        super().__init__(script, number, lambda: None)
        os.close(self._pipes.theirs[0])
        self._pipes.theirs[0] = control.detach()


class Zygote(Starter):
    """One zygote, starting or ready."""

    def __init__(self, script: Script, number: int, helper: HelperProcess) -> None:
        super().__init__()
        self._loop = loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._ready: asyncio.Future[str | None] = loop.create_future()
        self._files = [Path(script.cwd, script_file(script.argv) or "")]
        self._stamps = [_stamp(file) for file in self._files]
        self.users = 0
        self.refused = False
        """The script cannot be warm, and starting another zygote would not help."""
        theirs = self._connect()
        self._socket.send(_settings(script))
        try:
            self._execution = ZygoteExecution(_as_zygote(script), number, theirs)
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        loop.add_reader(self._socket.fileno(), self._read)
        self._task = loop.create_task(self._live(helper))

    @property
    def supervisor(self) -> int | None:
        return self._execution.supervisor

    async def _live(self, helper: HelperProcess) -> None:
        reason = "it could not be started"
        try:
            outcome = await self._execution.run(helper)
            lines = outcome.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
            stderr = "\n".join(lines[-LAST_LINES:])  # whole lines, which are masked before they are truncated
            reason = f"the process that imports its modules {outcome.ending}" + (f" ({stderr})" if stderr else "")
        except (NeverStartedError, OSError):
            pass
        except ProcessStartError as error:
            reason = error.message
        finally:
            self.dead = True
            self._read()  # its reason may not have been read yet
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            resolve(self.ended)
            if not self._ready.done():
                self._ready.set_result(reason)

    def _take(self, text: bytes) -> None:
        kind, rest = text[:1], text[1:]
        if kind not in (b"R", b"N"):
            super()._take(text)
        elif not self._ready.done():
            if kind == b"R":
                self._note(rest.split(b"\0"))
            self.refused = kind == b"N"
            self._ready.set_result(None if kind == b"R" else os.fsdecode(rest))

    def _note(self, files: list[bytes]) -> None:
        known = set(self._files)
        new = [path for path in (Path(os.fsdecode(file)) for file in files if file) if path not in known]
        self._files += new
        self._stamps += [_stamp(file) for file in new]

    async def ready(self, timeout: float) -> str | None:
        """Wait until the imports are done. None when it is ready, otherwise the reason why it is not."""
        await asyncio.wait({self._ready}, timeout=timeout)
        if self._ready.done():
            return self._ready.result()
        self.refused = True
        return f"its imports took longer than {timeout:g} s"

    @property
    def stale(self) -> bool:
        """Whether a file that it imported has changed since."""
        return any(_stamp(file) != stamp for file, stamp in zip(self._files, self._stamps, strict=True))

    def encoded(self, script: Script) -> bytes:
        return script.encoded_for_zygote()

    def wake(self) -> None:
        if not self.dead:
            self._execution.wake()

    def stop(self) -> None:
        """Kill the zygote and everything below it."""
        self._execution.kill()

    def look(self) -> None:
        """Process the messages that its supervisor has sent."""
        if not self.dead:
            self._execution.read()

    async def gone(self) -> None:
        await asyncio.wait({self._task})


@dataclass(slots=True)
class _Entry:
    """State of the scripts that can share a zygote."""

    zygote: Zygote | None = None
    failures: int = 0
    cold: str | None = None
    """Why these scripts are no longer kept warm."""
    reported: bool = False


class Zygotes:
    """The zygotes of a launcher."""

    def __init__(self, start: Callable[[Script], Zygote], *, most: int, idle_seconds: float) -> None:
        self._start = start
        self._most = most
        self._idle_seconds = idle_seconds
        self._entries: dict[object, _Entry] = {}
        self._live: dict[Zygote, asyncio.TimerHandle | None] = {}
        """In the order of their last use, each with the timer that ends it when idle."""
        self._ending: set[Zygote] = set()

    @property
    def supervisors(self) -> set[int]:
        """Pids of the zygotes' supervisors."""
        all_of_them = {*self._live, *self._ending}
        for zygote in all_of_them:
            zygote.look()
        return {zygote.supervisor for zygote in all_of_them if zygote.supervisor and not zygote.dead}

    async def take(self, script: Script, on_cold: Callable[[str], None]) -> Zygote | None:
        """A zygote for the script, to be returned with `give_back`.

        None when the script cannot be kept warm; `on_cold` is called with the reason the first time.
        """
        entry = self._entries.setdefault(_key(script), _Entry())
        while entry.cold is None:
            zygote = self._of(entry, script)
            if zygote is None:
                break
            self._use(zygote)
            try:
                reason = await zygote.ready(min(READY_SECONDS, (script.timeout or 2 * READY_SECONDS) / 2))
            except BaseException:
                self.give_back(zygote)
                raise
            if reason is None and not zygote.dead:
                return zygote
            self._failed(entry, zygote, reason)
            self.give_back(zygote)
        reason = entry.cold or f"{self._most} other warm scripts are in use"
        if not entry.reported:
            entry.reported = True
            on_cold(reason)
        return None

    def _of(self, entry: _Entry, script: Script) -> Zygote | None:
        """The current zygote or a new one; None when the limit is reached."""
        zygote = entry.zygote
        if zygote is not None and zygote.dead:
            self._failed(entry, zygote, None)
        elif zygote is not None and zygote.stale:
            entry.zygote = None
            if not zygote.users:
                self._end(zygote)
        if entry.zygote is None and entry.cold is None and self._make_room():
            entry.zygote = self._start(script)
            self._live[entry.zygote] = None
        return entry.zygote

    def _failed(self, entry: _Entry, zygote: Zygote, reason: str | None) -> None:
        if entry.zygote is not zygote:
            return  # already handled by another caller that waited for it
        entry.zygote = None
        self._end(zygote)
        entry.failures += 1
        if zygote.refused or entry.failures >= ATTEMPTS:
            entry.cold = reason or f"the process that imports its modules died {entry.failures} times"

    def _make_room(self) -> bool:
        idle = (zygote for zygote in self._live if not zygote.users)
        while len(self._live) >= self._most:
            oldest = next(idle, None)
            if oldest is None:
                return False
            self._end(oldest)
            idle = (zygote for zygote in self._live if not zygote.users)
        return True

    def _use(self, zygote: Zygote) -> None:
        zygote.users += 1
        timer = self._live.pop(zygote, None)
        if timer is not None:
            timer.cancel()
        self._live[zygote] = None

    def give_back(self, zygote: Zygote) -> None:
        """Return a zygote from `take`; without users, it is ended after the idle time."""
        zygote.users -= 1
        owner = next((entry for entry in self._entries.values() if entry.zygote is zygote), None)
        if owner is not None and zygote.dead:
            self._failed(owner, zygote, None)
        elif zygote.users or zygote not in self._live:
            return
        elif owner is None:  # replaced because its files changed
            self._end(zygote)
        else:
            loop = asyncio.get_running_loop()
            self._live[zygote] = loop.call_later(self._idle_seconds, self._end, zygote)

    def _end(self, zygote: Zygote) -> None:
        timer = self._live.pop(zygote, None)
        if timer is not None:
            timer.cancel()
        for entry in self._entries.values():
            if entry.zygote is zygote:
                entry.zygote = None
        zygote.stop()
        self._ending = {each for each in (*self._ending, zygote) if not each.dead}

    async def close(self) -> None:
        """Kill all zygotes."""
        for zygote in list(self._live):
            self._end(zygote)
        for zygote in list(self._ending):
            await zygote.gone()


def _key(script: Script) -> object:
    env = frozenset(item for item in script.env.items() if item[0] not in script.own_variables)
    return (tuple(script.argv), str(script.cwd), script.isolate, script.own_variables, env)


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _settings(script: Script) -> bytes:
    """What a zygote needs to know. It must not see variables of one execution, except for the paths of addresses."""
    own = []
    for name in script.own_variables:
        value = script.env.get(name, "")
        own.append(f"{name}={urlsplit(value).path}" if value.startswith(("http://", "https://")) else name)
    return os.fsencode("\0".join((str(os.getpid()), script_file(script.argv) or "", *own)))


def _as_zygote(script: Script) -> Script:
    env = {name: value for name, value in script.env.items() if name not in script.own_variables}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(SITE), env.get("PYTHONPATH"))))
    return replace(script, env=env, stdin=b"", timeout=None, waiting=None, on_stderr=None, warm=False)
