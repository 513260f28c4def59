"""The server of a local model: starts its process, and ends it. Targets with equal settings share one."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from agentv.processes.run import ProcessOutcome, ProcessStartError
from agentv.redact import Redactor
from agentv.targets.commands import RunCommand
from agentv.targets.providers.python_process import START_SECONDS, ProcessEndedError, PythonProcess
from agentv.targets.turnstile import Turnstile

HOST = Path(__file__).with_name("local_host.py")
SHOWN = 2000
"""Maximum characters of the stderr of the process in an error."""
_REASON = re.compile(r"error loading model: (?:llama_model_loader: )?(.+)|(failed to allocate .+)", re.IGNORECASE)
MEMORY = "Memory may have run out: use a smaller model, or lower `context` or `slots` of the target."


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server is started with."""

    model: str
    """Absolute path of the file."""
    name: str
    """The name of the model in replies."""
    slots: int
    context: int
    threads: int | None


class Endpoint(NamedTuple):
    """A running server."""

    url: str
    key: str
    tools: bool
    """Whether the chat template of the model can express tools. llama.cpp drops them silently if not."""


class ServerError(Exception):
    """The server did not start, or ended."""

    def __init__(self, message: str, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message, self.next_step = message, next_step


class ModelServer:
    """A model in a process, which is started for the first call and again if it has died."""

    def __init__(
        self, settings: ServerSettings, run_command: RunCommand, environment: Mapping[str, str], redactor: Redactor
    ) -> None:
        self._settings, self._run_command = settings, run_command
        self._environment, self._redactor = environment, redactor
        self.slots = Turnstile(settings.slots, sleep=asyncio.sleep, clock=time.monotonic)
        """The slots of the server, for the calls of all targets that share it."""
        self.users = 0
        """Number of targets that use the server."""
        self._process: PythonProcess | None = None
        self._endpoint: Endpoint | None = None
        self._outcome: ProcessOutcome | None = None
        """How the latest process ended."""
        self._loading: asyncio.Task[Endpoint] | None = None
        self._unusable: ServerError | None = None

    @property
    def is_running(self) -> bool:
        return self._endpoint is not None and self._process is not None and not self._process.dead

    async def started(self) -> Endpoint:
        """The running server. Raises `ServerError`, again and again if the model cannot be loaded."""
        if self._endpoint is not None and self.is_running:
            return self._endpoint
        if self._unusable is not None:
            raise self._unusable
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._start())
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._loading)  # a call that is cancelled must not stop it for the others

    async def _start(self) -> Endpoint:
        if self._process is not None:
            await self._process.ended()
        self._endpoint, self._process = None, PythonProcess()
        process = self._process
        try:
            frame = await process.start(self._run)
        except BaseException as error:
            await process.aclose()
            if isinstance(error, ProcessStartError):
                raise self._refused(ServerError(error.message, error.next_step)) from error
            if isinstance(error, ProcessEndedError):
                raise self._refused(self._not_loaded(error.outcome)) from None
            if isinstance(error, TimeoutError):
                late = ServerError(f"{self._settings.model} was not loaded within {START_SECONDS:g} s", MEMORY)
                raise self._refused(late) from None
            raise
        ready = json.loads(frame.data)
        self._endpoint = Endpoint(f"{ready['url']}/v1", ready["key"], ready["tools"])
        return self._endpoint

    def _refused(self, error: ServerError) -> ServerError:
        """The error, which is remembered: loading the same file for every case would take as long as the run."""
        self._unusable = error
        return error

    async def _run(self, socket: str) -> ProcessOutcome:
        self._outcome = None
        self._outcome = await self._run_command(
            [sys.executable, "-P", str(HOST), socket, json.dumps(asdict(self._settings))],
            stdin=None,
            cwd=Path(self._settings.model).parent,
            env=self._environment,
            timeout=None,
        )
        return self._outcome

    async def died(self, within: float) -> ServerError | None:
        """Why the process ended, if it ends in this time: the connection of a call was closed."""
        if self._process is None:
            return None
        ended = asyncio.ensure_future(self._process.ended())
        await asyncio.wait({ended}, timeout=within)
        if not ended.done():
            ended.cancel()
        if self._outcome is None:
            return None
        memory = MEMORY if self._outcome.signal is not None else None
        return ServerError(f"its model server {self._outcome.ending}{_quoted(self._stderr(self._outcome))}", memory)

    # -- errors

    def _not_loaded(self, outcome: ProcessOutcome | None) -> ServerError:
        if outcome is None:
            return ServerError("its model server was stopped while it started")
        text = self._stderr(outcome)
        if outcome.signal is not None:
            return ServerError(
                f"loading {self._settings.model} failed: the process {outcome.ending}{_quoted(text)}", MEMORY
            )
        reasons = [match[1] or match[2] for match in _REASON.finditer(text)]
        cause = f": {reasons[-1].strip()}" if reasons else ""
        memory = MEMORY if "allocate" in cause else None
        return ServerError(f"{self._settings.model} could not be loaded{cause}{_quoted(text)}", memory)

    def _stderr(self, outcome: ProcessOutcome) -> str:
        text = outcome.stderr.decode("utf-8", "backslashreplace").strip()
        return self._redactor.tail(text, SHOWN, cut_start=outcome.stderr_cut) if text else ""

    async def aclose(self) -> None:
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
            await asyncio.wait({self._loading})
        if self._process is not None:
            await self._process.aclose()


def _quoted(text: str) -> str:
    return f"; the end of its stderr:\n{text}" if text else "; it wrote nothing to stderr"
