"""The options of `agentv judge run` that select the case and the script, and the plan built from them."""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentv.cli.judge.pythons import refuse_two_pythons, with_python
from agentv.cli.judge.view import ObservedJudge, Observer
from agentv.command import INTERPRETERS, split_command
from agentv.errors import UsageError
from agentv.evaluators.code_judge import CodeJudge, ScriptEvaluator
from agentv.evaluators.scripted import Scripted
from agentv.judge.access import JudgeAccess
from agentv.judge.ledger import DEFAULT_MAX_CALLS
from agentv.plan.discovery import missing_path
from agentv.plan.options import RunOptions
from agentv.plan.plan import RunPlan, WorkItem
from agentv.plan.single import item_of, judged_by, single, single_of_payload
from agentv.plan.uses_nodes import NO_NODES
from agentv.recorded import outputs_file
from agentv.scripts import ScriptSpec
from agentv.suite.suite import EvalCase
from agentv.text import all_of, did_you_mean, one_of
from agentv.wire.payload import with_empty_values

KINDS = "code_judge, metric, python, javascript"
"""The types of evaluators that run a script."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The options of `agentv judge run` that select the case, the script and the judge."""

    script: tuple[str, ...] = ()
    suite: str | None = None
    case: str | None = None
    payload: str | None = None
    evaluator: str | None = None
    target: str | None = None
    answer: str | None = None
    outputs: str | None = None
    judge_target: str | None = None
    max_calls: int | None = None
    no_judge: bool = False
    config: str | None = None
    python: str | None = None
    packages: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        if (self.suite is None) == (self.payload is None):
            raise UsageError(
                "Specify what to judge: either --suite FILE with --case ID, or --payload FILE.",
                next_step="agentv judge run judges/my_judge.py --suite evals/suite.yaml --case ID",
            )
        with_suite = {"case": self.case, "evaluator": self.evaluator, "target": self.target}
        with_suite |= {"answer": self.answer, "outputs": self.outputs}
        if self.payload is not None and (extra := [name for name, value in with_suite.items() if value is not None]):
            raise UsageError(
                f"--{extra[0]} can only be used with --suite: a payload already contains the case and its answer."
            )
        if self.payload is not None and not self.script:
            raise UsageError(
                "--payload needs a script to run.",
                next_step=f"agentv judge run judges/my_judge.py --payload {self.payload}",
            )
        if self.answer is not None and self.outputs is not None:
            raise UsageError("--answer and --outputs cannot be used together: both provide the answer.")
        refuse_two_pythons(self.python, self.packages)
        if self.no_judge and (self.max_calls is not None or self.judge_target is not None):
            extra_option = "--max-calls" if self.max_calls is not None else "--judge-target"
            raise UsageError(f"--no-judge and {extra_option} cannot be used together.")

    def options(self) -> RunOptions:
        return RunOptions(
            paths=(self.suite,) if self.suite else (),
            targets=(self.target,) if self.target else (),
            judge_target=self.judge_target,
            config=self.config,
            cases=(glob.escape(self.case),) if self.case else (),
            outputs=outputs_file(self.outputs, Path.cwd()) if self.outputs else None,
            on=NO_NODES,
        )


@dataclass(frozen=True, slots=True)
class Selected:
    """A plan of one case, and the script that judges it."""

    plan: RunPlan
    judge: Scripted
    answer_files: frozenset[Path]
    """Files that the answer depends on: the suite, the configuration, recorded answers."""

    @property
    def item(self) -> WorkItem:
        return item_of(self.plan)

    @property
    def spec(self) -> ScriptSpec:
        return self.judge.spec(self.item.planned.suite.directory)

    @property
    def script_files(self) -> frozenset[Path]:
        files = self.judge.depends_on(self.item.planned.suite.directory)
        return frozenset(path.resolve() for path in files)


def select(selection: Selection, observer: Observer, cwd: Path, payload: bytes | None = None) -> Selected:
    """The plan to execute; `payload` is the content of --payload. All errors are raised before anything is called."""
    if payload is not None:
        return _from_payload(selection, payload, observer, cwd)
    plan = single(selection.options(), cwd, answer=selection.answer)
    item = item_of(plan)
    suite = item.planned.suite
    judge = with_python(_judge_of(selection, item.case, cwd), selection.python, selection.packages, cwd)
    files = {Path(path) for path in plan.digests()} | {path.resolve() for path in plan.configs()}
    # The answer does not depend on the judge scripts.
    judges = [each for each in (judge, *item.case.evaluators, *suite.evaluators) if isinstance(each, Scripted)]
    files -= {path.resolve() for each in judges for path in each.depends_on(suite.directory)}
    return Selected(judged_by(plan, ObservedJudge.of(judge, observer)), judge, frozenset(files))


