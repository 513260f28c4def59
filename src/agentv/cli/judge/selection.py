"""What `agentv judge run` judges, and with which script: its options, and the plan they make."""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentv.cli.judge.view import ObservedJudge, Observer
from agentv.command import INTERPRETERS, split_command
from agentv.errors import UsageError
from agentv.evaluators.code_judge import CodeJudge
from agentv.judge.access import JudgeAccess
from agentv.judge.ledger import DEFAULT_MAX_CALLS
from agentv.plan.options import RunOptions
from agentv.plan.plan import RunPlan, WorkItem
from agentv.plan.single import item_of, judged_by, single, single_of_payload
from agentv.scripts import ScriptSpec
from agentv.suite.suite import EvalCase
from agentv.text import all_of, did_you_mean, one_of
from agentv.wire.payload import with_empty_values


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

    def check(self) -> None:
        """UsageError for options that do not go together."""
        if (self.suite is None) == (self.payload is None):
            raise UsageError(
                "Say what to judge: --suite FILE with --case ID, or --payload FILE.",
                next_step="agentv judge run judges/my_judge.py --suite evals/suite.yaml --case ID",
            )
        with_suite = {"case": self.case, "evaluator": self.evaluator, "target": self.target}
        with_suite |= {"answer": self.answer, "outputs": self.outputs}
        if self.payload is not None and (extra := [name for name, value in with_suite.items() if value is not None]):
            raise UsageError(f"--{extra[0]} goes with --suite; a payload holds the case and its answer already.")
        if self.payload is not None and not self.script:
            raise UsageError(
                "A payload does not say which script it is for.",
                next_step=f"agentv judge run judges/my_judge.py --payload {self.payload}",
            )
        if self.answer is not None and self.outputs is not None:
            raise UsageError("--answer and --outputs both say what was answered: keep one.")
        if self.no_judge and (self.max_calls is not None or self.judge_target is not None):
            extra_option = "--max-calls" if self.max_calls is not None else "--judge-target"
            raise UsageError(f"--no-judge and {extra_option} contradict each other: keep one.")

    def options(self) -> RunOptions:
        return RunOptions(
            paths=(self.suite,) if self.suite else (),
            targets=(self.target,) if self.target else (),
            judge_target=self.judge_target,
            config=self.config,
            cases=(glob.escape(self.case),) if self.case else (),
            outputs=self.outputs,
            record_judge_io=True,
        )


@dataclass(frozen=True, slots=True)
class Selected:
    """A plan of one case, and the script that judges it."""

    plan: RunPlan
    judge: CodeJudge
    answer_files: frozenset[Path]
    """What the answer depends on: the suite, the configuration, recorded answers."""

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
    """What to execute; `payload` is the content of --payload. Reports every error before anything is called."""
    if payload is not None:
        return _from_payload(selection, payload, observer, cwd)
    plan = single(selection.options(), cwd, answer=selection.answer)
    item = item_of(plan)
    suite = item.planned.suite
    judge = _judge_of(selection, item.case, cwd)
    files = {Path(path) for path in plan.digests()} | {path.resolve() for path in plan.configs()}
    # Scripts judge answers and do not change them.
    judges = [each for each in (judge, *item.case.evaluators, *suite.evaluators) if isinstance(each, CodeJudge)]
    files -= {path.resolve() for each in judges for path in each.depends_on(suite.directory)}
    return Selected(judged_by(plan, ObservedJudge.of(judge, observer)), judge, frozenset(files))


