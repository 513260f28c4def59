"""Make interpreters usable before a run: install packages, and ask every interpreter what it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentv.interpreters.cache import sdk_directory
from agentv.interpreters.environments import Installing, installed
from agentv.interpreters.errors import InterpreterError
from agentv.interpreters.interpreter import Interpreter, PreparedInterpreter
from agentv.interpreters.probe import probe
from agentv.redact import Redactor


def prepare(
    interpreters: Mapping[Interpreter, str],
    *,
    variables: Mapping[str, str],
    redactor: Redactor,
    say: Callable[[str], None],
) -> dict[Interpreter, PreparedInterpreter]:
    """The interpreters, each with the name of an evaluator that needs it, ready for use.

    `variables` are those without secrets, for installers. Raises InterpreterError if one of them cannot be used.
    """
    prepared: dict[Interpreter, PreparedInterpreter] = {}
    for interpreter, evaluator in interpreters.items():
        if interpreter.problem is not None:
            raise InterpreterError(f"`python` of '{evaluator}': {interpreter.problem}")
        if interpreter.packages is None:
            found = probe(interpreter.executable, variables)
        else:
            found = installed(interpreter.packages, Installing(evaluator, variables, redactor, say))
        path = () if found.has_sdk else (str(sdk_directory()),)
        prepared[interpreter] = PreparedInterpreter(interpreter, found.version, found.packages, path)
    return prepared
