"""Checks every target that a plan names, before anything is called."""

from __future__ import annotations

from collections.abc import Sequence

from agentv.errors import Problem, SuiteError
from agentv.judge.choice import JudgeChoice
from agentv.plan.options import RunOptions
from agentv.plan.plan import PlannedSuite
from agentv.suite.findings import AllFindings, Findings, yaml_places
from agentv.suite.suite import EvalSuite
from agentv.targets.config import NO_JUDGE, TargetsConfig, TargetSpec, no_config_error
from agentv.targets.registry import provider_class
from agentv.text import all_of, did_you_mean


def check_names(planned: Sequence[PlannedSuite], options: RunOptions, *, targets_too: bool) -> None:
    """SuiteError with every unknown target that a suite names."""
    problems: list[Problem] = []
    for item in planned:
        if item.config is None:
            if options.judge_target not in (None, NO_JUDGE):
                raise no_config_error(f"--judge-target {options.judge_target} names a target", item.suite.directory)
            continue
        problems += _judge_name_problems(item, item.config, options)
        problems += _user_name_problems(item, item.config)
        if targets_too:
            problems += _target_name_problems(item, item.config)
    if problems:
        raise SuiteError(list(dict.fromkeys(problems)))


def _user_name_problems(item: PlannedSuite, config: TargetsConfig) -> list[Problem]:
    suite = item.suite
    found = AllFindings()
    for case_id, named in suite.user_targets.items():
        if case_id in item.selected and named.target not in config.targets:
            message = f"`user` of case '{case_id}' names {_unknown(named.target, config)}"
            found.of(named.path, named.form).add((*named.node, "target"), message)
    return found.problems()


def _target_name_problems(item: PlannedSuite, config: TargetsConfig) -> list[Problem]:
    suite = item.suite
    found = AllFindings()
    for case_id, named in suite.case_targets.items():
        if case_id in item.selected and named.target not in config.targets:
            message = f"case '{case_id}' names {_unknown(named.target, config)}"
            found.of(named.path, named.form).add((*named.node, "execution", "target"), message)
    problems = found.problems()
    if (
        suite.target is not None
        and not suite.targets
        and suite.target not in config.targets
        and item.selected - suite.case_targets.keys()
    ):
        node: tuple[str, ...] = ("execution", "target")
        written = suite.origins.written(node) if suite.origins is not None else node
        node = node if yaml_places(suite.head_path, [written])(written)[1] else ("target",)
        problems += _at(suite, node, f"`{'.'.join(node)}` names {_unknown(suite.target, config)}")
    for index, name in enumerate(suite.targets):
        if name not in config.targets:
            problems += _at(suite, ("execution", "targets", index), f"`targets` names {_unknown(name, config)}")
    return problems


def _judge_name_problems(item: PlannedSuite, config: TargetsConfig, options: RunOptions) -> list[Problem]:
    named = item.suite.judge_target
    if options.judge_target not in (None, NO_JUDGE):
        config.find(str(options.judge_target), asked_by="--judge-target")
    problems: list[Problem] = []
    for target, path, line, evaluator, index, embeds in item.suite.judge_names:
        if target == NO_JUDGE:
            continue
        message = None
        if target not in config.targets:
            message = f"evaluator '{evaluator}' names {_unknown(target, config)}"
        elif embeds and not _embeds(config.targets[target]):
            message = (
                f"`judge.embeddings` of evaluator '{evaluator}' must be a target with `provider: embeddings`, got "
                f"'{target}' (`provider: {config.targets[target].provider}`)"
            )
        if message is not None:
            if index is None:
                problems.append(Problem(path, line, 1, message))
            else:
                problems += _at(item.suite, ("execution", "evaluators", index), message)
    if named is not None and named != NO_JUDGE and named not in config.targets:
        node = ("execution", "judge_target")
        problems += _at(item.suite, node, f"`{'.'.join(node)}` names {_unknown(named, config)}")
    return problems


def refuse_without_a_judge(planned: Sequence[PlannedSuite], options: RunOptions) -> None:
    """An error if recorded answers, which need no target, need a judge and there is no configuration."""
    for item in planned:
        suite = item.suite
        if item.config is not None or options.judge_target == NO_JUDGE or not suite.judge_choices:
            continue
        choice = JudgeChoice.of(None, suite=suite, option=options.judge_target)
        evaluators = (each for case in suite.cases() if case.id in item.selected for each in case.evaluators)
        if any(choice.resolve(own) != NO_JUDGE for evaluator in evaluators for own in evaluator.judge_targets()):
            raise no_config_error(f"The evaluators of {suite.path} need a judge", suite.directory)


def _embeds(target: TargetSpec) -> bool:
    kind = provider_class(target.provider)
    return kind is not None and kind.embeds


def _unknown(name: str, config: TargetsConfig) -> str:
    known = sorted(config.targets)
    return f"the unknown target '{name}'{did_you_mean(name, known)}; available in {config.path}: {all_of(known)}"


def _at(suite: EvalSuite, node: tuple[str | int, ...], message: str) -> list[Problem]:
    findings = Findings(suite.head_path, origins=suite.origins)
    findings.add(node, message)
    return findings.problems()
