"""Plans for `agentv judge run`: one case, one target, one attempt and one evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from agentv.errors import UsageError
from agentv.messages import Message
from agentv.plan.build import Loaded, build_plan
from agentv.plan.options import RunOptions
from agentv.plan.plan import Lane, PlannedSuite, RunPlan, WorkItem
from agentv.suite.evaluator import EvaluatorLike
from agentv.suite.files import SuiteFiles
from agentv.suite.suite import EvalCase, EvalSuite
from agentv.targets.answers import Answer, AnswerKey, Answers
from agentv.targets.config import NO_JUDGE
from agentv.targets.secrets import Secrets

IDS_SHOWN = 8
PAYLOAD = "payload"
"""The default id, suite and target of a payload that does not name them."""


def single(options: RunOptions, cwd: Path, *, answer: str | None = None) -> RunPlan:
    """The plan of the only case that the options select. With `answer`, no target is called or needed.

    UsageError if the options select several cases. If there are several recorded answers, the plan uses the first and
    has a note about it.
    """
    plan = build_plan(options, cwd, only_check=answer is not None, search=False)
    if not plan.lanes:
        plan = build_plan(options, cwd, function_targets=["answer"], search=False)
    ids = sorted(case_id for planned in plan.suites for case_id in planned.selected)
    if len(ids) > 1:
        listed = ", ".join(ids[:IDS_SHOWN]) + (", ..." if len(ids) > IDS_SHOWN else "")
        raise UsageError("Several cases match; select one with --case.", next_step=f"Available: {listed}")
    first, *others = islice(((lane, item) for lane in plan.lanes for item in lane.items()), 2)
    lane, item = first
    if others:
        note = (
            f"several answers are recorded for '{item.case.id}'; using target '{item.target}', "
            f"attempt {item.attempt} (select another with --target)"
        )
        plan = replace(plan, notes=(*plan.notes, note))
    plan = _narrowed(plan, lane, item)
    return plan if answer is None else answered(plan, answer_of(item.case.id, answer))


def single_of_payload(payload: Mapping[str, Any], options: RunOptions, cwd: Path) -> RunPlan:
    """The plan of the case and answer in a payload, with the configuration nearest to `cwd`."""
    loaded = Loaded(cwd, options.config)
    config, environment = loaded.config(cwd), loaded.environment(cwd)
    if config is not None and options.judge_target not in (None, NO_JUDGE):
        config.find(str(options.judge_target), asked_by="--judge-target")
    case = EvalCase(_text(payload, "eval_id", PAYLOAD), _text(payload, "question", ""), ())
    suite = EvalSuite(
        path=cwd / PAYLOAD,
        name=_text(payload, "suite", PAYLOAD),
        ids=(case.id,),
        files=SuiteFiles.of(cwd / PAYLOAD),
        digests={},
        read_cases=lambda: iter((case,)),
    )
    planned = PlannedSuite(suite, environment, config, frozenset(suite.ids))
    target = _text(payload, "target", PAYLOAD)
    # The judge may depend on the target that answered; if that is not configured here, on the default target.
    known = config.targets if config is not None else {}
    spec = known.get(target) or known.get((config.default_target() if config else None) or "")
    lane = Lane(target, spec, environment, 1, ((planned, planned.selected),))
    secrets = Secrets.of([config] if config else [], [environment])
    plan = RunPlan(options, (planned,), (lane,), secrets)
    return answered(plan, answer_of(case.id, _text(payload, "candidate_answer", "")))


def item_of(plan: RunPlan) -> WorkItem:
    """The work item of a plan for one case."""
    return next(plan.lanes[0].items())


def judged_by(plan: RunPlan, evaluator: EvaluatorLike) -> RunPlan:
    """A plan for one case with this evaluator instead of the evaluators of the case."""
    (lane,), (planned,) = plan.lanes, plan.suites
    case = replace(next(planned.suite.cases()), evaluators=(evaluator,))
    suite = replace(
        planned.suite,
        read_cases=lambda: iter((case,)),
        evaluator_needs=evaluator.needs,
        interpreters={interpreter: name for name, interpreter in evaluator.interpreters(planned.suite.directory)},
        judge_choices=frozenset(evaluator.judge_targets()),
        judge_names=(),
    )
    planned = replace(planned, suite=suite)
    return replace(plan, suites=(planned,), lanes=(replace(lane, work=((planned, planned.selected),)),))


def answered(plan: RunPlan, answer: Answer) -> RunPlan:
    """A plan for one case that uses this answer instead of calling the target."""
    return replace(plan, answers=Answers(None, {answer.key.eval_id: [answer]}, {}))


def answer_of(eval_id: str, text: str) -> Answer:
    """An answer of a case, from its text."""
    return Answer(AnswerKey.of_case(eval_id), 1, text, (Message("assistant", text),))


def _narrowed(plan: RunPlan, lane: Lane, item: WorkItem) -> RunPlan:
    """The plan with only this work item and, if answers are recorded, only its own."""
    case = item.case
    suite = replace(item.planned.suite, ids=(case.id,), read_cases=lambda: iter((case,)))
    planned = replace(item.planned, suite=suite, selected=frozenset({case.id}))
    answers = plan.answers
    if answers is not None:
        key = {"suite": suite.name, "prompt": case.prompt}
        recorded = answers.find(case.id, item.target, item.attempt, **key)
        failure = answers.failure(case.id, item.target, item.attempt, **key)
        answers = Answers(
            answers.path,
            {case.id: [recorded]} if recorded is not None else {},
            {case.id: [failure]} if recorded is None and failure is not None else {},
        )
    lane = replace(lane, work=((planned, planned.selected),), answers=answers)
    return replace(plan, suites=(planned,), lanes=(lane,), answers=answers)


def _text(payload: Mapping[str, Any], key: str, fallback: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) and value else fallback
