"""Pages follow runs that are being written: each run is watched by one task, however many pages follow it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from agentv import jsonio
from agentv.errors import AgentVError
from agentv.http.app import event
from agentv.record.manifest import is_being_written
from agentv.record.run_dir import RunDirectory
from agentv.view.library import Library
from agentv.view.threads import ThreadCrew

LOOK_SECONDS = 0.5
"""How often the files of a run are looked at."""
STATE_SECONDS = 5.0
"""How often the state is computed although no file has changed: the remaining time depends on the clock."""
HEARTBEAT_SECONDS = 15.0
RETRY = b"retry: 2000\n\n"
"""How long a page waits before it connects again, in milliseconds."""
HEARTBEAT = b": the run is being watched\n\n"


class Following:
    """The runs that pages follow at the moment."""

    def __init__(self, library: Library, crew: ThreadCrew) -> None:
        self._library = library
        self._crew = crew
        self._watched: dict[str, _WatchedRun] = {}

    async def events(self, address: str) -> AsyncGenerator[bytes, None]:
        """The state of a run now, and whenever it has changed, as server-sent events. Raises what `Library.live` does.

        They do not end with the run, which may be resumed: they end if the run is removed. A page that reads slowly
        gets the latest state, not all of them.
        """
        if address not in self._watched:
            directory = await self._crew.call(self._library.directory, address)
            state = await self._crew.call(self._state, address)
            if address not in self._watched:  # another page may have been quicker
                watched = self._watched[address] = _WatchedRun(state)
                watched.task = asyncio.get_running_loop().create_task(self._watch(address, directory, watched))
        return _events(self._watched[address])

    def _state(self, address: str) -> str:
        return jsonio.dump_line(self._library.live(address))

    async def _watch(self, address: str, directory: RunDirectory, watched: _WatchedRun) -> None:
        """Keep the state up to date until no page follows the run."""
        loop = asyncio.get_running_loop()
        files: object = None
        computed = 0.0
        try:
            while True:
                now = await self._crew.call(_files, directory)
                if now != files or loop.time() - computed >= STATE_SECONDS:
                    files, computed = now, loop.time()
                    watched.set(await self._crew.call(self._state, address))
                await asyncio.sleep(LOOK_SECONDS)
                if not watched.followers:
                    return
        except AgentVError:
            pass  # it was removed, or its files cannot be read any more; a page that connects again gets the reason
        finally:
            del self._watched[address]
            watched.end()


class _WatchedRun:
    """The latest state of a run, as JSON."""

    task: asyncio.Task[None]

    def __init__(self, state: str) -> None:
        self.state = state
        self.number = 1
        self.followers = 0
        self.has_ended = False
        self.news = asyncio.Event()
        """Set when there is a newer state, then replaced."""

    def set(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self.number += 1
            self.news.set()
            self.news = asyncio.Event()

    def end(self) -> None:
        self.has_ended = True
        self.news.set()


async def _events(watched: _WatchedRun) -> AsyncGenerator[bytes, None]:
    watched.followers += 1
    try:
        yield RETRY
        seen = 0
        while not watched.has_ended:
            if watched.number != seen:
                seen = watched.number
                yield event(watched.state)
                continue
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await watched.news.wait()
            except TimeoutError:
                yield HEARTBEAT
    finally:
        watched.followers -= 1


def _files(directory: RunDirectory) -> object:
    """Changes whenever the state of the run may have changed: with its files, and with the lock of its writer."""
    paths = (directory.manifest, directory.results, directory.judge_calls)
    return [is_being_written(directory.path), *map(_identity, paths)]


def _identity(path: Path) -> object:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
