"""Runs the checks of `python` evaluators: `python -m agentv_eval.inline [FILE]`, started by agentv.

One process serves many checks, as a JSON Lines script: each payload has the key `check`, with the code or the function
to call. The rest of the payload is that of a judge script.
"""

from __future__ import annotations

import os
import sys
from types import FunctionType

from .inline_results import encode_check
from .inline_source import FILE, FUNCTION, NAMES, compiled
from .judge import COROUTINE, keep_stdout, run_awaitable
from .results import InvalidResultError
from .serving import serve
from .values import CodeJudgeInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

VALUE = "value"
"""Name of the module that the code of a check runs in."""
MODULES = ("json", "math", "re")
"""Modules that an expression can use without importing them."""
_HERE = __file__[: __file__.rindex(os.sep) + 1]
_LIBRARY = os.__file__[: os.__file__.rindex(os.sep) + 1]


class CheckError(Exception):
    """The check cannot be run. The message says why and what to do."""


def main() -> None:
    """Serve checks until stdin ends. Neither stdin nor stdout can be reached by the checks."""
    kept = os.dup(0)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    with os.fdopen(kept, "rb") as lines:
        serve(keep_stdout(), answer, report, lines)


def answer(payload: dict[str, Any]) -> bytes:
    """The result of the check in a payload, as JSON."""
    check = payload.pop("check")
    function = _function(check)
    value = _called(function, _values(payload), check["label"])
    return encode_check(value, check["label"], check["threshold"])


def _function(check: Mapping[str, Any]) -> Callable[..., Any]:
    """The function to call. The code of an expression gets new globals each time; modules are loaded once."""
    if "source" in check:
        names: dict[str, Any] = {"__name__": VALUE, **{name: __import__(name) for name in MODULES}}
        exec(compiled(check["source"]), names)  # noqa: S102 - the purpose of this process
        return names[FUNCTION]  # type: ignore[no-any-return]
    module = _loaded_file(check["file"]) if "file" in check else _loaded(check["module"])
    found: Any = module
    for part in check["function"].split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CheckError(f"{check['label']} is not a function")
    return found  # type: ignore[no-any-return]


def _loaded(name: str) -> ModuleType:
    import importlib

    directory = os.getcwd()  # noqa: PTH109 - importing pathlib would slow the start of every process
    if directory not in sys.path:
        sys.path.insert(0, directory)
    return importlib.import_module(name)


def _loaded_file(path: str) -> ModuleType:
    """The module in a file. Its directory is on `sys.path`, as for a script."""
    import importlib.util

    folder, _, file = path.rpartition(os.sep)
    name = file.rpartition(".")[0]
    module = sys.modules.get(name)
    if module is not None and getattr(module, "__file__", None) == path:
        return module
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CheckError(f"{path} is not a Python file")
    shadowed, module = sys.modules.get(name), importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if shadowed is not None:
            sys.modules[name] = shadowed
        raise
    return module


def _values(payload: dict[str, Any]) -> dict[str, Any]:
    """The values of `NAMES`, without the judge."""
    case = CodeJudgeInput(payload)
    text = case.candidate_answer or ""
    variables, metadata = payload.get("vars") or {}, case.metadata or {}
    return {
        "answer": text,
        "output": text,
        "input": case,
        "question": case.question,
        "reference_answer": case.reference_answer,
        "expected_outcome": case.expected_outcome,
        "vars": variables,
        "metadata": metadata,
        "config": case.config or {},
        "context": {
            "prompt": case.question,
            "vars": variables,
            "config": case.config or {},
            "test": {"vars": variables, "metadata": metadata},
        },
    }


def _called(function: Callable[..., Any], values: dict[str, Any], label: str) -> Any:
    is_code = isinstance(function, FunctionType) and function.__module__ == VALUE
    arguments = dict(zip(NAMES, NAMES)) if is_code else _arguments(function, label)
    if not _is_async(function, is_code=is_code):
        judge = _client() if "judge" in arguments.values() and _has_access() else None
        try:
            result = _call(function, arguments, {**values, "judge": judge})
            return run_awaitable(result) if hasattr(result, "__await__") else result
        finally:
            if judge is not None:
                judge.close()
    return run_awaitable(_called_async(function, values, arguments))


async def _called_async(function: Callable[..., Any], values: dict[str, Any], arguments: dict[Any, str]) -> Any:
    from .async_client import create_async_judge_proxy_client

    judge = create_async_judge_proxy_client() if "judge" in arguments.values() and _has_access() else None
    try:
        return await _call(function, arguments, {**values, "judge": judge})
    finally:
        if judge is not None:
            await judge.close()


def _client() -> Any:
    from .client import create_judge_proxy_client  # not loaded without judge access

    return create_judge_proxy_client()


def _has_access() -> bool:
    return "AGENTV_JUDGE_PROXY_URL" in os.environ


def _is_async(function: Callable[..., Any], *, is_code: bool) -> bool:
    if is_code:
        return bool(function.__code__.co_flags & COROUTINE)
    import inspect  # expressions do without

    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(called)


def _call(function: Callable[..., Any], arguments: dict[Any, str], values: dict[str, Any]) -> Any:
    positional = [values[name] for key, name in arguments.items() if isinstance(key, int)]
    return function(*positional, **{key: values[name] for key, name in arguments.items() if isinstance(key, str)})


def _arguments(function: Callable[..., Any], label: str) -> dict[Any, str]:
    """Which of `NAMES` each parameter receives, by position or name.

    Parameters with other names get the answer and then the input, unless they have a default.
    """
    import inspect  # as above

    arguments: dict[Any, str] = {}
    by_order = iter(("answer", "input"))
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function written in C without a signature
        return {0: "answer"}
    for position, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        name = parameter.name if parameter.name in NAMES else None
        if name is None and parameter.default is parameter.empty:
            name = next(by_order, None) if position < 2 else None
            if name is None:
                raise CheckError(
                    f"the parameter '{parameter.name}' of {label} is unknown; parameters can be: {', '.join(NAMES)}"
                )
        elif position == 0:
            next(by_order)
        if name is not None:
            arguments[position if parameter.kind is parameter.POSITIONAL_ONLY else parameter.name] = name
    return arguments


# -- errors


def report(error: Exception | SystemExit) -> str:
    """Why the check has no result, in one line. A traceback with more than one place goes to stderr."""
    if isinstance(error, SystemExit):
        detail = f" ({error.code})" if isinstance(error.code, str) else ""
        return f"the check called sys.exit(){detail} instead of returning a result"
    if isinstance(error, (InvalidResultError, CheckError)):
        return str(error)
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    own = [frame for frame in traceback.extract_tb(trace) if _is_own(frame.filename)]
    if len(own) > 1:
        traceback.print_exception(type(error), error, trace)
    place = f" at {_place(own[-1].filename, own[-1].lineno)}" if own else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


def _is_own(file: str) -> bool:
    return file == FILE or not (file.startswith(("<", _HERE, _LIBRARY)) or "site-packages" in file)


def _place(file: str, line: int | None) -> str:
    return f"value, line {line}" if file == FILE else f"{file.rpartition(os.sep)[2]}:{line}"


if __name__ == "__main__":
    main()