def _judge_of(selection: Selection, case: EvalCase, cwd: Path) -> Scripted:
    """The script from the command line, or the evaluator of the case, with the command-line options applied."""
    if selection.script and selection.evaluator is None:
        return _new_judge(selection, cwd)
    judge = _evaluator_of(selection, case)
    name = judge.name
    changes: dict[str, Any] = {}
    if selection.script:
        if not isinstance(judge, ScriptEvaluator):
            raise UsageError(
                f"SCRIPT cannot replace the code of '{name}', which is a `{judge.type}` evaluator.",
                next_step="Remove --evaluator to run the script, or SCRIPT to run the evaluator.",
            )
        changes["script"] = script_words(selection.script, cwd)
    if selection.no_judge:
        changes["judge"] = None
    elif selection.max_calls is not None:
        if judge.judge is None:
            raise UsageError(
                f"--max-calls: evaluator '{name}' has no judge access.",
                next_step="Add `judge: true` to it in the suite, or remove --max-calls.",
            )
        changes["judge"] = judge.judge.model_copy(update={"max_calls": selection.max_calls})
    return judge.model_copy(update=changes)


def _evaluator_of(selection: Selection, case: EvalCase) -> Scripted:
    """The evaluator named by --evaluator, else the only `code_judge`, else the only one that runs a script."""
    judges = {evaluator.name: evaluator for evaluator in case.evaluators if isinstance(evaluator, Scripted)}
    if selection.evaluator is None:
        own = [judge for judge in judges.values() if judge.type == "code_judge"] or list(judges.values())
        if len(own) == 1:
            return own[0]
        what = f"case '{case.id}' has {len(own) or 'no'} evaluators that run a script ({KINDS})"
        hint = f"Choose one with --evaluator: {one_of(sorted(judges))}." if judges else "Pass a script to run on it."
        raise UsageError(f"Specify which script to run: {what}.", next_step=hint)
    name = selection.evaluator
    judge = judges.get(name)
    if judge is None:
        kind = next((evaluator.type for evaluator in case.evaluators if evaluator.name == name), None)
        near = did_you_mean(name, judges)
        why = f"'{name}' is a `{kind}`, which runs no script" if kind else f"it has no evaluator with this name{near}"
        hint = f"Available: {all_of(sorted(judges))}." if judges else "Pass a script to run on it."
        raise UsageError(f"--evaluator {name}: {why} (case '{case.id}').", next_step=hint)
    return judge


def _new_judge(selection: Selection, cwd: Path) -> CodeJudge:
    words = script_words(selection.script, cwd)
    calls = DEFAULT_MAX_CALLS if selection.max_calls is None else selection.max_calls
    script_file = next((word for word in words if Path(word).suffix in INTERPRETERS), words[0])
    access = None if selection.no_judge else JudgeAccess(max_calls=calls)
    return CodeJudge(name=Path(script_file).stem, type="code_judge", script=words, judge=access)


def script_words(arguments: tuple[str, ...], cwd: Path) -> list[str]:
    """The command, so that it can be started from any directory: relative paths become absolute, and a script without
    an interpreter gets the one for its suffix."""
    words = list(arguments)
    if len(words) == 1 and " " in words[0] and not (cwd / words[0]).is_file():
        try:
            words = split_command(words[0])
        except ValueError as error:
            raise UsageError(f"{arguments[0]}: {error}.", next_step="To use a shell: -- sh -c '...'") from None
    if not words or not words[0].strip():
        raise UsageError("SCRIPT must not be empty: pass a command such as `python judges/precision.py`.")
    first, suffix = words[0], Path(words[0]).suffix
    is_path = "/" in first or suffix in INTERPRETERS
    if is_path and not (cwd / first).exists():
        problem = missing_path(first, cwd, lambda path: path.suffix in INTERPRETERS)
        raise UsageError(problem, next_step="Paths are relative to the working directory.")
    rest = [str((cwd / word).resolve()) if _is_file(word, cwd) else word for word in words[1:]]
    if not is_path:
        return [first, *rest]
    path = (cwd / first).resolve()
    needs_program = suffix == ".py" or (suffix in INTERPRETERS and not os.access(path, os.X_OK))
    return [*([INTERPRETERS[suffix]] if needs_program else []), str(path), *rest]


def _is_file(word: str, cwd: Path) -> bool:
    try:
        return (cwd / word).is_file()
    except (OSError, ValueError):  # not a valid file name
        return False


# -- a payload


def _from_payload(selection: Selection, content: bytes, observer: Observer, cwd: Path) -> Selected:
    payload = with_empty_values(_read_payload(content, selection.payload or "-"))
    plan = single_of_payload(payload, selection.options(), cwd)
    configs = plan.configs()
    if not configs and selection.judge_target is None and selection.max_calls is None and not selection.no_judge:
        selection = replace(selection, no_judge=True)
        note = "no configuration was found, so the script runs without judge access; set one with --config FILE"
        plan = replace(plan, notes=(*plan.notes, note))
    judge = with_python(_new_judge(selection, cwd), selection.python, selection.packages, cwd)
    plan = judged_by(plan, ObservedJudge.of(judge, observer, payload))
    return Selected(plan, judge, frozenset(path.resolve() for path in configs))


def _read_payload(content: bytes, path: str) -> dict[str, Any]:
    source = "stdin" if path == "-" else path
    try:
        payload = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--payload: {source} is not JSON in UTF-8: {error}.",
            next_step="Create one with `agentv judge run ... --save-payload FILE`.",
        ) from None
    if not isinstance(payload, dict):
        raise UsageError(f'--payload: {source} must contain a JSON object, for example {{"candidate_answer": "..."}}.')
    return payload


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")
