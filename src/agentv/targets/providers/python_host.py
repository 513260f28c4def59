"""Runs the function of a `python` target: `python python_host.py SOCKET SDK DIRECTORY CALLABLE THREADS`.

Started by `python_process.py`, possibly with another interpreter and without agentv, so it uses only the standard
library. Frames in both directions are a line `KIND ID SIZE` and SIZE bytes.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import socket
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAMES = ("prompt", "system_prompt", "messages", "eval_id", "attempt", "vars")
"""Parameters that a function can have, by name."""
MOST_BYTES = 16 * 1024 * 1024
LONGEST_TRACEBACK = 20000


class TargetError(Exception):
    """The function cannot be used. The message is for the user."""


def load(directory: str, named: str) -> Callable[..., Any]:
    """The function named `app.py:function` or `module:function`."""
    where, _, name = named.rpartition(":")
    sys.path.insert(0, directory)
    if where.endswith(".py"):
        path = os.path.join(directory, where)  # noqa: PTH118 - Path would be imported for this alone
        sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120
        module = _from_file(path)
    else:
        module = importlib.import_module(where)
    function = module
    for part in name.split("."):
        try:
            function = getattr(function, part)
        except AttributeError:
            raise TargetError(f"there is no `{part}` in {where}") from None
    if not callable(function):
        raise TargetError(f"`{name}` in {where} must be a function, got {type(function).__name__}")
    loaded: Callable[..., Any] = function
    return loaded


def _from_file(path: str) -> Any:
    name = os.path.basename(path)[: -len(".py")]  # noqa: PTH119
    if name in sys.modules:
        name = f"target_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Caller:
    """Calls the function with what its parameters ask for."""

    def __init__(self, function: Callable[..., Any], sdk: str) -> None:
        self._function = function
        self._request = _request_class(sdk)
        self._keywords, self._single = self._read(function)
        call = getattr(function, "__call__", None)  # noqa: B004 - an object with a coroutine function
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    @property
    def uses(self) -> list[str]:
        """The variables that the function gets."""
        return list(NAMES) if self._single == "request" else self._keywords or [self._single]

    def _read(self, function: Callable[..., Any]) -> tuple[list[str], str]:
        """The names of the keyword arguments, or that of the single positional argument."""
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return [], "prompt"
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        required = [p for p in named if p.default is p.empty]
        if named and self._wants_request(named[0]) and len(required) <= 1:
            return [], "request"
        known = [p.name for p in named if p.name in NAMES and p.kind is not p.POSITIONAL_ONLY]
        unknown = [p.name for p in required if p.name not in NAMES]
        if known and not unknown and named[0].name in NAMES:
            return known, ""
        if len(required) <= 1 and (named or any(p.kind is p.VAR_POSITIONAL for p in parameters)):
            return [], "prompt"
        got = ", ".join(f"`{p.name}`" for p in named) or "none"
        raise TargetError(
            f"the function must take the prompt, a `request`, or some of {', '.join(NAMES)}; its parameters are {got}"
        )

    def _wants_request(self, parameter: inspect.Parameter) -> bool:
        annotated = parameter.annotation
        name = annotated if isinstance(annotated, str) else getattr(annotated, "__name__", "")
        return parameter.name == "request" or name.rpartition(".")[2] == "TargetRequest"

    def __call__(self, values: dict[str, Any]) -> Any:
        if self._single == "request":
            return self._function(self._request(values.pop("prompt"), **values))
        if self._single:
            return self._function(values[self._single])
        return self._function(**{name: values[name] for name in self._keywords})


def _request_class(sdk: str) -> Any:
    try:
        from agentv_eval import TargetRequest  # noqa: PLC0415 - not installed in every environment
    except ImportError:
        spec = importlib.util.spec_from_file_location("agentv_eval_targets", sdk)
        if spec is None or spec.loader is None:
            raise
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.TargetRequest
    return TargetRequest


def answer_of(value: Any) -> tuple[str, bytes]:
    """The kind and the content of the frame for a return value."""
    if isinstance(value, str):
        kind, data = "text", value.encode("utf-8")
    elif isinstance(value, dict):
        try:
            kind, data = "json", json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (TypeError, ValueError) as error:
            raise TargetError(f"the function returned a mapping that JSON cannot express: {error}") from None
    else:
        raise TargetError(
            "the function must return a string, or a mapping with `text` or `output_messages`, "
            f"got {type(value).__name__}"
        )
    if len(data) > MOST_BYTES:
        raise TargetError(f"the answer is larger than {MOST_BYTES // 2**20} MiB")
    return kind, data


def error_of(error: BaseException) -> bytes:
    """An exception as JSON: `message` for errors of this module, and otherwise its traceback."""
    if isinstance(error, TargetError):
        return json.dumps({"message": str(error)}).encode()
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return json.dumps({"message": "the answer contains a lone surrogate (half a character)"}).encode()
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return json.dumps({"traceback": text[-LONGEST_TRACEBACK:]}).encode()


class Host:
    """Serves calls until the runtime closes the connection."""

    def __init__(self, caller: Caller, threads: int) -> None:
        self._caller = caller
        self._threads = ThreadPoolExecutor(threads)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def serve(self, connection: socket.socket) -> None:
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        self._send("ready", "0", json.dumps(self._caller.uses).encode())
        while header := await reader.readline():
            kind, number, size = header.decode().split()
            payload = await reader.readexactly(int(size))
            if kind == "cancel":
                task = self._tasks.get(number)
                if task is not None and self._caller.is_async:  # a thread cannot be stopped
                    task.cancel()
            else:
                self._tasks[number] = asyncio.ensure_future(self._call(number, json.loads(payload)))

    async def _call(self, number: str, values: dict[str, Any]) -> None:
        try:
            if self._caller.is_async:
                value = await self._caller(values)
            else:
                value, error = await asyncio.get_running_loop().run_in_executor(self._threads, self._called, values)
                if error is not None:
                    raise error  # noqa: TRY301 - as if it had been raised here
                if inspect.isawaitable(value):
                    value = await value
            kind, data = answer_of(value)
        except BaseException as error:  # `sys.exit()` in the function must not end the other calls
            kind, data = "error", error_of(error)
        del self._tasks[number]
        self._send(kind, number, data)

    def _called(self, values: dict[str, Any]) -> tuple[Any, BaseException | None]:
        """The result or the exception: a future cannot have a StopIteration as its exception."""
        try:
            return self._caller(values), None
        except BaseException as error:
            return None, error

    def _send(self, kind: str, number: str, data: bytes) -> None:
        self._writer.write(f"{kind} {number} {len(data)}\n".encode() + data)


def main(path: str, sdk: str, directory: str, named: str, threads: str) -> None:
    del sys.path[0]  # the directory of this file
    os.dup2(2, 1)  # what the function prints is log output
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    try:
        caller = Caller(load(directory, named), sdk)
    except BaseException as error:  # also for `sys.exit()` while the module is imported
        data = error_of(error)
        connection.sendall(f"failed 0 {len(data)}\n".encode() + data)
        return
    asyncio.run(Host(caller, int(threads)).serve(connection))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(0)  # does not wait for threads, whose answers are no longer needed
