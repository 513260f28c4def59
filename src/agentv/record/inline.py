"""Cases defined in Python, written to files so that their run can be reproduced, and errors in their arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentv.errors import Problem, SuiteError, UsageError
from agentv.record.run_dir import HOME, make_private

FOLDER = Path(HOME) / "inline"
_CASES = "cases.jsonl"
_SUITE = "suite.yaml"
_LISTS = ("evaluators", "evaluators+")


def write(
    cases: Sequence[Mapping[str, Any]],
    evaluators: list[dict[str, Any]],
    name: str,
    folder: Path,
    trials: Mapping[str, Any] | None = None,
) -> Path:
    """Write the cases to files and return the suite. `evaluators` and `trials` apply to every case."""
    if isinstance(cases, Mapping) or not all(isinstance(case, Mapping) for case in cases):
        raise UsageError("`cases` must be a list of mappings, each a case as in a suite.")
    try:
        lines = [json.dumps(_with_evaluators_of_suite(case, evaluators), allow_nan=False) for case in cases]
        execution = {"evaluators": evaluators, **({} if trials is None else {"trials": trials})}
        head = json.dumps({"dataset": name, "execution": execution, "evalcases": str(folder / _CASES)})
    except (TypeError, ValueError) as error:
        raise UsageError(f"`cases`, `evaluators` and `trials` must be JSON-serializable: {error}") from None
    make_private(folder)
    (folder / _CASES).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    path = folder / _SUITE
    path.write_text(head + "\n", encoding="utf-8")
    return path


def in_arguments(error: SuiteError, folder: Path) -> SuiteError:
    """The error with the arguments of `evaluate` in place of positions in files that the user never wrote."""
    return SuiteError([_in_argument(problem, folder) for problem in error.problems], next_step=error.next_step)


def _with_evaluators_of_suite(case: Mapping[str, Any], evaluators: Sequence[Any]) -> dict[str, Any]:
    """The case with its own `evaluators` as `evaluators+`, which do not replace those that apply to every case."""
    case = dict(case)
    if not evaluators:
        return case
    if isinstance(case.get("execution"), Mapping):
        case["execution"] = _with_evaluators_of_suite(case["execution"], evaluators)
    if isinstance(case.get("evaluator"), str) and not any(name in case for name in _LISTS):
        case["evaluators"] = [{"type": case.pop("evaluator")}]
    own, more = (case.get(name) for name in _LISTS)
    if isinstance(own, list | tuple) and (more is None or isinstance(more, list | tuple)):
        del case["evaluators"]
        case["evaluators+"] = [*own, *(more or ())]
    return case


def _in_argument(problem: Problem, folder: Path) -> Problem:
    if problem.path.resolve().parent != folder.resolve():
        return problem
    node: tuple[str | int, ...]
    if problem.path.name == _CASES:
        node = ("cases", problem.line - 1, *problem.node[1:])
    else:
        is_argument = problem.node[:2] in (("execution", "evaluators"), ("execution", "trials"))
        node = problem.node[1:] if is_argument else problem.node[:1] or ("cases",)
    message = re.sub(rf"\b{re.escape(_CASES)}:(\d+)", lambda match: f"cases[{int(match[1]) - 1}]", problem.message)
    return replace(problem, message=message, argument=_written(node), source="")


def _written(node: Sequence[str | int]) -> str:
    """The node as Python code would name it: `cases[0].evaluators[1].type`."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in node]
    return "".join(steps).removeprefix(".").replace("evaluators+", "evaluators")
