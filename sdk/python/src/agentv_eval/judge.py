"""Run a function as a judge script: read the payload from stdin, write the result to stdout and logs to stderr."""

from __future__ import annotations

import os
import sys
from types import FunctionType

from .values import CodeJudgeInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Handler = TypeVar("Handler", bound=Callable[..., Any])

PROTOCOL = "AGENTV_JUDGE_PROTOCOL"
COROUTINE = 0x80  # inspect.COCOROUTINE; importing inspect takes 13 ms


def define_code_judge(handler: Callable[..., Any]) -> None:
    """Read the payload from stdin, call `handler` and print its result. Runs immediately.

    `handler(input)` returns a mapping with `score`, a `CodeJudgeResult`, or a number. `handler(input, judge)` also
    receives the judge client, or `None` if judge access is off. An `async def` handler receives a client with awaitable
    methods. Everything the handler prints goes to stderr. If the handler raises or returns an invalid result, the
    process exits with code 1 and prints nothing to stdout.
    """
    if os.environ.get(PROTOCOL) == "jsonl":
        from .serving import serve  # not loaded by a script that judges a single answer

        serve(keep_stdout(), lambda payload: _answer(handler, payload), _report)
        return
    write = _claim_stdout()
    try:
        result = _answer(handler, _read_payload())
    except (Exception, SystemExit) as error:  # any exception of the handler is a failure of the judge
        write(None)
        _report(error)
        code = error.code if isinstance(error, SystemExit) else 1
        raise SystemExit(code if isinstance(code, int) and code else 1) from None
    write(result)


def code_judge(handler: Handler) -> Handler:
    """Decorator: call `define_code_judge` if the module runs as a script; do nothing if it is imported.

    Returns the function unchanged. The judge runs where it is decorated, so define everything it uses above it.
    """
    if handler.__module__ == "__main__":
        define_code_judge(handler)
    return handler


def _answer(handler: Callable[..., Any], payload: dict[str, Any]) -> bytes:
    """The result of the handler for a payload, as JSON."""
    from .results import encode_result  # imports json, so only after stdout is redirected

    return encode_result(_call(handler, CodeJudgeInput(payload)))


def _read_payload() -> dict[str, Any]:
    import json  # not needed by tests that only import the handler

    how = "agentv writes it; to run the judge manually: python judge.py < payload.json"
    if sys.stdin is None:
        raise _PayloadError(f"cannot read the payload: stdin is closed; {how}")
    if sys.stdin.isatty():
        _log(f"waiting for the payload (one JSON object) on stdin; {how}")
    data = getattr(sys.stdin, "buffer", sys.stdin).read()
    try:
        payload = json.loads(data.decode("utf-8-sig") if isinstance(data, bytes) else data)
    except (ValueError, RecursionError) as error:
        raise _PayloadError(f"stdin must contain one JSON object in UTF-8: {error}; {how}") from error
    if not isinstance(payload, dict):
        raise _PayloadError(f"stdin must contain one JSON object, got a {type(payload).__name__}; {how}")
    return payload


class _PayloadError(ValueError):
    pass


def _call(handler: Callable[..., Any], payload: CodeJudgeInput) -> Any:
    takes_judge, is_async = _shape(handler)
    if is_async:
        return run_awaitable(_call_async(handler, payload, takes_judge=takes_judge))
    if not takes_judge:
        return _settled(handler(payload))
    from .client import create_judge_proxy_client  # not loaded by judges that take no client

    judge = create_judge_proxy_client()
    try:
        return _settled(handler(payload, judge=judge) if takes_judge == "keyword" else handler(payload, judge))
    finally:
        if judge is not None:
            judge.close()


async def _call_async(handler: Callable[..., Any], payload: CodeJudgeInput, *, takes_judge: str) -> Any:
    if not takes_judge:
        return await handler(payload)
    from .async_client import create_async_judge_proxy_client  # as above

    judge = create_async_judge_proxy_client()
    try:
        return await (handler(payload, judge=judge) if takes_judge == "keyword" else handler(payload, judge))
    finally:
        if judge is not None:
            await judge.close()


