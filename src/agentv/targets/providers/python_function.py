"""The `python` provider: calls a Python function, in a process of its own."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from agentv.errors import ProviderError, ProviderTimeoutError
from agentv.processes.causes import cause_of
from agentv.processes.run import ProcessOutcome, ProcessStartError, run_process
from agentv.targets.commands import RunCommand
from agentv.targets.gate import DEFAULT_CONCURRENCY
from agentv.targets.provider import Provider, Reply, Request, TargetScope, TargetSettings
from agentv.targets.providers.cli_output import parse_object
from agentv.targets.providers.python_process import START_SECONDS, Frame, ProcessEndedError, PythonProcess
from agentv.targets.providers.request_variables import request_variables
from agentv.targets.structured import ShapeError
from agentv.text import did_you_mean

if TYPE_CHECKING:
    from agentv.suite.search import ProgramSearch
    from agentv.suite.yaml import NodePath

HOST = Path(__file__).with_name("python_host.py")
SHOWN = 2000
ENDED = (
    "Find out why the function ends its process, and raise an exception instead. The next call starts a new process."
)
"""Maximum characters of a traceback, or of the stderr of the process, in an error."""


class PythonSettings(TargetSettings):
    """Settings of a target that is a Python function."""

    callable: str = Field(
        description="The function: `app.py:function`, relative to the configuration file, or `module:function`."
    )
    python: str | None = Field(
        None, description="Interpreter, relative to the configuration file. Default: the one that runs agentv."
    )
    env: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Extra environment variables: a mapping, or a list of names to pass through.",
    )
    timeout_seconds: float | None = Field(600.0, gt=0, description="Deadline of one attempt, in seconds. Default 600.")

    @field_validator("callable")
    @classmethod
    def _names_a_function(cls, value: str) -> str:
        where, _, name = value.rpartition(":")
        if not where or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"must look like `app.py:function` or `module:function`, got '{value}'")
        if not where.endswith(".py") and not all(part.isidentifier() for part in where.split(".")):
            raise ValueError(f"must name a module or a .py file before the colon, got '{where}'")
        return value

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        if self.python is not None and (problem := search.problem([self.interpreter(directory)], directory, self.env)):
            return {("python",): problem.message}
        where, _, name = self.callable.rpartition(":")
        file = directory / (where if where.endswith(".py") else f"{where.replace('.', '/')}.py")
        if file.is_file():
            problem_in_file = _not_in_file(file, name.split(".")[0])
            return {("callable",): problem_in_file} if problem_in_file else {}
        if where.endswith(".py"):
            return {("callable",): f"there is no file '{where}' in {directory}"}
        top = where.split(".")[0]
        if self.python is None and not (directory / top).is_dir() and importlib.util.find_spec(top) is None:
            return {("callable",): f"there is no module '{top}' in {directory} or among the packages of agentv"}
        return {}

    def interpreter(self, directory: Path) -> str:
        """The interpreter to run. The links of a virtual environment are not followed."""
        if self.python is None:
            return sys.executable
        return str(directory / Path(self.python).expanduser()) if "/" in self.python else self.python


def _not_in_file(file: Path, name: str) -> str | None:
    """Why a file certainly does not define a name. The file is parsed and not run."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError as error:
        return f"{file.name}:{error.lineno}: {error.msg}"
    except (OSError, ValueError, RecursionError) as error:
        return f"{file.name} cannot be read: {error}"
    defined: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                defined.add(node.name)
            case ast.Name(ctx=ast.Store()):
                defined.add(node.id)
            case ast.alias():
                defined.add(node.asname or node.name.split(".")[0])
    if name in defined or defined & {"*", "__getattr__"}:
        return None
    return f"there is no `{name}` in {file.name}{did_you_mean(name, sorted(defined))}"


