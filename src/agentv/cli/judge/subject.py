"""What `agentv judge run` judges: one case with one evaluator, as a plan of its own that a run can execute."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from agentv.cli.judge.observed import ObservedJudge, Observer
from agentv.command import INTERPRETERS, split_command
from agentv.errors import UsageError
from agentv.evaluators.code_judge import CodeJudge
from agentv.judge.access import JudgeAccess
from agentv.judge.ledger import DEFAULT_MAX_CALLS
from agentv.messages import Message
from agentv.plan.build import Loaded, build_plan
from agentv.plan.options import RunOptions
from agentv.plan.plan import Lane, PlannedSuite, RunPlan, WorkItem
from agentv.suite.case import EvalCase
from agentv.suite.files import SuiteFiles
from agentv.suite.suite import EvalSuite
from agentv.targets.answers import Answer, AnswerKey, Answers
from agentv.targets.secrets import Secrets
from agentv.text import all_of, did_you_mean, one_of
from agentv.wire.payload import KEYS

LISTS = ("input_messages", "input_files", "expected_messages", "output_messages", "guideline_files")


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `agentv judge run` that say what is judged, by what, and who is lent to it."""

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
class Subject:
    """One case, one evaluator, ready to be executed."""

    plan: RunPlan
    item: WorkItem
    evaluator: ObservedJudge
    files: frozenset[Path]
    """What the answer depends on: the suite, the configuration, recorded answers."""
    notes: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """The directory the script runs in."""
        directory = self.item.planned.suite.directory
        return directory / self.evaluator.cwd if self.evaluator.cwd else directory

    @property
    def scripts(self) -> frozenset[Path]:
        found = self.evaluator.depends_on(self.item.planned.suite.directory)
        return frozenset(path.resolve() for path in found)

    def answered(self, answer: Answer) -> Subject:
        """The same with this answer in place of a call to the target."""
        answers = Answers(Path("--answer"), {self.item.case.id: [answer]}, {})
        return replace(self, plan=replace(self.plan, answers=answers))


def subject_of(asked: Asked, observer: Observer, cwd: Path, payload: bytes | None = None) -> Subject:
    """What to execute; `payload` is what --payload names, read already. Every mistake is told before anything is
    called."""
    if payload is not None:
        return _of_payload(asked, payload, observer, cwd)
    return _of_suite(asked, observer, cwd)


# -- a case of a suite


def _of_suite(asked: Asked, observer: Observer, cwd: Path) -> Subject:
    plan = build_plan(asked.options(), cwd, only_check=asked.answer is not None)
    if not plan.lanes:
        plan = build_plan(asked.options(), cwd, function_target="answer")
    _refuse_several(plan)
    found = list(islice(((lane, item) for lane in plan.lanes for item in lane.items()), 2))
    lane, item = found[0]
    notes = list(plan.notes)
    if len(found) > 1:
        notes.append(
            f"there are several answers for '{item.case.id}'; this is the one of target '{item.target}', "
            f"attempt {item.attempt} (--target chooses)"
        )
    evaluator = _evaluator_of(asked, item.case, observer, cwd)
    suite = item.planned.suite
    named = [Path(path) for path in suite.digests] + list(plan.configs())
    files = {path.resolve() for path in named}
    files |= {(cwd / asked.outputs).resolve()} if asked.outputs else set()
    # Scripts judge answers and do not change them.
    judges = [judge for judge in (*item.case.evaluators, *suite.evaluators) if isinstance(judge, CodeJudge)]
    own = {path.resolve() for judge in (evaluator, *judges) for path in judge.depends_on(suite.directory)}
    subject = Subject(_narrowed(plan, lane, item, evaluator), item, evaluator, frozenset(files - own), tuple(notes))
    if asked.answer is None:
        return subject
    return subject.answered(_spoken(item.case.id, asked.answer))


def _refuse_several(plan: RunPlan) -> None:
    ids = sorted(case_id for planned in plan.suites for case_id in planned.selected)
    if len(ids) > 1:
        shown = ", ".join(ids[:8]) + (", ..." if len(ids) > 8 else "")
        raise UsageError("One case is judged at a time: name it with --case.", next_step=f"There are: {shown}")


def _spoken(eval_id: str, text: str) -> Answer:
    return Answer(AnswerKey(None, eval_id, None, None), 1, text, (Message("assistant", text),))


def _narrowed(plan: RunPlan, lane: Lane, item: WorkItem, evaluator: CodeJudge) -> RunPlan:
    """The plan with this case alone, judged by this evaluator alone."""
    case = replace(item.case, evaluators=(evaluator,))
    suite = replace(
        item.planned.suite, ids=(case.id,), read_cases=lambda: iter((case,)), evaluator_needs=evaluator.needs
    )
    planned = replace(item.planned, suite=suite, selected=frozenset({case.id}))
    answers = plan.answers
    if answers is not None:
        key = (case.id, item.target, item.attempt)
        answer, failure = answers.find(*key, suite=suite.name), answers.failure(*key, suite=suite.name)
        answers = Answers(
            answers.path,
            {case.id: [answer]} if answer is not None else {},
            {case.id: [failure]} if answer is None and failure is not None else {},
        )
    lane = replace(lane, work=((planned, planned.selected),), answers=answers)
    return replace(plan, suites=(planned,), lanes=(lane,), answers=answers)


