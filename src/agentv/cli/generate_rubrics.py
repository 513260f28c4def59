"""`agentv generate rubrics`: a model writes rubrics for the cases of a suite, into the suite's own file."""

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
from agentv.redact import Redactor
from agentv.suite.cases import RUBRICS
from agentv.suite.edit import SuiteFile
from agentv.suite.suite import EvalCase, EvalSuite
from agentv.targets.config import NO_JUDGE, TargetsConfig, TargetSpec, no_config_error
from agentv.targets.pool import TargetPool
from agentv.targets.secrets import Secrets
from agentv.text import did_you_mean, plural

HOW = "Name one with --target, `execution.judge_target` of the suite, or `judge_target` of the configuration."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case."""

    id: str
    status: str
    """`added`, `skipped`, `failed`, or `pending` before anybody was asked."""
    reason: str | None = None
    rubrics: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "status": self.status, "reason": self.reason, "rubrics": list(self.rubrics)}


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--target", "--judge-target", metavar="NAME", help="Who writes them, before every other setting.")
@click.option("--config", metavar="FILE", help="The target configuration, instead of the one found near the suite.")
@click.option("--case", "cases", multiple=True, metavar="GLOB", help="Only cases whose id matches; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only say which cases would get rubrics; nobody is asked.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the new text of the suite instead of writing it.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as one JSON object.")
def command(file: str, target: str | None, config: str | None, cases: tuple[str, ...], **flags: bool) -> int:
    """Write rubrics for every case with an expected outcome and without rubrics, into FILE itself.

    The judge target is asked for 3 to 6 criteria a case. Comments and formatting of the file stay as they are.

    \b
    Exit code: 0 done    3 some case got none    2 nothing could be done
    """
    if flags["to_stdout"] and flags["as_json"]:
        raise UsageError("--stdout and --json both want stdout: use one of them.")
    cwd = Path.cwd()
    loaded = Loaded(cwd, config)
    if Path(file).is_dir() or len(suites := loaded.suites([file])) != 1:
        raise UsageError(f"{file} is not one suite file.", next_step="Name the file of one suite.")
    suite = suites[0]
    text = SuiteFile.read(cwd / file)
    outcomes = _sort_out(suite, text, cases)
    if any(each.status == "pending" for each in outcomes) and not flags["dry_run"]:
        found = loaded.config(suite.directory)
        if found is None:
            raise no_config_error("`agentv generate rubrics` needs a model to ask", suite.directory)
        spec = _writer(found, suite, target)
        if not flags["to_stdout"]:
            text.refuse_read_only()
        outcomes = asyncio.run(_ask(outcomes, suite, spec, found))
        outcomes, new = _put_in(text, outcomes)
        if flags["to_stdout"]:
            click.echo(new, nl=False)
        elif new != text.text:
            text.replace_with(new, EvaluatorReader())
    code = 3 if any(each.status == "failed" for each in outcomes) else 0
    _tell(outcomes, file, code, flags)
    return code


def _sort_out(suite: EvalSuite, text: SuiteFile, globs: Sequence[str]) -> list[Outcome]:
    """Every selected case: to be asked about, or why not."""
    for glob in globs:
        if not any(fnmatchcase(case_id, glob) for case_id in suite.ids):
            raise UsageError(
                f"--case '{glob}' matches none of the {plural(len(suite.ids), 'case')}{did_you_mean(glob, suite.ids)}.",
                next_step="It is matched against whole ids; `*` stands for anything.",
            )
    outcomes: list[Outcome] = []
    for case in suite.cases():
        if not globs or any(fnmatchcase(case.id, glob) for glob in globs):
            why = _why_not(case, text)
            outcomes.append(Outcome(case.id, "pending" if why is None else "skipped", why))
    return outcomes


def _why_not(case: EvalCase, text: SuiteFile) -> str | None:
    if case.rubrics:
        return "it has rubrics"
    if not (case.expected_outcome or "").strip():
        return "it has no expected_outcome"
    if any(evaluator.name == RUBRICS for evaluator in case.evaluators):
        return f"it has an evaluator named `{RUBRICS}`, and `rubrics` would make another"
    return text.obstacle(case.id)


def _writer(config: TargetsConfig, suite: EvalSuite, option: str | None) -> TargetSpec:
    """The target that is asked: the judge, as for a run."""
    name = JudgeChoice.without_answers(config, suite=suite, option=option).resolve()
    if name is None or name == NO_JUDGE:
        raise UsageError("There is no model to ask: nothing names a judge target.", next_step=HOW)
    return config.find(name, asked_by="--target" if option is not None else "the judge target")


async def _ask(outcomes: Sequence[Outcome], suite: EvalSuite, spec: TargetSpec, config: TargetsConfig) -> list[Outcome]:
    secrets = Secrets.of([config], [config.environment])
    redactor = Redactor(secrets.values)
    cases = {case.id: case for case in suite.cases()}
    async with TargetPool(secrets) as pool:
        try:
            gate = pool.gate(spec, config.environment)
        except TargetUnavailableError as error:
            raise UsageError(redactor.text(error.message), next_step=HOW) from None

        async def one(outcome: Outcome) -> Outcome:
            if outcome.status != "pending":
                return outcome
            try:
                rubrics = await ask_for_rubrics(gate, cases[outcome.id], suite.directory, redactor)
            except AgentVError as error:
                return replace(outcome, status="failed", reason=" ".join(str(error).split()))
            return replace(outcome, status="added", rubrics=tuple(redactor.value(item) for item in rubrics))

        return list(await asyncio.gather(*map(one, outcomes)))


def _put_in(text: SuiteFile, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], str]:
    """The new text, and the outcomes with those cases failed that nothing could be written into."""
    added = {each.id: each.rubrics for each in outcomes if each.status == "added"}
    new, problems = text.with_rubrics(added)
    told = [
        replace(each, status="failed", reason=problems[each.id], rubrics=()) if each.id in problems else each
        for each in outcomes
    ]
    return told, new


def _tell(outcomes: Sequence[Outcome], file: str, code: int, flags: Mapping[str, bool]) -> None:
    counts = {status: sum(each.status == status for each in outcomes) for status in ("added", "skipped", "failed")}
    if flags["as_json"]:
        would = [each.id for each in outcomes if each.status == "pending"]
        written = bool(counts["added"]) and not flags["dry_run"]
        summary = {"file": file, "written": written, **counts, "would_ask": would, "exit_code": code}
        click.echo(json.dumps({**summary, "cases": [each.to_dict() for each in outcomes]}, indent=2))
        return
    for each in outcomes:
        click.echo(clean_lines(f"{each.id}: {_words(each)}"), err=flags["to_stdout"])
    if flags["dry_run"]:
        last = "Nobody was asked and nothing was written."
    elif flags["to_stdout"] or not counts["added"]:
        last = f"{file} was not changed."
    else:
        last = f"{plural(counts['added'], 'case')} of {file} changed. Read the rubrics before you rely on them."
    click.echo(f"\n{last}", err=flags["to_stdout"])


def _words(outcome: Outcome) -> str:
    if outcome.status == "added":
        return f"{plural(len(outcome.rubrics), 'rubric')}: {', '.join(item['id'] for item in outcome.rubrics)}"
    if outcome.status == "pending":
        return "would get rubrics"
    return f"{outcome.status}: {outcome.reason}"
