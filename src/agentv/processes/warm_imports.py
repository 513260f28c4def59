"""Imports the modules of a script in a zygote (see `zygote.py`), without running the script."""

from __future__ import annotations

# ruff: noqa: PTH123  as in helper.py
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ONLY_AST = 0x400
WITH = {
    "agentv_eval": ("json", "agentv_eval.client", "agentv_eval.judge", "agentv_eval.results", "agentv_eval.verdicts"),
    "autoevals": ("openai",),
    "deepeval": ("openai.resources.beta.beta",),
    "dspy": ("litellm",),
    "llama_index": ("langchain_core.language_models.base",),
    "openevals": ("langchain_openai",),
    "openai": (
        "openai.resources.chat.chat",
        "openai.resources.chat.completions.completions",
        "openai.resources.responses.responses",
        "openai.resources.embeddings",
        "concurrent.futures.thread",
    ),
    "httpx": ("httpcore", "anyio._backends._asyncio"),
    "httpx2": ("httpcore2", "anyio._backends._asyncio"),
}
"""Modules that a package imports when it is first used. A package comes before those that it imports."""
UNLESS_SET = {"litellm": ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_MODE")}
"""Modules whose import calls the network or reads files unless these variables are set. A script may still set them."""
SLOW = {"litellm": 3.0}
"""Modules that take several times as long to import as those before them, and after how many seconds it is too late for
them: the limit for all imports could be reached."""


def imported(statements: list[Any]) -> Iterator[tuple[Any, bool]]:
    """The import statements at the top of a script, each with whether it may fail (inside `try`).

    Stops at the first statement with side effects: later imports may depend on it (a path, a variable, a setting).
    """
    for statement in statements:
        kind = type(statement).__name__
        if kind in ("Import", "ImportFrom"):
            yield statement, False
        elif kind == "Try" and all(type(each).__name__ in ("Import", "ImportFrom") for each in statement.body):
            for each in statement.body:
                yield each, True
        elif not harmless(kind, statement):
            return


def harmless(kind: str, statement: Any) -> bool:
    if kind in ("FunctionDef", "AsyncFunctionDef"):
        return not statement.decorator_list
    if kind == "If":  # for type checkers
        return getattr(statement.test, "id", getattr(statement.test, "attr", "")) == "TYPE_CHECKING"
    if kind not in ("Expr", "Assign", "AnnAssign") or type(statement.value).__name__ not in ("Constant", "NoneType"):
        return False
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return all(type(target).__name__ in ("Name", "NoneType") for target in targets)


def import_all(script: str) -> None:
    """Import the script's modules. Errors are ignored: the script will raise them itself."""
    import warnings  # noqa: PLC0415

    try:
        with open(script, "rb") as file:
            source = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(source, script, "exec", ONLY_AST, dont_inherit=True)
    except Exception:
        return
    started = time.monotonic()
    context = {"__name__": "__main__", "__package__": None}
    for statement, may_fail in imported(tree.body):
        try:
            if type(statement).__name__ == "Import":
                for alias in statement.names:
                    __import__(alias.name, context)
            elif not statement.level:
                __import__(statement.module, context, None, [alias.name for alias in statement.names])
        except BaseException:
            if not may_fail:
                return
    for package, names in WITH.items():
        for name in names if package in sys.modules else ():
            try:
                wanted = all(variable in os.environ for variable in UNLESS_SET.get(name, ()))
                if wanted and time.monotonic() - started <= SLOW.get(name, float("inf")):
                    __import__(name)
            except Exception:  # noqa: S110  as above
                pass
