"""Run a function as a judge script: payload from stdin, result to stdout, log to stderr."""

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
_COROUTINE = 0x80  # inspect.CO_COROUTINE, without the 13 ms that importing inspect costs


def define_code_judge(handler: Callable[..., Any]) -> None:
    """Judge now: read the payload from stdin, call `handler`, print its result.

    `handler(input)` returns a mapping with `score`, a `CodeJudgeResult` or a number. With a second parameter,
    `handler(input, judge)`, it also gets the judge client, or `None` when judge access is off; an `async def`
    gets the client with awaitable methods. Whatever else is printed goes to stderr. A handler that raises, or
    returns something that is not a result, ends the process with exit code 1 and prints nothing on stdout.
    """
    if os.environ.get(PROTOCOL) == "jsonl":
        from .serving import serve  # a script that is started for one answer does without

        serve(_keep_stdout(), lambda payload: _answer(handler, payload), _report)
        return
    write = _claim_stdout()
    try:
        result = _answer(handler, _read_payload())
    except (Exception, SystemExit) as error:  # the one edge where a judge's exception becomes its failure
        write(None)
        _report(error)
        code = error.code if isinstance(error, SystemExit) else 1
        raise SystemExit(code if isinstance(code, int) and code else 1) from None
    write(result)


def code_judge(handler: Handler) -> Handler:
    """`define_code_judge` when the script is run, nothing when it is imported; the function stays as it is.

    The judge runs where it is decorated, so what it uses must stand above it.
    """
    if handler.__module__ == "__main__":
        define_code_judge(handler)
    return handler


def _answer(handler: Callable[..., Any], payload: dict[str, Any]) -> bytes:
    """The handler's result for this payload, as JSON."""
    from .results import encode_result  # after stdout is claimed, with json

    return encode_result(_call(handler, CodeJudgeInput(payload)))


def _read_payload() -> dict[str, Any]:
    import json  # a test that only imports the handler does not need it

    how = "agentv writes it; by hand: python judge.py < payload.json"
    if sys.stdin is None:
        raise _PayloadError(f"stdin is closed, but the payload comes from there; {how}")
    if sys.stdin.isatty():
        _log(f"waiting for the payload, one JSON object, on stdin ({how})")
    data = getattr(sys.stdin, "buffer", sys.stdin).read()
    try:
        payload = json.loads(data.decode("utf-8-sig") if isinstance(data, bytes) else data)
    except (ValueError, RecursionError) as error:
        raise _PayloadError(f"stdin must hold one JSON object in UTF-8: {error}; {how}") from error
    if not isinstance(payload, dict):
        raise _PayloadError(f"stdin must hold one JSON object, got a {type(payload).__name__}; {how}")
    return payload


class _PayloadError(ValueError):
    pass


def _call(handler: Callable[..., Any], payload: CodeJudgeInput) -> Any:
    takes_judge, is_async = _shape(handler)
    if is_async:
        return _run(_call_async(handler, payload, takes_judge=takes_judge))
    if not takes_judge:
        return _settled(handler(payload))
    from .client import create_judge_proxy_client  # a judge without calls loads no HTTP

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
    """The result itself; a plain function may have returned a coroutine."""
    return _run(result) if hasattr(result, "__await__") else result


def _run(awaitable: Any) -> Any:
    import asyncio  # 35 ms that only asynchronous judges pay

    async def main() -> Any:
        return await awaitable

    return asyncio.run(main())


def _shape(handler: Callable[..., Any]) -> tuple[str, bool]:
    """How the handler takes the judge client (`""`, `position`, `keyword`), and whether it is an `async def`.

    The second parameter is the client when it is called `judge` or has no default.
    """
    if type(handler) is not FunctionType or hasattr(handler, "__wrapped__"):
        return _inspected_shape(handler)
    code = handler.__code__
    names = code.co_varnames[: code.co_argcount]
    required = code.co_argcount - len(handler.__defaults__ or ())
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return _how(names, required, keywords), bool(code.co_flags & _COROUTINE)


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
    """Keep stdout for the result: from now on whatever prints, here or in a child process, prints to stderr.

    Returns the function that writes the result, or nothing for a failure. A script's stdout stays with stderr
    afterwards, so that nothing can follow the result; one that was replaced, as in a test, is put back.
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


def _keep_stdout() -> int:
    """The descriptor that results are written to; whatever prints from now on prints to stderr."""
    _stdout()
    sys.stdout = sys.stderr
    return _moved()


def _stdout() -> Any:
    stream = sys.stdout
    if stream is None:
        _log("stdout is closed, so there is nowhere to print the result; start the script with stdout open")
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
    """Open a closed standard descriptor on nothing, else the copy of stdout takes its number."""
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
    """Print to stderr why the judge failed, and return it in one line."""
    if isinstance(error, SystemExit):
        detail = f" ({error.code})" if isinstance(error.code, str) else ""
        return _failed(f"the handler called sys.exit(){detail} instead of returning a result")
    from .results import InvalidResultError  # only a failure needs the rest

    if isinstance(error, (InvalidResultError, _PayloadError)):
        return _failed(str(error))
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    hint = "; what a @code_judge uses must be defined above it" if type(error) is NameError else ""
    return _failed(f"{type(error).__name__}: {' '.join(str(error).split())}{hint}")


def _failed(why: str) -> str:
    _log(f"the judge failed: {why}")
    return why


def _log(message: str) -> None:
    if sys.stderr is not None:
        print(f"agentv_eval: {message}", file=sys.stderr, flush=True)
