"""`agentv generate rubrics`: let a model write rubrics for the cases of a suite and add them to its file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from agentv.cli.program import clean_lines
from agentv.cli.rubric_asking import ask_for_rubrics
from agentv.errors import AgentVError, TargetUnavailableError, UsageError
from agentv.evaluators.reader import EvaluatorReader
from agentv.judge.choice import JudgeChoice
from agentv.plan.build import Loaded
from agentv.plan.selection import no_such_case
from agentv.redact import Redactor
from agentv.suite.cases import RUBRICS
from agentv.suite.edit import SuiteFile
from agentv.suite.suite import EvalCase, EvalSuite
from agentv.targets.config import NO_JUDGE, TargetsConfig, TargetSpec, no_config_error
from agentv.targets.pool import TargetPool
from agentv.targets.secrets import Secrets
from agentv.text import plural

SET_JUDGE = "Set one with --target, `execution.judge_target` in the suite, or `judge_target` in the configuration."


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one case."""

    id: str
    status: str
    """`added`, `skipped`, `failed`, or `pending` before the model was called."""
    reason: str | None = None
    rubrics: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "status": self.status, "reason": self.reason, "rubrics": list(self.rubrics)}


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--target", "--judge-target", metavar="NAME", help="Target that writes the rubrics (overrides all other settings)."
)
@click.option("--config", metavar="FILE", help="Target configuration.  [found near the suite]")
@click.option("--case", "cases", multiple=True, metavar="GLOB", help="Select cases by id; repeatable.")
@click.option("--dry-run", is_flag=True, help="List the cases that would get rubrics, without calling a model.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the changed suite instead of writing it.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as a JSON object.")
def command(file: str, target: str | None, config: str | None, cases: tuple[str, ...], **flags: bool) -> int:
    """Add rubrics to every case of FILE that has an expected outcome but no rubrics.

    The judge target writes 3 to 6 criteria per case. Comments and formatting of FILE are preserved.

    \b
    Exit codes: 0 done
                2 invalid options or files, nothing was done
                3 rubrics could not be generated for some cases
    """
    if flags["to_stdout"] and flags["as_json"]:
        raise UsageError("--stdout and --json cannot be used together: both print to stdout.")
    cwd = Path.cwd()
    loaded = Loaded(cwd, config)
    if Path(file).is_dir() or len(suites := loaded.suites([file])) != 1:
        raise UsageError(f"{file} is not a single suite file.", next_step="Pass the path of one suite.")
    suite = suites[0]
    text = SuiteFile.read(cwd / file)
    outcomes = _select(suite, text, cases)
    if any(each.status == "pending" for each in outcomes) and not flags["dry_run"]:
        targets = loaded.config(suite.directory)
        if targets is None:
            raise no_config_error("`agentv generate rubrics` needs a judge target", suite.directory)
        spec = _writer(targets, suite, target)
        if not flags["to_stdout"]:
            text.refuse_read_only()
        outcomes = asyncio.run(_generate(outcomes, suite, spec, targets))
        outcomes, new = _insert(text, outcomes)
        if flags["to_stdout"]:
            click.echo(new, nl=False)
        elif new != text.text:
            text.replace_with(new, EvaluatorReader())
    code = 3 if any(each.status == "failed" for each in outcomes) else 0
    _print_outcomes(outcomes, file, code, flags)
    return code


def _select(suite: EvalSuite, text: SuiteFile, globs: Sequence[str]) -> list[Outcome]:
    """An outcome for every selected case: `pending`, or `skipped` with the reason."""
    for glob in globs:
        if not any(fnmatchcase(case_id, glob) for case_id in suite.ids):
            raise no_such_case(glob, suite.ids)
    outcomes: list[Outcome] = []
    for case in suite.cases():
        if not globs or any(fnmatchcase(case.id, glob) for glob in globs):
            reason_to_skip = _skip_reason(case, text)
            outcomes.append(Outcome(case.id, "pending" if reason_to_skip is None else "skipped", reason_to_skip))
    return outcomes