def _evaluator_of(asked: Asked, case: EvalCase, observer: Observer, cwd: Path) -> ObservedJudge:
    if asked.script and asked.evaluator is None:
        return _new_evaluator(asked, observer, cwd)
    judges = {evaluator.name: evaluator for evaluator in case.evaluators if isinstance(evaluator, CodeJudge)}
    if asked.evaluator is None and len(judges) != 1:
        what = f"the case '{case.id}' has {len(judges) or 'no'} code_judge evaluators"
        steps = f"Choose one with --evaluator: {one_of(sorted(judges))}." if judges else "Name a script to run on it."
        raise UsageError(f"Say which script to run: {what}.", next_step=steps)
    name = asked.evaluator or next(iter(judges))
    chosen = judges.get(name)
    if chosen is None:
        kind = next((evaluator.type for evaluator in case.evaluators if evaluator.name == name), None)
        near = did_you_mean(name, judges)
        why = f"'{name}' is a `{kind}` and no code_judge" if kind else f"it has no evaluator of this name{near}"
        there = f"Its scripts: {all_of(sorted(judges))}." if judges else "It has none; name a script to run on it."
        raise UsageError(f"--evaluator {name}: the case is '{case.id}', and {why}.", next_step=there)
    changes: dict[str, Any] = {"observer": observer, "given": None}
    if asked.script:
        changes["script"] = script_words(asked.script, cwd)
    if asked.no_judge:
        changes["judge"] = None
    elif asked.max_calls is not None:
        if chosen.judge is None:
            raise UsageError(
                f"--max-calls: the evaluator '{name}' has no judge access.",
                next_step="Add `judge: true` to it in the suite, or leave --max-calls out.",
            )
        changes["judge"] = chosen.judge.model_copy(update={"max_calls": asked.max_calls})
    return ObservedJudge.model_construct(**{**dict(chosen), **changes})


def _new_evaluator(asked: Asked, observer: Observer, cwd: Path, given: bytes | None = None) -> ObservedJudge:
    words = script_words(asked.script, cwd)
    calls = DEFAULT_MAX_CALLS if asked.max_calls is None else asked.max_calls
    named = next((word for word in words if Path(word).suffix in INTERPRETERS), words[0])
    return ObservedJudge(
        name=Path(named).stem,
        type="code_judge",
        script=words,
        judge=None if asked.no_judge else JudgeAccess(max_calls=calls),
        observer=observer,
        given=given,
    )


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


def _of_payload(asked: Asked, given: bytes, observer: Observer, cwd: Path) -> Subject:
    data = _read_payload(given, asked.payload or "-")
    missing = [key for key in KEYS if key not in data]
    if missing:
        data |= {key: [] if key in LISTS else {} if key == "metadata" else None for key in missing}
        given = json.dumps(data, ensure_ascii=False).encode("utf-8", "backslashreplace")
    loaded = Loaded(cwd, asked.config)
    config, environment = loaded.config(cwd), loaded.environment(cwd)
    notes = []
    if config is None and asked.judge_target is None and asked.max_calls is None and not asked.no_judge:
        asked = replace(asked, no_judge=True)
        notes.append("no configuration was found near here, so the script runs without judge access (--config FILE)")
    if config is not None and asked.judge_target not in (None, "none"):
        config.find(str(asked.judge_target), asked_by="--judge-target")
    evaluator = _new_evaluator(asked, observer, cwd, given)
    case = EvalCase(_text(data, "eval_id", "payload"), _text(data, "question", ""), (), evaluators=(evaluator,))
    suite = EvalSuite(
        path=cwd / (asked.payload or "-"),
        name=_text(data, "suite", "payload"),
        ids=(case.id,),
        files=SuiteFiles.of(cwd / "payload"),
        digests={},
        read_cases=lambda: iter((case,)),
        evaluator_needs=evaluator.needs,
    )
    planned = PlannedSuite(suite, environment, config, frozenset(suite.ids))
    answered_by = _text(data, "target", "payload")
    # Who judges may depend on who answered: a target that is configured here counts, else the default one.
    known = config.targets if config is not None else {}
    spec = known.get(answered_by) or known.get((config.default_target() if config else None) or "")
    lane = Lane(answered_by, spec, environment, 1, ((planned, planned.selected),))
    secrets = Secrets.of([config] if config else [], [environment])
    plan = RunPlan(asked.options(), (planned,), (lane,), secrets)
    files = frozenset({config.path.resolve()} if config is not None else ())
    subject = Subject(plan, WorkItem(case, planned, answered_by, 1), evaluator, files, tuple(notes))
    return subject.answered(_spoken(case.id, _text(data, "candidate_answer", "")))


def _text(data: Mapping[str, Any], key: str, fallback: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) and value else fallback


def _read_payload(given: bytes, where: str) -> dict[str, Any]:
    named = "stdin" if where == "-" else where
    try:
        data = json.loads(given.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--payload: {named} is no JSON in UTF-8: {error}.",
            next_step="--save-payload FILE of an earlier `agentv judge run` writes one.",
        ) from None
    if not isinstance(data, dict):
        raise UsageError(f'--payload: {named} must hold one JSON object, like {{"candidate_answer": "..."}}.')
    return data