def _settled(result: Any) -> Any:
    """The result, awaited if a plain function returned a coroutine."""
    return run_awaitable(result) if hasattr(result, "__await__") else result


def run_awaitable(awaitable: Any) -> Any:
    import asyncio  # takes 35 ms, so only asynchronous judges load it

    async def main() -> Any:
        return await awaitable

    return asyncio.run(main())


def _shape(handler: Callable[..., Any]) -> tuple[str, bool]:
    """How the handler takes the judge client (`""`, `position`, `keyword`), and whether it is an `async def`.

    The second parameter receives the client if it is named `judge` or has no default.
    """
    if type(handler) is not FunctionType or hasattr(handler, "__wrapped__"):
        return _inspected_shape(handler)
    code = handler.__code__
    names = code.co_varnames[: code.co_argcount]
    required = code.co_argcount - len(handler.__defaults__ or ())
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return _how(names, required, keywords), bool(code.co_flags & COROUTINE)


def _inspected_shape(handler: Callable[..., Any]) -> tuple[str, bool]:
    import inspect  # plain functions, the usual case, do without

    parameters = inspect.signature(handler).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(1 for p in positional if p.default is p.empty)
    keywords = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    called = handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004
    is_async = inspect.iscoroutinefunction(inspect.unwrap(handler)) or inspect.iscoroutinefunction(called)
    return _how(tuple(p.name for p in positional), required, keywords), is_async


def _how(names: tuple[str, ...], required: int, keywords: tuple[str, ...]) -> str:
    if len(names) > 1 and (required > 1 or names[1] == "judge"):
        return "position"
    return "keyword" if "judge" in keywords or "judge" in names[1:] else ""


def _claim_stdout() -> Callable[[bytes | None], None]:
    """Reserve stdout for the result: everything else that this process or its children print goes to stderr.

    Returns a function that writes the result, or nothing if it is called with `None`. Stdout stays redirected
    afterwards, so that nothing can follow the result. A replaced `sys.stdout`, as in a test, is restored.
    """
    stream = _stdout()
    sys.stdout = sys.stderr
    try:
        is_real = stream.fileno() == 1
    except (AttributeError, OSError, ValueError):
        is_real = False
    if not is_real:
        return lambda result: _write_replaced(stream, result)
    kept = _moved()
    return lambda result: _write_all(kept, result or b"")


def keep_stdout() -> int:
    """The descriptor to write results to. Everything else that is printed goes to stderr."""
    _stdout()
    sys.stdout = sys.stderr
    return _moved()


def _stdout() -> Any:
    stream = sys.stdout
    if stream is None:
        _log("cannot print the result: stdout is closed; start the script with stdout open")
        raise SystemExit(1)
    stream.flush()
    return stream


def _moved() -> int:
    _fill(0)
    _fill(2)
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _fill(descriptor: int) -> None:
    """Open a closed standard descriptor on the null device, or the copy of stdout would take its number."""
    try:
        os.fstat(descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != descriptor:
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _write_all(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _write_replaced(stream: Any, result: bytes | None) -> None:
    sys.stdout = stream
    if result is not None:
        stream.write(result.decode())
        stream.flush()


def _report(error: Exception | SystemExit) -> str:
    """Print to stderr why the judge failed, and return the message as one line."""
    if isinstance(error, SystemExit):
        detail = f" ({error.code})" if isinstance(error.code, str) else ""
        return _failed(f"the handler called sys.exit(){detail} instead of returning a result")
    from .results import InvalidResultError  # needed only for failures

    if isinstance(error, (InvalidResultError, _PayloadError)):
        return _failed(str(error))
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    hint = "; everything a @code_judge uses must be defined above it" if type(error) is NameError else ""
    return _failed(f"{type(error).__name__}: {' '.join(str(error).split())}{hint}")


def _failed(why: str) -> str:
    _log(f"the judge failed: {why}")
    return why


def _log(message: str) -> None:
    if sys.stderr is not None:
        print(f"agentv_eval: {message}", file=sys.stderr, flush=True)