def _skip_reason(case: EvalCase, text: SuiteFile) -> str | None:
    if case.rubrics:
        return "already has rubrics"
    if not (case.expected_outcome or "").strip():
        return "has no expected_outcome"
    if any(evaluator.name == RUBRICS for evaluator in case.evaluators):
        return f"already has an evaluator named `{RUBRICS}`, which generated rubrics would duplicate"
    return text.obstacle(case.id)


def _writer(config: TargetsConfig, suite: EvalSuite, option: str | None) -> TargetSpec:
    """The target that writes the rubrics: the judge target, chosen as in a run."""
    name = JudgeChoice.without_answers(config, suite=suite, option=option).resolve()
    if name is None or name == NO_JUDGE:
        raise UsageError("No judge target is configured.", next_step=SET_JUDGE)
    return config.find(name, asked_by="--target" if option is not None else "the judge target")


async def _generate(
    outcomes: Sequence[Outcome], suite: EvalSuite, spec: TargetSpec, config: TargetsConfig
) -> list[Outcome]:
    secrets = Secrets.of([config], [config.environment])
    redactor = Redactor(secrets.values)
    cases = {case.id: case for case in suite.cases()}
    async with TargetPool(secrets) as pool:
        try:
            gate = pool.gate(spec, config.environment)
        except TargetUnavailableError as error:
            raise UsageError(redactor.text(error.message), next_step=SET_JUDGE) from None

        async def one(outcome: Outcome) -> Outcome:
            if outcome.status != "pending":
                return outcome
            try:
                rubrics = await ask_for_rubrics(gate, cases[outcome.id], suite.directory, redactor)
            except AgentVError as error:
                return replace(outcome, status="failed", reason=" ".join(str(error).split()))
            return replace(outcome, status="added", rubrics=tuple(redactor.value(item) for item in rubrics))

        return list(await asyncio.gather(*map(one, outcomes)))


def _insert(text: SuiteFile, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], str]:
    """The outcomes and the new text. Cases whose rubrics could not be inserted are changed to `failed`."""
    added = {each.id: each.rubrics for each in outcomes if each.status == "added"}
    new, problems = text.with_rubrics(added)
    updated = [
        replace(each, status="failed", reason=problems[each.id], rubrics=()) if each.id in problems else each
        for each in outcomes
    ]
    return updated, new


def _print_outcomes(outcomes: Sequence[Outcome], file: str, code: int, flags: Mapping[str, bool]) -> None:
    counts = {status: sum(each.status == status for each in outcomes) for status in ("added", "skipped", "failed")}
    if flags["as_json"]:
        pending = [each.id for each in outcomes if each.status == "pending"]
        written = bool(counts["added"]) and not flags["dry_run"]
        summary = {"file": file, "written": written, **counts, "would_ask": pending, "exit_code": code}
        click.echo(json.dumps({**summary, "cases": [each.to_dict() for each in outcomes]}, indent=2))
        return
    for each in outcomes:
        click.echo(clean_lines(f"{each.id}: {_describe(each)}"), err=flags["to_stdout"])
    if flags["dry_run"]:
        closing = "Dry run: no model was called and no file was changed."
    elif flags["to_stdout"] or not counts["added"]:
        closing = f"{file} was not changed."
    else:
        closing = f"Added rubrics to {plural(counts['added'], 'case')} of {file}. Review them before you rely on them."
    click.echo(f"\n{closing}", err=flags["to_stdout"])


def _describe(outcome: Outcome) -> str:
    if outcome.status == "added":
        lines = [f"  {item['id']}: {item['description']}" for item in outcome.rubrics]
        return "\n".join([plural(len(outcome.rubrics), "rubric"), *lines])
    if outcome.status == "pending":
        return "would get rubrics"
    return f"{outcome.status}: {outcome.reason}"
