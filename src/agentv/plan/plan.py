"""The plan of a run: lanes of work, one for each target of each configuration."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.judge.choice import JudgeChoice
from agentv.plan.cases import CaseCollector, SuiteCases
from agentv.plan.chosen import ChosenCases
from agentv.plan.options import RunOptions
from agentv.results import DEFAULT_THRESHOLD, RowKey, Trials, variant_of
from agentv.suite.evaluator import Need
from agentv.suite.files import digest
from agentv.suite.suite import EvalCase, EvalSuite, TrialSettings
from agentv.targets.answers import Answers
from agentv.targets.config import TargetsConfig, TargetSpec
from agentv.targets.environment import Environment
from agentv.targets.provider import TargetSettings
from agentv.targets.secrets import Secrets

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter, PreparedInterpreter
    from agentv.plan.shards import ShardOfRun
    from agentv.targets.nodes_section import NodesModel

OPEN_SUITES = 16
"""How many suites a lane reads alternately. Each keeps its file open."""


@dataclass(frozen=True, slots=True)
class PlannedSuite:
    """A suite with its configuration and its selected cases."""

    suite: EvalSuite
    environment: Environment
    config: TargetsConfig | None
    selected: frozenset[str]
    threshold: float = DEFAULT_THRESHOLD
    """The threshold of cases that do not set their own."""
    cases: SuiteCases | None = None
    """The hashes of the cases, if they are recorded."""
    repeat: int | None = None
    """The number of attempts, if the options set it."""
    trials: Trials = field(init=False)
    """How often a case is attempted that does not set it for itself, and how its attempts become one verdict."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", self._trials(TrialSettings()))

    def trials_of(self, eval_id: str) -> Trials:
        own = self.suite.case_trials.get(eval_id)
        return self.trials if own is None else self._trials(own)

    def _trials(self, own: TrialSettings) -> Trials:
        return TrialSettings(count=self.repeat).over(own).over(self.suite.trials).trials()


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One attempt at one case with one target."""

    case: EvalCase
    planned: PlannedSuite
    target: str
    attempt: int
    trials: Trials | None = None
    """None if the case has one attempt."""
    position: int = 0
    """The position of the case in its suite, from 0."""

    @property
    def case_sha256(self) -> str | None:
        """The hash of the case, if cases are recorded."""
        return None if self.planned.cases is None else self.planned.cases.sha256(self.position)

    @property
    def key(self) -> RowKey:
        return RowKey(self.planned.suite.name, self.case.id, variant_of(self.target, self.case.prompt), self.attempt)

    @property
    def threshold(self) -> float:
        return self.case.threshold if self.case.threshold is not None else self.planned.threshold


@dataclass(frozen=True, slots=True)
class Lane:
    """All work of one target. `spec` is None if the answers come from a file or a function."""

    target: str
    spec: TargetSpec | None
    environment: Environment
    workers: int
    """Cases judged at a time. As many more may be answered, or wait to be judged."""
    work: tuple[tuple[PlannedSuite, frozenset[str]], ...]
    """Suites, each with the ids of the cases that run with this target."""
    answers: Answers | None = None
    only: tuple[str, ...] = ()
    """For recorded answers: the targets to grade; empty for all of them."""
    chosen: ChosenCases | None = None
    """For recorded answers: the cases to grade for each target, if they were chosen one by one."""

    @property
    def calls(self) -> int:
        """Target calls in flight, at most."""
        limit = getattr(self.spec.reading.settings, "concurrency", None) if self.spec is not None else None
        return min(self.workers, limit or self.workers)

    def items(self) -> Iterator[WorkItem]:
        """The work items, read lazily and round-robin from up to `OPEN_SUITES` suites, so that no suite waits for
        another to end. When a suite ends, the next one is opened."""
        waiting = iter(self.work)
        turns = deque(self._items_of(*work) for work in islice(waiting, OPEN_SUITES))
        while turns:
            suite = turns.popleft()
            item = next(suite, None)
            if item is not None:
                yield item
                turns.append(suite)
            elif (work := next(waiting, None)) is not None:
                turns.append(self._items_of(*work))

    def items_of(self, planned: PlannedSuite) -> Iterator[WorkItem]:
        """The work items of one suite, in file order."""
        for suite, ids in self.work:
            if suite.suite.path == planned.suite.path:
                yield from self._items_of(suite, ids)

    def _items_of(self, planned: PlannedSuite, ids: frozenset[str]) -> Iterator[WorkItem]:
        for position, case in enumerate(planned.suite.cases()):
            if case.id in ids:
                yield from self._items_of_case(case, planned, position)

    def _items_of_case(self, case: EvalCase, planned: PlannedSuite, position: int) -> Iterator[WorkItem]:
        trials = planned.trials_of(case.id)
        if not self._runs(case.id, planned.suite.name, case.prompt):
            return
        if trials.count == 1 and self.answers is None:
            yield WorkItem(case, planned, self.target, 1, position=position)
            return
        slots = self._slots(case.id, planned.suite.name, trials.count, case.prompt)
        counts = Counter(target for target, _ in slots)
        for target, attempt in slots:
            several = replace(trials, count=counts[target]) if counts[target] > 1 else None
            yield WorkItem(case, planned, target, attempt, several, position)

    def _runs(self, eval_id: str, suite: str, prompt: str | None) -> bool:
        """Whether a case runs with this prompt: cases may have been chosen one by one, each with its prompts."""
        if prompt is None or self.chosen is None or self.answers is not None:
            return True
        return eval_id in self.chosen.of(suite, variant_of(self.target, prompt))

    def chosen_of(self, suite: str, chosen: ChosenCases) -> frozenset[str]:
        """Those of the chosen cases that this lane can run."""
        return chosen.of(suite) if self.answers is not None else chosen.of_target(suite, self.target)

    def _slots(self, eval_id: str, suite: str, count: int, prompt: str | None = None) -> list[tuple[str, int]]:
        """The targets and attempts of a case. A case without a recorded answer still gets one row: an error."""
        attempts = range(1, count + 1)
        if self.answers is None:
            return [(self.target, attempt) for attempt in attempts]
        slots = {
            (target or self.target, attempt)
            for target, recorded in self.answers.slots(eval_id, suite, prompt)
            if not self.only or target is None or target in self.only
            if self.chosen is None or eval_id in self.chosen.of(suite, variant_of(target or self.target, prompt))
            for attempt in ([recorded] if recorded else attempts)
        }
        return sorted(slots) or [(self.target, 1)]

    def row_keys(self) -> Iterator[RowKey]:
        """The keys of the rows that this lane produces, without reading its suites."""
        for planned, ids in self.work:
            name = planned.suite.name
            for eval_id in ids:
                count = planned.trials_of(eval_id).count
                for prompt in planned.suite.prompts or (None,):
                    if self._runs(eval_id, name, prompt):
                        for target, attempt in self._slots(eval_id, name, count, prompt):
                            yield RowKey(name, eval_id, variant_of(target, prompt), attempt)

    @property
    def total(self) -> int:
        if self.answers is None and (self.chosen is None or not any(item.suite.prompts for item, _ in self.work)):
            return sum(_attempts(planned, ids) * len(planned.suite.prompts or (None,)) for planned, ids in self.work)
        return sum(1 for _ in self.row_keys())


def _attempts(planned: PlannedSuite, ids: frozenset[str]) -> int:
    """The number of attempts of these cases, counted without looking at each of them."""
    varying = ids & planned.suite.case_trials.keys()
    counted = sum(planned.trials_of(eval_id).count for eval_id in varying)
    return counted + (len(ids) - len(varying)) * planned.trials.count


@dataclass(frozen=True, slots=True)
class UsesNodes:
    """The nodes of a run, as in `--on` or `nodes.on`, and how they are used."""

    on: str
    settings: NodesModel


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run will do. Building it calls no model."""

    options: RunOptions
    suites: tuple[PlannedSuite, ...]
    lanes: tuple[Lane, ...]
    secrets: Secrets = field(repr=False)
    answers: Answers | None = None
    notes: tuple[str, ...] = ()
    """Notes to print before the run starts."""
    collected: CaseCollector | None = field(default=None, repr=False)
    """The lines of all cases, if they are recorded."""
    chosen: ChosenCases | None = None
    """The cases of the run, if they were chosen one by one."""
    sample: str | None = None
    """A note about the sample, if the run is one."""
    nodes: UsesNodes | None = None
    """The nodes that run scripts and commands; None for this machine."""
    shard: ShardOfRun | None = None
    """The shard that the run is restricted to."""
    prepared: Mapping[Interpreter, PreparedInterpreter] = field(default_factory=dict)
    """The interpreters of scripts, once they are ready for use (`run/interpreters.py`)."""

    @property
    def max_cost(self) -> float | None:
        """What the run may spend: `--max-cost`, else what its suites may spend together, if all of them set it."""
        if self.options.max_cost is not None:
            return self.options.max_cost
        own = [item.suite.max_cost for item in self.suites]
        return sum(each for each in own if each is not None) if own and None not in own else None

    def narrowed(self, chosen: ChosenCases) -> RunPlan:
        """The plan of only these cases."""
        planned = {
            item.suite.path: replace(item, selected=item.selected & chosen.of(item.suite.name)) for item in self.suites
        }
        lanes: list[Lane] = []
        for lane in self.lanes:
            ids = [(planned[item.suite.path], own & lane.chosen_of(item.suite.name, chosen)) for item, own in lane.work]
            if work := tuple((item, own) for item, own in ids if own):
                lanes.append(replace(lane, work=work, chosen=chosen))
        suites = tuple(item for item in planned.values() if item.selected)
        return replace(self, suites=suites, lanes=tuple(lanes), chosen=chosen)

    def case_lines(self) -> Iterator[tuple[SuiteCases, int, str]]:
        """The line of `cases.jsonl` of every selected case, with its suite and its position in the suite."""
        for planned in self.suites:
            if self.collected is None or planned.cases is None:
                continue
            lines = self.collected.lines.starting(planned.cases.start)
            for position, (case_id, line) in enumerate(zip(planned.suite.variant_ids(), lines, strict=False)):
                if case_id in planned.selected:
                    yield planned.cases, position, line.decode("utf-8")

    @property
    def total(self) -> int:
        return sum(lane.total for lane in self.lanes)

    def case_hashes(self) -> set[str]:
        """The hashes of all cases of the suites."""
        return {sha256 for planned in self.suites if planned.cases is not None for sha256 in planned.cases}

    def pays_for(self, target: str) -> bool:
        """Whether the answers of this target come from calling it, not from a recording."""
        replayed = (lane.target for lane in self.lanes if lane.spec is not None and lane.spec.provider == "replay")
        return self.answers is None and self.options.replay is None and target not in replayed

    def called_targets(self) -> list[tuple[TargetSpec, Environment]]:
        """The available targets that answer or judge in this run, without those that a script may choose."""
        called: dict[tuple[Path, str], tuple[TargetSpec, Environment]] = {}
        for lane in self.lanes:
            for planned, _ in lane.work:
                choice = self.judge_choice(lane, planned)
                names = [choice.resolve(own) for own in planned.suite.judge_choices] if planned.config else []
                judges = [planned.config.targets.get(name or "") for name in names if planned.config]
                for spec in (lane.spec, *judges):
                    if spec is not None and not spec.unavailable:
                        called.setdefault((spec.path, spec.name), (spec, planned.environment))
        return list(called.values())

    @property
    def scripted(self) -> bool:
        """Whether a mock answers or judges: the results then say nothing about a real model."""
        return any(spec.provider == "mock" for lane in self.lanes for spec in (lane.spec, *self._judges(lane)) if spec)

    @property
    def scripted_part(self) -> str:
        """`target` or `judge` if only one of them is a mock and the other is a real model; otherwise empty."""
        targets = [lane.spec.provider == "mock" for lane in self.lanes if lane.spec]
        judges = [spec.provider == "mock" for lane in self.lanes for spec in self._judges(lane)]
        if targets and judges and all(targets) and not any(judges):
            return "target"
        return "judge" if judges and all(judges) and not any(targets) else ""

    def self_graded(self) -> dict[str, int]:
        """By target, the number of cases without evaluators that are graded by the target that answers them."""
        graded: dict[str, int] = {}
        for lane in self.lanes:
            for planned, ids in lane.work:
                cases = planned.suite.without_evaluators & ids
                if cases and lane.spec and self.judge_choice(lane, planned).resolve() == lane.spec.name:
                    graded[lane.spec.name] = graded.get(lane.spec.name, 0) + len(cases)
        return graded

    def _judges(self, lane: Lane) -> list[TargetSpec]:
        """The targets that may judge the answers of this lane."""
        specs: list[TargetSpec] = []
        for planned, _ in lane.work:
            suite, config = planned.suite, planned.config
            if config is None or not suite.judge_choices:
                continue
            choice = self.judge_choice(lane, planned)
            names = {choice.resolve(own) for own in suite.judge_choices}
            if self.options.judge_target is None:
                names.update(named.target for named in suite.judge_names)  # including those that a script may choose
            specs += [spec for name in names if name is not None and (spec := config.targets.get(name))]
        return specs

    def judges_of(self, lane: Lane, planned: PlannedSuite) -> list[str]:
        """The names of the targets that judge the answers of this suite in this lane, without those that a script may
        choose."""
        choice = self.judge_choice(lane, planned)
        names = {choice.resolve(own) for own in planned.suite.judge_choices}
        return sorted(name for name in names if name is not None)

    def judge_choice(self, lane: Lane, planned: PlannedSuite) -> JudgeChoice:
        """The choice of the target that judges the answers of this suite in this lane."""
        main = lane.spec.name if lane.spec is not None else None
        return JudgeChoice.of(planned.config, main=main, suite=planned.suite, option=self.options.judge_target)

    @property
    def needs(self) -> frozenset[Need]:
        """What the run must provide to its evaluators."""
        return frozenset(need for planned in self.suites if planned.selected for need in planned.suite.evaluator_needs)

    @property
    def interpreters(self) -> dict[Interpreter, str]:
        """The interpreters that scripts need, besides that of agentv, each with the name of an evaluator."""
        names: dict[Interpreter, str] = {}
        for item in self.suites:
            if item.selected:
                names = {**item.suite.interpreters, **names}
        return names

    @property
    def runs_commands_on_nodes(self) -> bool:
        """Whether a target that answers or judges runs commands on nodes."""
        specs = (spec for spec, _ in self.called_targets())
        settings = (spec.reading.settings for spec in specs)
        return any(isinstance(each, TargetSettings) and each.on_nodes for each in settings)

    def directories(self) -> list[Path]:
        """The directories whose files scripts and commands need: those of the suites and of their configurations."""
        suites = [item.suite.directory.resolve() for item in self.suites]
        configs = [item.config.path.resolve().parent for item in self.suites if item.config is not None]
        return list(dict.fromkeys([*suites, *configs]))

    def digests(self) -> Mapping[str, str]:
        """SHA-256 of every file the run depends on, by absolute path."""
        digests = {
            str(Path(path).resolve()): sha256
            for planned in self.suites
            for path, sha256 in planned.suite.digests.items()
        }
        path = None if self.answers is None else self.answers.path
        if path is not None and path.is_file():
            digests[str(path.resolve())] = digest(path)
        return digests

    def configs(self) -> dict[Path, TargetsConfig]:
        return {planned.config.path: planned.config for planned in self.suites if planned.config is not None}