def _judge_of(selection: Selection, case: EvalCase, cwd: Path) -> CodeJudge:
    """The script of the command line, or the case's code_judge, with the options of the command line."""
    if selection.script and selection.evaluator is None:
        return _new_judge(selection, cwd)
    judges = {evaluator.name: evaluator for evaluator in case.evaluators if isinstance(evaluator, CodeJudge)}
    if selection.evaluator is None and len(judges) != 1:
        what = f"the case '{case.id}' has {len(judges) or 'no'} code_judge evaluators"
        steps = f"Choose one with --evaluator: {one_of(sorted(judges))}." if judges else "Name a script to run on it."
        raise UsageError(f"Say which script to run: {what}.", next_step=steps)
    name = selection.evaluator or next(iter(judges))
    judge = judges.get(name)
    if judge is None:
        kind = next((evaluator.type for evaluator in case.evaluators if evaluator.name == name), None)
        near = did_you_mean(name, judges)
        why = f"'{name}' is a `{kind}`, not a code_judge" if kind else f"it has no evaluator of this name{near}"
        there = f"Its scripts: {all_of(sorted(judges))}." if judges else "It has none; name a script to run on it."
        raise UsageError(f"--evaluator {name}: the case is '{case.id}', and {why}.", next_step=there)
    changes: dict[str, Any] = {}
    if selection.script:
        changes["script"] = script_words(selection.script, cwd)
    if selection.no_judge:
        changes["judge"] = None
    elif selection.max_calls is not None:
        if judge.judge is None:
            raise UsageError(
                f"--max-calls: the evaluator '{name}' has no judge access.",
                next_step="Add `judge: true` to it in the suite, or leave --max-calls out.",
            )
        changes["judge"] = judge.judge.model_copy(update={"max_calls": selection.max_calls})
    return judge.model_copy(update=changes)


def _new_judge(selection: Selection, cwd: Path) -> CodeJudge:
    words = script_words(selection.script, cwd)
    calls = DEFAULT_MAX_CALLS if selection.max_calls is None else selection.max_calls
    named = next((word for word in words if Path(word).suffix in INTERPRETERS), words[0])
    access = None if selection.no_judge else JudgeAccess(max_calls=calls)
    return CodeJudge(name=Path(named).stem, type="code_judge", script=words, judge=access)


def script_words(given: tuple[str, ...], cwd: Path) -> list[str]:
    """The command as it can be started from any directory: files named from here have their whole path, and a script
    without a program in front of it gets the one for its suffix."""
    words = list(given)
    if len(words) == 1 and " " in words[0] and not (cwd / words[0]).is_file():
        try:
            words = split_command(words[0])
        except ValueError as error:
            raise UsageError(f"{given[0]}: {error}.", next_step="To use a shell: -- sh -c '...'") from None
    if not words or not words[0].strip():
        raise UsageError("The script is empty: name a program, like `python judges/precision.py`.")
    first, suffix = words[0], Path(words[0]).suffix
    is_path = "/" in first or suffix in INTERPRETERS
    if is_path and not (cwd / first).exists():
        raise UsageError(f"{first}: there is no such file.", next_step="Paths start from the working directory.")
    whole = [str((cwd / word).resolve()) if _is_here(word, cwd) else word for word in words[1:]]
    if not is_path:
        return [first, *whole]
    path = (cwd / first).resolve()
    needs_program = suffix == ".py" or (suffix in INTERPRETERS and not os.access(path, os.X_OK))
    return [*([INTERPRETERS[suffix]] if needs_program else []), str(path), *whole]


def _is_here(word: str, cwd: Path) -> bool:
    try:
        return (cwd / word).is_file()
    except (OSError, ValueError):  # a word that cannot be the name of a file
        return False


# -- a payload


def _from_payload(selection: Selection, content: bytes, observer: Observer, cwd: Path) -> Selected:
    payload = with_empty_values(_read_payload(content, selection.payload or "-"))
    plan = single_of_payload(payload, selection.options(), cwd)
    configs = plan.configs()
    if not configs and selection.judge_target is None and selection.max_calls is None and not selection.no_judge:
        selection = replace(selection, no_judge=True)
        note = "no configuration was found near here, so the script runs without judge access (--config FILE)"
        plan = replace(plan, notes=(*plan.notes, note))
    judge = _new_judge(selection, cwd)
    plan = judged_by(plan, ObservedJudge.of(judge, observer, payload))
    return Selected(plan, judge, frozenset(path.resolve() for path in configs))


def _read_payload(content: bytes, path: str) -> dict[str, Any]:
    source = "stdin" if path == "-" else path
    try:
        payload = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--payload: {source} is not JSON in UTF-8: {error}.",
            next_step="--save-payload FILE of an earlier `agentv judge run` writes one.",
        ) from None
    if not isinstance(payload, dict):
        raise UsageError(f'--payload: {source} must hold one JSON object, like {{"candidate_answer": "..."}}.')
    return payload


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
