"""Build a run plan: find suites, load their configuration, resolve every name, and create the lanes of work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.errors import AgentVError, ConfigError, Problem, SuiteError, UsageError
from agentv.evaluators.reader import EvaluatorReader
from agentv.plan.cases import CaseCollector, SuiteCases
from agentv.plan.chosen import ChosenCases
from agentv.plan.discovery import find_suites
from agentv.plan.names import check_names, refuse_without_a_judge
from agentv.plan.options import RunOptions
from agentv.plan.plan import Lane, PlannedSuite, RunPlan, UsesNodes
from agentv.plan.selection import DEFAULT_SEED, CaseFilter, sampled, select_ids
from agentv.results import DEFAULT_THRESHOLD
from agentv.suite.findings import AllFindings
from agentv.suite.loader import load_suite
from agentv.suite.search import ProgramSearch
from agentv.suite.suite import EvalSuite
from agentv.targets.answers import Answers, load_answers
from agentv.targets.config import (
    TargetsConfig,
    TargetSpec,
    find_config,
    load_config,
    no_config_error,
)
from agentv.targets.environment import Environment, dotenv_files
from agentv.targets.provider import TargetSettings
from agentv.targets.secrets import Secrets
from agentv.text import one_of

if TYPE_CHECKING:
    from agentv.plan.shards import Shard, ShardOfRun

DEFAULT_CONCURRENCY = 16
_LIKE_A_VARIANT = re.compile(r" \[[^\[\]]*\]$")
ANSWERS_TARGET = "outputs"


@dataclass(slots=True)
class Loaded:
    """Loads the suites and configurations of one run; each file is read once."""

    cwd: Path
    config_option: str | None = None
    added_evaluators: Sequence[Any] = ()
    home: Path | None = None
    prompts: Sequence[Path] = ()
    """The files of `--prompt`."""
    search: bool = True
    """Whether programs and scripts that evaluators need and that do not exist are errors."""
    on: str | None = None
    """The nodes of `--on`."""
    shard: Shard | None = None
    """The shard that gets its part of the limits of all targets."""
    collected: list[SuiteCases] = field(default_factory=list)
    """What `suites` kept of the cases of each suite, if it had a collector."""
    _environments: dict[tuple[Path, ...], Environment] = field(default_factory=dict)
    """Keyed by the `.env` files that were read."""
    _configs: dict[tuple[Path, tuple[Path, ...]], TargetsConfig] = field(default_factory=dict)
    """Keyed by the configuration file and the `.env` files."""
    undivided: dict[tuple[str, str], TargetSpec] = field(default_factory=dict)
    """For a shard: the targets with the limits of the whole run, by configuration file and name."""

    def suites(self, paths: Sequence[str], collector: CaseCollector | None = None) -> list[EvalSuite]:
        """Every suite, or one SuiteError with the problems of all of them. What is kept of their cases goes to
        `collected`, in the same order."""
        suites: list[EvalSuite] = []
        problems: list[Problem] = []
        for path in find_suites(paths, self.cwd):
            reader = self._reader(path)
            if collector is not None:
                collector.next_suite()
            try:
                suite = load_suite(
                    path,
                    reader,
                    self.added_evaluators,
                    home=self.home,
                    observer=collector,
                    prompts=self.prompts,
                    variables=self.environment((self.home or path.parent).resolve()).values,
                )
                suites.append(suite)
                if collector is not None:
                    self.collected.append(collector.of_suite)
            except SuiteError as error:
                problems.extend(error.problems)
        if problems:  # suites may share a file, such as a prompt
            raise SuiteError(list(dict.fromkeys(problems)))
        return suites

    def _reader(self, suite: Path) -> EvaluatorReader:
        if not self.search or self._uses_nodes((self.home or suite.parent).resolve()):
            return EvaluatorReader()
        environment = self.environment((self.home or suite.parent).resolve())
        return EvaluatorReader(search=ProgramSearch(environment.values))

    def _uses_nodes(self, directory: Path) -> bool:
        """Whether scripts run on nodes, which may have programs that this machine does not have."""
        try:
            config = self.config(directory)
        except AgentVError:  # reported when the configuration is needed
            config = None
        return _nodes(self.on, [config]) is not None

    def environment(self, directory: Path) -> Environment:
        files = dotenv_files(directory, self.cwd)
        if files not in self._environments:
            self._environments[files] = Environment.near(directory, cwd=self.cwd)
        return self._environments[files]

    def config(self, directory: Path) -> TargetsConfig | None:
        """The configuration for suites in a directory, or None if there is none."""
        path = (self.cwd / self.config_option) if self.config_option else find_config(directory, self.cwd)
        if path is None:
            return None
        if not path.exists():
            raise UsageError(f"--config {self.config_option}: file not found.")
        environment = self.environment(directory)
        key = (path, environment.dotenv_files)
        if key not in self._configs:
            config = load_config(path, environment)
            if self.shard is not None:
                from agentv.plan.shares import share_of_targets  # noqa: PLC0415 - only shards need it

                self.undivided |= {(str(spec.path), name): spec for name, spec in config.targets.items()}
                config = share_of_targets(config, self.shard)
            self._configs[key] = config
        return self._configs[key]


def build_plan(
    options: RunOptions,
    cwd: Path,
    *,
    function_targets: Sequence[str] = (),
    added_evaluators: Sequence[Any] = (),
    home: Path | None = None,
    only_check: bool = False,
    search: bool = True,
    record_cases: bool = False,
    watched: bool = False,
    chosen: ChosenCases | None = None,
) -> RunPlan:
    """The plan of a run.

    `function_targets` are names of targets whose answers come from the caller. `home` replaces each suite's own
    directory as the working directory of its scripts. With `only_check`, only the files are validated: a missing
    configuration or variable is not an error. Without `search`, missing programs and scripts are not errors.
    With `record_cases`, the plan has the lines of `cases.jsonl`. `chosen` restricts it to these cases.
    With `watched`, it also knows which cases a judge script affects.
    """
    loaded = Loaded(
        cwd,
        options.config,
        added_evaluators,
        home,
        _prompt_files(options, cwd),
        search,
        on=options.on,
        shard=options.own_shard,
    )
    selecting = _Selecting(options, CaseFilter.of(options), chosen)
    collector = None
    if record_cases or selecting.filter is not None:
        collector = CaseCollector(cwd, options.threshold, selecting.filter, record_cases, watched)
    suites = loaded.suites(options.paths, collector)
    selected = _select(suites, loaded.collected, selecting)
    shard, own = _shard_of(suites, selected, loaded.shard)
    cases = dict(zip((suite.path for suite in suites), loaded.collected, strict=False)) if record_cases else {}
    planned = [
        PlannedSuite(
            suite=suite,
            environment=loaded.environment(suite.directory),
            config=loaded.config(suite.directory),
            selected=own[suite.path],
            threshold=_first(options.threshold, suite.threshold, DEFAULT_THRESHOLD),
            repeat=options.repeat,
            cases=cases.get(suite.path),
        )
        for suite in suites
        if selected[suite.path]
    ]
    by_name = options.outputs is None and not function_targets and not options.targets
    check_names(planned, options, targets_too=by_name)
    answers = None
    notes = list(dict.fromkeys(note for item in planned if item.config for note in item.config.notes()))
    notes += dict.fromkeys(note for item in planned for note in item.suite.notes)
    notes += [*selecting.notes, *([selecting.sample] if selecting.sample else [])]
    if options.outputs is not None:
        answers = _answers_to_grade(suites, options, cwd / options.outputs, notes)
        refuse_without_a_judge(planned, options)
        lanes = _answer_lanes(planned, answers, options, notes, chosen)
    elif function_targets:
        lanes = [_function_lane(planned, name, options) for name in function_targets]
    else:
        lanes = _target_lanes([item for item in planned if item.config or not only_check], options, chosen)
        if not only_check and options.replay is None:
            _refuse_if_none_available(lanes)
    secrets = Secrets.of([p.config for p in planned if p.config], [p.environment for p in planned])
    plan = RunPlan(
        options,
        tuple(planned),
        tuple(lanes),
        secrets,
        answers,
        tuple(notes),
        collected=collector if record_cases else None,
        chosen=chosen,
        sample=selecting.sample,
        nodes=_nodes(options.on, [item.config for item in planned]),
        shard=shard,
    )
    if shard is not None:
        plan = replace(plan, notes=(*plan.notes, *_shard_notes(plan, shard, loaded)))
    _check_wording(lanes)
    if search and options.replay is None and plan.nodes is None:
        _search_for_targets(plan)
    return plan


def _nodes(option: str | None, configs: Sequence[TargetsConfig | None]) -> UsesNodes | None:
    """The nodes that a run uses; None for none."""
    if option is None and all(config is None or config.nodes is None for config in configs):
        return None
    from agentv.plan.uses_nodes import nodes_named  # noqa: PLC0415 - most runs use no nodes

    return nodes_named(option, configs)


def _prompt_files(options: RunOptions, cwd: Path) -> list[Path]:
    """The files named by `--prompt`."""
    files = [cwd / prompt for prompt in options.prompts]
    for file in files:
        if not file.is_file():
            raise UsageError(
                f"--prompt {file}: file not found.",
                next_step="It takes a file. The prompts under `prompts` of a suite all run.",
            )
    return files


def _answers_to_grade(suites: Sequence[EvalSuite], options: RunOptions, file: Path, notes: list[str]) -> Answers:
    """The answers named by `--outputs`, paired with the suites. What a user should know goes into `notes`."""
    answers, renamed = load_answers(file, may_be_pipe=True).paired_with({suite.name: suite.ids for suite in suites})
    notes += [
        f"{options.outputs}: answers of suite '{recorded}' are used for suite '{name}'; paired by case id"
        for recorded, name in sorted(renamed.items())
    ]
    if options.repeat is not None and answers.has_attempts:
        notes.append(f"{options.outputs}: has several attempts per case, each graded once; --repeat is ignored")
    elif options.repeat is not None:
        answers = answers.for_any_attempt()
    return answers


def _check_wording(lanes: Sequence[Lane]) -> None:
    """ConfigError if a prompt of a target uses a variable that not all of its cases have, or its name is ambiguous."""
    found = AllFindings()
    for lane in lanes:
        for planned, _ in lane.work:
            if planned.suite.prompts and _LIKE_A_VARIANT.search(lane.target):
                raise UsageError(
                    f"The target '{lane.target}' cannot be used with prompts: its name looks like that of a variant.",
                    next_step="Rename the target.",
                )
            settings = None if lane.spec is None else lane.spec.reading.settings
            if lane.spec is None or not isinstance(settings, TargetSettings) or not settings.changes_prompts:
                continue
            from agentv.targets.wording import wording_of  # noqa: PLC0415 - most targets change nothing

            wording = wording_of(lane.target, settings)
            for option, name in wording.unknown(planned.suite.common_variables).items():
                text = (
                    f"`{option}` uses `{{{{ {name} }}}}`, which is not a variable of every case of {planned.suite.path}"
                )
                found.of(lane.spec.path).add((*lane.spec.node, option), f"target '{lane.target}': {text}")
    if found:
        raise ConfigError(found.problems())


def _search_for_targets(plan: RunPlan) -> None:
    """ConfigError if a target that the run calls needs a program or a file that does not exist."""
    found = AllFindings()
    for spec, environment in plan.called_targets():
        if isinstance(spec.reading.settings, TargetSettings):
            problems = spec.reading.settings.not_found(spec.directory, ProgramSearch(environment.values))
            for node, message in problems.items():
                found.of(spec.path).add((*spec.node, *node), f"target '{spec.name}': {message}")
    if found:
        raise ConfigError(found.problems())


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


# -- selection


def _select(suites: Sequence[EvalSuite], cases: Sequence[SuiteCases], run: _Selecting) -> dict[Path, frozenset[str]]:
    """The selected ids of each suite. UsageError if there are none."""
    options, case_filter = run.options, run.filter
    selected = select_ids(suites, options.cases)
    if case_filter is not None:
        for suite, own in zip(suites, cases, strict=True):
            selected[suite.path] &= own.accepted or frozenset()
        if not any(selected.values()):
            raise case_filter.nothing(options, sum(len(suite.ids) for suite in suites))
        run.notes += case_filter.notes()
    if run.chosen is not None:
        selected = {suite.path: selected[suite.path] & run.chosen.of(suite.name) for suite in suites}
        if not any(selected.values()):
            raise UsageError(
                f"None of the cases that {run.chosen.why} is selected: they are not in the suites, or other options "
                "exclude them.",
                next_step="Nothing was run.",
            )
    _refuse_shared_names(suites, selected)
    if options.sample is None:
        if options.seed is not None:
            raise UsageError("--seed can only be used with --sample.", next_step="Add --sample N, or remove --seed.")
        return selected
    total, seed = sum(map(len, selected.values())), DEFAULT_SEED if options.seed is None else options.seed
    if options.sample < total:
        selected = sampled(suites, selected, options.sample, seed)
        run.sample = f"sampled {options.sample:,} of {total:,} cases, seed {seed}"
    return selected


def _shard_of(
    suites: Sequence[EvalSuite], selected: dict[Path, frozenset[str]], shard: Shard | None
) -> tuple[ShardOfRun | None, dict[Path, frozenset[str]]]:
    """The shard of the run, if it is one, and the cases that run. A suite without cases in the shard keeps its place:
    the suites and the files of a run are those of all its shards."""
    if shard is None:
        return None, selected
    from agentv.plan.shards import ShardOfRun  # noqa: PLC0415 - only shards need it

    own = shard.cases(suites, selected)
    return ShardOfRun(shard, sum(map(len, own.values())), sum(map(len, selected.values()))), own


def _shard_notes(plan: RunPlan, shard: ShardOfRun, loaded: Loaded) -> list[str]:
    from agentv.plan.shares import notes_on_shares  # noqa: PLC0415 - only shards need it

    if not shard.cases:
        return [f"{shard.note}; nothing is run, and the run can be merged with those of the other shards"]
    called = [] if plan.options.replay is not None else [spec for spec, _ in plan.called_targets()]
    return [shard.note, *notes_on_shares(plan.options, shard.shard, called, loaded.undivided)]


@dataclass(slots=True)
class _Selecting:
    """What decides which cases run, and the notes about it."""

    options: RunOptions
    filter: CaseFilter | None
    chosen: ChosenCases | None
    notes: list[str] = field(default_factory=list)
    sample: str | None = None


def _refuse_shared_names(suites: Sequence[EvalSuite], selected: dict[Path, frozenset[str]]) -> None:
    """SuiteError if two suites of the same name share a case id: their rows would have the same key."""
    names = Counter(suite.name for suite in suites)
    owner: dict[tuple[str, str], Path] = {}
    problems: list[Problem] = []
    for suite in suites:
        if names[suite.name] == 1:
            continue
        shared = next((i for i in suite.ids if i in selected[suite.path] and (suite.name, i) in owner), None)
        if shared is not None:
            other = owner[suite.name, shared]
            text = f"case '{shared}' is also in {other}; both suites are named '{suite.name}': set `dataset:` in one"
            problems.append(Problem(suite.path, 1, 1, text))
        owner.update({(suite.name, i): suite.path for i in selected[suite.path]})
    if problems:
        raise SuiteError(problems)


# -- lanes


def _target_lanes(
    planned: Sequence[PlannedSuite], options: RunOptions, chosen: ChosenCases | None = None
) -> list[Lane]:
    """One lane per target and configuration. The same file read with different `.env` files counts separately."""
    work: dict[tuple[Path, tuple[Path, ...], str], list[tuple[PlannedSuite, frozenset[str]]]] = {}
    configs: dict[tuple[Path, tuple[Path, ...]], TargetsConfig] = {}
    for item in planned:
        config = item.config
        if config is None:
            raise no_config_error(f"The suite {item.suite.path} needs a target", item.suite.directory)
        configs[config.path, config.environment.dotenv_files] = config
        for name, ids in _targets_of(item, options).items():
            own = ids if chosen is None else ids & chosen.of_target(item.suite.name, name)
            if own:
                work.setdefault((config.path, config.environment.dotenv_files, name), []).append((item, own))
    lanes = []
    for (path, files, name), suites in work.items():
        config = configs[path, files]
        spec = config.targets[name]
        workers = _workers(spec, options, [item.suite for item, _ in suites])
        lanes.append(Lane(name, spec, config.environment, workers, tuple(suites), chosen=chosen))
    return lanes


def _targets_of(item: PlannedSuite, options: RunOptions) -> dict[str, frozenset[str]]:
    """The selected cases of each target. Unknown targets are reported as errors."""
    config = item.config
    assert config is not None  # noqa: S101 - the caller rejects suites without one
    if options.targets:
        for name in options.targets:
            config.find(name, asked_by="--target")
        return dict.fromkeys(options.targets, item.selected)
    by_target: dict[str, set[str]] = {}
    own = item.suite.case_targets
    for case_id, named in own.items():
        if case_id in item.selected:
            by_target.setdefault(named.target, set()).add(case_id)
    targets = {name: frozenset(ids) for name, ids in by_target.items()}
    rest = item.selected - own.keys() if own else item.selected
    if rest:
        for name in item.suite.targets or [_suite_target(item.suite, config)]:
            targets[name] = targets[name] | rest if name in targets else rest
    return targets


def _suite_target(suite: EvalSuite, config: TargetsConfig) -> str:
    name = suite.target or config.default_target()
    if name is None:
        raise UsageError(
            f"{suite.path} does not set a target, and {config.path} has several.",
            next_step=f"Set --target, `execution.target` or `defaults.target` to {one_of(sorted(config.targets))}.",
        )
    return name


def _workers(spec: TargetSpec, options: RunOptions, suites: Sequence[EvalSuite]) -> int:
    settings = spec.reading.settings
    of_suites = min((suite.workers for suite in suites if suite.workers is not None), default=None)
    set_ = options.workers or of_suites or getattr(settings, "workers", None)
    return set_ or max(getattr(settings, "concurrency", None) or 0, DEFAULT_CONCURRENCY)


def _refuse_if_none_available(lanes: Sequence[Lane]) -> None:
    missing = [lane.spec for lane in lanes if lane.spec is not None and lane.spec.unavailable]
    if lanes and len(missing) == len(lanes):
        raise UsageError(
            "No selected target is available:\n" + "\n".join(f"  {spec.name}: {spec.unavailable}" for spec in missing),
            next_step="Nothing was run. `agentv targets` lists what each target needs.",
        )


def _function_lane(planned: Sequence[PlannedSuite], name: str, options: RunOptions) -> Lane:
    work = tuple((item, item.selected) for item in planned)
    environment = planned[0].environment
    return Lane(name, None, environment, options.workers or DEFAULT_CONCURRENCY, work)


def _answer_lanes(
    planned: Sequence[PlannedSuite],
    answers: Answers,
    options: RunOptions,
    notes: list[str],
    chosen: ChosenCases | None,
) -> list[Lane]:
    """One lane for all recorded answers."""
    known = frozenset(case_id for item in planned for case_id in item.suite.ids)
    unknown = sorted(set(answers.ids) - known)
    if len(unknown) == len(set(answers.ids)):
        raise UsageError(
            f"--outputs {options.outputs}: none of its {len(unknown)} eval ids is in the suites "
            f"(the first is '{unknown[0]}')."
            if unknown
            else f"--outputs {options.outputs} contains no answers.",
            next_step="Each line needs the `eval_id` of a case and `candidate_answer` or `output_messages`.",
        )
    if unknown:
        ids = "1 answer whose id is" if len(unknown) == 1 else f"answers for {len(unknown)} ids that are"
        notes.append(f"{options.outputs}: ignored {ids} not in the suites")
    label = options.targets[0] if options.targets else ANSWERS_TARGET
    work = tuple((item, item.selected) for item in planned)
    return [
        Lane(
            label,
            None,
            planned[0].environment,
            options.workers or DEFAULT_CONCURRENCY,
            work,
            answers=answers,
            only=options.targets,
            chosen=chosen,
        )
    ]