class PythonProvider(Provider):
    """A Python function as a target. Its process is started for the first call and stays."""

    Settings: ClassVar[type[TargetSettings]] = PythonSettings
    keeps_deadline = True
    runs_commands = True

    def __init__(self, settings: PythonSettings, scope: TargetScope) -> None:
        self._settings, self._scope = settings, scope
        self._run_command: RunCommand = scope.run_command or run_process
        self._process: PythonProcess | None = None
        self._uses = frozenset[str]()
        self._starting = asyncio.Lock()
        self._unusable: ProviderError | None = None

    async def price_gap(self) -> str | None:
        return "their cost is unknown, unless the function returns `cost_usd`"

    @property
    def is_prepared(self) -> bool:
        return self._process is not None and not self._process.dead

    async def prepare(self) -> None:
        await self._started()

    async def invoke(self, request: Request) -> Reply:
        process = await self._started()
        values = request_variables(request, self._uses)
        values["vars"] = dict(request.vars)
        values["files"] = [str(path) for path in request.files]
        try:
            frame = await process.call(values, self._settings.timeout_seconds)
        except TimeoutError:
            raise ProviderTimeoutError(
                f"target '{self._scope.name}': `{self._settings.callable}` did not return within "
                f"{self._settings.timeout_seconds:g} s",
                next_step="Raise `timeout_seconds` of the target, or `--timeout`. Timeouts are not retried.",
            ) from None
        except ProcessEndedError as error:
            raise self._ended(error) from None
        return await self._reply(frame)

    async def aclose(self) -> None:
        if self._process is not None:
            await self._process.aclose()

    # -- the process

    async def _started(self) -> PythonProcess:
        if self._process is not None and not self._process.dead:
            return self._process
        async with self._starting:
            if self._unusable is not None:
                raise self._unusable
            if self._process is not None and self._process.dead:
                await self._process.ended()
                self._process = None
            if self._process is None:
                self._process = await self._start()
            return self._process

    async def _start(self) -> PythonProcess:
        process = PythonProcess()
        try:
            frame = await process.start(self._run)
        except ProcessStartError as error:
            raise self._failed(error.message, next_step=error.next_step) from error
        except ProcessEndedError as error:
            raise self._ended(error) from None
        except TimeoutError:
            await process.aclose()
            raise self._failed(f"`{self._settings.callable}` was not imported within {START_SECONDS:g} s") from None
        except BaseException:
            await process.aclose()
            raise
        if frame.kind != "ready":
            await process.aclose()
            self._unusable = self._error_of(frame, f"`{self._settings.callable}` could not be loaded")
            raise self._unusable
        self._uses = frozenset(json.loads(frame.data))
        return process

    def _run(self, socket: str) -> Awaitable[ProcessOutcome]:
        # Found without importing it. Needed by interpreters in which agentv is not installed.
        spec = importlib.util.find_spec("agentv_eval")
        sdk = Path(spec.origin or "").with_name("targets.py") if spec is not None else Path()
        settings, directory = self._settings, self._scope.directory
        threads = settings.max_concurrency or DEFAULT_CONCURRENCY
        words = [str(HOST), socket, str(sdk), str(directory), settings.callable, str(threads)]
        return self._run_command(
            [settings.interpreter(directory), *words],
            stdin=None,
            cwd=directory,
            env={**self._scope.environment, **settings.env},
            timeout=None,
        )

    # -- answers and errors

    async def _reply(self, frame: Frame) -> Reply:
        if frame.kind == "text":
            return Reply.of_text(frame.data.decode("utf-8", "replace"))
        if frame.kind != "json":
            raise self._error_of(frame, f"`{self._settings.callable}` failed")
        try:
            return await parse_object(frame.data)
        except ShapeError as error:
            raise self._failed(
                f"`{self._settings.callable}` returned an invalid mapping: {error}",
                next_step="Return a string, or a mapping with `text` or `output_messages`.",
            ) from None

    def _error_of(self, frame: Frame, what: str) -> ProviderError:
        error: dict[str, str] = json.loads(frame.data)
        if "message" in error:
            return self._failed(f"{what}: {self._scope.redactor.head(error['message'], SHOWN)}")
        trace = error["traceback"]
        shown = self._scope.redactor.tail(trace.strip(), SHOWN)
        return self._failed(f"{what}: {self._scope.redactor.text(cause_of(trace))}\n{shown}")

    def _ended(self, error: ProcessEndedError) -> ProviderError:
        outcome = error.outcome
        if outcome is None:
            return self._failed("its process was restarted, because another call did not end", retryable=True)
        text = outcome.stderr.decode("utf-8", "backslashreplace").strip()
        shown = self._scope.redactor.tail(text, SHOWN, cut_start=outcome.stderr_cut) if text else ""
        cause = f": {cause_of(shown)}" if shown else ""
        words = f"; the end of its stderr:\n{shown}" if shown else "; it wrote nothing to stderr"
        # Alone, the call is the cause. Otherwise any of the calls may be.
        return self._failed(f"its process {outcome.ending}{cause}{words}", next_step=ENDED, retryable=error.calls > 1)

    def _failed(self, what: str, *, next_step: str | None = None, retryable: bool = False) -> ProviderError:
        return ProviderError(f"target '{self._scope.name}': {what}", next_step=next_step, retryable=retryable)
