"""`--python` and `--with` of `agentv judge run`."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from agentv.errors import UsageError
from agentv.evaluators.code_judge import ScriptEvaluator, python_problem
from agentv.evaluators.scripted import Scripted
from agentv.interpreters.interpreter import NoInterpreterError
from agentv.interpreters.requirements import as_list, check_python

AnyScripted = TypeVar("AnyScripted", bound=Scripted)


def refuse_two_pythons(python: str | None, packages: tuple[str, ...]) -> None:
    """Raise UsageError if both options are used."""
    if python is not None and packages:
        raise UsageError(
            "--python and --with cannot be used together: --with installs packages for the Python that runs agentv.",
            next_step="Install the packages in the environment of --python, or remove one of the options.",
        )


def with_python(judge: AnyScripted, python: str | None, packages: tuple[str, ...], cwd: Path) -> AnyScripted:
    """The evaluator with the interpreter or the packages of the command line. Paths are relative to `cwd`."""
    option = "--python" if python is not None else "--with"
    wanted: str | list[str] | None = list(packages) or python
    if wanted is None:
        return judge
    if not isinstance(judge, ScriptEvaluator):
        raise UsageError(
            f"{option}: evaluator '{judge.name}' is a `{judge.type}`, which runs no script of your own.",
            next_step="Use it with a `code_judge`, or with SCRIPT.",
        )
    if (problem := python_problem(judge.script, None)) is not None:
        raise UsageError(f"{option}: {problem}.")
    try:
        check_python(wanted)
        if isinstance(wanted, str) and as_list(wanted) is None and "/" in wanted:
            wanted = str(cwd / Path(wanted).expanduser())
        chosen = judge.model_copy(update={"python": wanted, "on": None}).load_files(lambda name: cwd / name)
        chosen.interpreter(cwd)
    except (ValueError, NoInterpreterError) as error:
        raise UsageError(f"{option}: {error}.") from None
    return chosen
