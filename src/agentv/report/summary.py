"""Summarise the rows of a run: counts, mean scores, worst cases, errors, cost and the exit code.

The attempts of a case with one target count once, with one verdict (`agentv.trials`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from agentv.codec import OMIT_DEFAULT, encode
from agentv.messages import TokenUsage
from agentv.report.accumulate import WORST_KEPT, ErrorMessages, ExactSum, RunSpend, Tally, Worst
from agentv.report.labels import replayed_id
from agentv.report.trials import RepeatedCases, Repeats
from agentv.report.variant_table import Variants, variant_order
from agentv.results import CUT_OFF, CaseKey, CaseResult, Verdict
from agentv.text import plural
from agentv.trials import Attempts

if TYPE_CHECKING:
    from agentv.report.variants import VariantScores

ERROR_GROUPS = 5
_ATTEMPTS_KEPT = 1000
"""The lowest-scoring attempts among which the worst repeated cases are found; their reasons and answers are kept."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Cases by outcome. The mean score excludes errored cases; it is None if no case was scored."""

    total: int
    passed: int
    borderline: int
    failed: int
    errors: int
    mean_score: float | None


@dataclass(frozen=True, slots=True)
class EvaluatorCounts:
    """The results of one evaluator over all rows: how often it judged, how often it errored, its mean score."""

    judged: int
    errors: int
    mean_score: float | None


@dataclass(frozen=True, slots=True)
class WorstCase:
    """A case that did not pass, and why."""

    suite: str
    eval_id: str
    target: str
    attempt: int
    score: float
    verdict: Verdict
    evaluator: str
    """The evaluator that cost the case the most score."""
    reason: str
    answer: str = ""
    """The beginning of the answer."""
    passes: Annotated[int | None, OMIT_DEFAULT] = None
    """For a case with several attempts: how many passed. `attempt` is then the attempt with the lowest score, and
    `score` the mean score."""
    attempts: Annotated[int | None, OMIT_DEFAULT] = None
    """For a case with several attempts: how many were run."""
    question: Annotated[str | None, OMIT_DEFAULT] = None
    """The beginning of what was asked; None if the run was recorded without its cases."""


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """An error message, the number of rows with it, and the first of them."""

    stage: str
    message: str
    count: int
    eval_id: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run. `total` and the counts by outcome are numbers of cases, once for each target."""

    total: int
    passed: int
    borderline: int
    failed: int
    errors: int
    mean_score: float | None
    mean_interval: tuple[float, float] | None = None
    """The 95% confidence interval of the mean score; None for fewer than two scored cases."""
    not_run: int = 0
    """Cases that were not run because the budget was used up."""
    why_not_run: str | None = None
    missing_shards: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    """For a merged run: the shards that are missing or incomplete."""
    not_called: int = 0
    """Errored rows whose target was not called, because it was declared down."""
    cut_off: int = 0
    """Rows whose answer ended at the token limit of the target."""
    scripted: bool = False
    """Whether the target or the judge is a scripted model of the mock provider."""
    scripted_part: Annotated[str, OMIT_DEFAULT] = ""
    """`target` or `judge` if only that one is scripted."""
    replayed: Annotated[str | None, OMIT_DEFAULT] = None
    """The id of the run whose record answered for targets and judges."""
    notes: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    """What to know about all results, such as who graded them."""
    attempts: int = 0
    """The number of rows: attempts of cases."""
    flaky: int = 0
    """Cases of which some attempts passed and others did not."""
    incomplete: int = 0
    """Cases that lack attempts without which they have no verdict. They are not part of `total`."""
    errored_attempts: int = 0
    """Errored rows. With several attempts, a case does not count as errored if the others decide its verdict."""
    repeats: Annotated[Repeats | None, OMIT_DEFAULT] = None
    """Statistics over cases with several attempts."""
    by_target: Mapping[str, Counts] = field(default_factory=dict)
    by_prompt: Annotated[Mapping[str, Counts] | None, OMIT_DEFAULT] = None
    """If the run has prompts."""
    by_variant: Annotated[Mapping[str, Counts] | None, OMIT_DEFAULT] = None
    """If the run has prompts: by target and prompt."""
    variants: Annotated[Variants | None, OMIT_DEFAULT] = None
    """If the run has prompts: the cases with each variant, and which variant is best."""
    by_suite: Mapping[str, Counts] = field(default_factory=dict)
    by_evaluator: Mapping[str, EvaluatorCounts] = field(default_factory=dict)
    worst: tuple[WorstCase, ...] = ()
    error_groups: tuple[ErrorGroup, ...] = ()
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    cost_complete: bool = True
    """False if the price of any target call is unknown, so that `cost_usd` is a lower bound."""
    judge_calls: int = 0
    judge_failed_calls: int = 0
    """Judge calls that got no answer. They are part of `judge_calls`."""
    judge_calls_from_record: int = 0
    """Judge calls that were answered by the record of the run when it was resumed. They are part of `judge_calls`."""
    judge_token_usage: TokenUsage | None = None
    judge_cost_usd: float | None = None
    judge_cost_complete: bool = True
    duration_seconds: float | None = None
    not_computed: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    """Parts of the summary that could not be computed, with the type of the exception."""

    @property
    def exit_code(self) -> int:
        """3 if any case errored, was not run or is incomplete, else 1 if any case did not pass, else 0.

        Also 3 if a merged run lacks shards.
        """
        if self.errors or self.not_run or self.incomplete or self.missing_shards:
            return 3
        return 1 if self.borderline or self.failed else 0

    @property
    def noun(self) -> str:
        """The word for what is counted: "case", or "result" if cases have several targets."""
        return "case" if len(self.columns) < 2 else "result"

    @property
    def columns(self) -> Mapping[str, Counts]:
        """The counts of each variant: by target or, with prompts, by target and prompt."""
        return self.by_target if self.by_variant is None else self.by_variant

    def to_dict(self) -> dict[str, Any]:
        return encode(self)


def headline(summary: Summary) -> str:
    """The outcome of a run in one line."""
    everything = plural(summary.total, summary.noun)
    missed = summary.borderline + summary.failed
    parts = []
    if missed:
        parts.append(f"{missed:,} of {everything} did not pass")
    if summary.errors:
        parts.append(f"{summary.errors:,} {'' if missed else f'of {everything} '}errored")
    if summary.not_run:
        parts.append(f"{plural(summary.not_run, summary.noun)} not run")
    if summary.incomplete:
        parts.append(f"{plural(summary.incomplete, summary.noun)} incomplete")
    if summary.missing_shards:
        parts.append(f"{plural(len(summary.missing_shards), 'shard')} missing or incomplete")
    if parts:
        return ", ".join(parts)
    if not summary.total:
        return "no cases were run"
    return f"{'' if summary.total == 1 else 'all '}{everything} passed"


def remarks(summary: Summary) -> list[str]:
    """What else to know about a run besides its counts, in sentences."""
    lines = [f"budget: {summary.why_not_run}"] if summary.why_not_run else []
    if summary.missing_shards:
        lines.append(f"missing or incomplete: shard {', '.join(summary.missing_shards)}")
    if summary.not_called:
        lines.append(f"{plural(summary.not_called, summary.noun)} not called: target down")
    if summary.cut_off:
        answers = plural(summary.cut_off, "answer")
        lines.append(f"{answers} cut off at the token limit: see `max_output_tokens` of the target")
    if summary.not_computed:
        lines.append(f"not computed, due to a bug in agentv: {', '.join(summary.not_computed)}")
    return lines


class SummaryBuilder:
    """Builds a `Summary` from rows in any order.

    Memory grows with the number of names and of cases with several attempts, not with the number of rows.
    """

    def __init__(
        self,
        *,
        scripted: bool = False,
        scripted_part: str = "",
        replayed: str | None = None,
        notes: tuple[str, ...] = (),
        repeated: RepeatedCases | None = None,
        manifest: Mapping[str, Any] | None = None,
    ) -> None:
        self.manifest = manifest or {}
        self.replayed = replayed
        self.scripted = scripted
        self.scripted_part = scripted_part
        self.notes = notes
        self._attempts = self._errored_attempts = 0
        self._repeated = repeated or RepeatedCases()
        self._single = Tally(spread=True)
        self._targets: defaultdict[str, Tally] = defaultdict(Tally)
        self._suites: defaultdict[str, Tally] = defaultdict(Tally)
        self._prompts: defaultdict[str, Tally] = defaultdict(Tally)
        self._variants: defaultdict[str, Tally] = defaultdict(Tally)
        self._parts: dict[str, tuple[str, str]] = {}
        """The target and the prompt of each variant."""
        self._variant_scores: VariantScores | None = None
        self._evaluators: defaultdict[str, ExactSum] = defaultdict(ExactSum)
        self._evaluator_errors: defaultdict[str, int] = defaultdict(int)
        self._worst = Worst()
        self._worst_attempts = Worst(_ATTEMPTS_KEPT)
        self._errors = ErrorMessages()
        self._spend = RunSpend()
        self.not_run = 0
        self._not_computed: dict[str, str] = {}
        self._not_called = 0
        self._cut_off = 0
        self.why_not_run: str | None = None
        self.missing_shards = _missing_shards(self.manifest)

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> SummaryBuilder:
        """A builder for the run with this `run.json`."""
        notes, part = manifest.get("summary_notes"), manifest.get("scripted_part")
        return cls(
            scripted=manifest.get("scripted") is True,
            scripted_part=part if isinstance(part, str) else "",
            replayed=replayed_id(manifest),
            notes=tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else (),
            repeated=RepeatedCases.of(manifest),
            manifest=manifest,
        )

    def add(self, row: CaseResult) -> None:
        # The exit code depends on these counts alone.
        self._attempts += 1
        self._errored_attempts += row.error is not None
        several = self._repeated.add(row)
        if not several:
            self._single.add(row)
        try:
            self._add_details(row, several)
        except Exception as error:
            self.could_not("details of a case", error)

    def attempts_of(self, case: CaseKey) -> Attempts | None:
        """The attempts of a case that may have several; None if it has none yet."""
        return self._repeated.cases.get(case)

    def count_not_run(self, rows: int, attempts: Mapping[CaseKey, int]) -> None:
        """Count what the budget did not allow; `attempts` are those of the rows whose case has several attempts.

        A case of which some attempts were run is not counted here: it has a verdict or is incomplete.
        """
        single = rows - sum(attempts.values())
        self.not_run = single + sum(case not in self._repeated.cases for case in attempts)

    def could_not(self, what: str, error: Exception) -> None:
        """Note a part of the summary that could not be computed: a summary never fails a run."""
        self._not_computed.setdefault(what, type(error).__name__)

    def _add_details(self, row: CaseResult, several: bool) -> None:
        tallies = [self._targets[row.target], self._suites[row.suite]]
        if row.prompt is not None:
            tallies += [self._prompts[row.prompt], self._variants[row.variant]]
            self._add_variant(row, row.prompt)
        if several:
            self._worst_attempts.add(row)
        else:
            for tally in tallies:
                tally.add(row)
            self._worst.add(row)
        for result in row.evaluator_results:
            scores = self._evaluators[result.name]
            if result.error is None:
                scores.add(result.score)
            else:
                self._evaluator_errors[result.name] += 1
        if row.error is not None:
            self._errors.add(row.error, row.key)
            self._not_called += row.error.not_called
        reasons = [turn.finish_reason for turn in row.turns] or [row.finish_reason]
        self._cut_off += sum(reason in CUT_OFF for reason in reasons)
        self._spend.add(row)

    def _add_variant(self, row: CaseResult, prompt: str) -> None:
        if self._variant_scores is None:
            from agentv.report.variants import VariantScores  # noqa: PLC0415 - only runs with prompts need it

            self._variant_scores = VariantScores(self.manifest)
        self._parts[row.variant] = (row.target, prompt)
        self._variant_scores.add(row)

    def _compared_variants(self) -> Variants | None:
        scores = self._variant_scores
        return None if scores is None or len(scores) < 2 else scores.compared()

    def _in_order(self, names: Iterable[str], part: int | None = None) -> list[str]:
        """Prompts or variants in the order of the suite."""
        targets, prompts = variant_order(self.manifest)
        order = prompts if part else [f"{target} [{prompt}]" for target in targets for prompt in prompts]
        return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))

    def build(self, *, duration_seconds: float | None = None) -> Summary:
        """The summary; if it cannot be computed, the counts alone."""
        try:
            summary = self._complete(duration_seconds)
        except Exception as error:
            self.could_not("all but the counts", error)
            counted = self._outcomes()
            counts = (counted.total, counted.passed, counted.borderline, counted.failed, counted.errors)
            summary = Summary(
                *counts,
                mean_score=None,
                not_run=self.not_run,
                attempts=self._attempts,
                incomplete=self._incomplete,
                errored_attempts=self._errored_attempts,
                scripted=self.scripted,
                scripted_part=self.scripted_part,
                replayed=self.replayed,
                notes=self.notes,
                missing_shards=self.missing_shards,
                duration_seconds=duration_seconds,
            )
        failed = tuple(f"{what} ({error})" for what, error in self._not_computed.items())
        return replace(summary, not_computed=failed) if failed else summary

    def _outcomes(self) -> Tally:
        """Cases by outcome, each with one verdict."""
        tally = deepcopy(self._single)
        for case in self._repeated.cases.values():
            if not case.is_incomplete:
                tally.count(case.verdict, case.score)
        return tally

    @property
    def _incomplete(self) -> int:
        return sum(case.is_incomplete for case in self._repeated.cases.values())

    def _worst_cases(self) -> list[WorstCase]:
        single = [
            WorstCase(*key, score=score, verdict=verdict, evaluator=evaluator, reason=reason, answer=answer)
            for score, key, verdict, evaluator, reason, answer in self._worst
        ]
        several: dict[CaseKey, WorstCase] = {}
        for score, key, verdict, evaluator, reason, answer in self._worst_attempts:
            case = self._repeated.cases[key.case]
            if key.case in several or case.verdict in (None, Verdict.PASS):
                continue
            worst = WorstCase(*key, score=score, verdict=verdict, evaluator=evaluator, reason=reason, answer=answer)
            if case.count > 1:
                judged = case.verdict or verdict
                worst = replace(
                    worst, score=case.score or 0.0, verdict=judged, passes=case.passes, attempts=case.finished
                )
            several[key.case] = worst
        cases = [*single, *several.values()]
        return sorted(cases, key=lambda case: (case.score, case.suite, case.eval_id, case.target))[:WORST_KEPT]

    def _complete(self, duration_seconds: float | None) -> Summary:
        spend = self._spend
        outcomes = self._outcomes()
        everything = _counts(outcomes)
        targets, suites, prompts, variants = deepcopy((self._targets, self._suites, self._prompts, self._variants))
        for key, case in self._repeated.cases.items():
            if not case.is_incomplete:
                target, prompt = self._parts.get(key.target, (key.target, None))
                for tally in (
                    targets[target],
                    suites[key.suite],
                    *((prompts[prompt], variants[key.target]) if prompt is not None else ()),
                ):
                    tally.count(case.verdict, case.score)
        return Summary(
            total=everything.total,
            passed=everything.passed,
            borderline=everything.borderline,
            failed=everything.failed,
            errors=everything.errors,
            mean_score=everything.mean_score,
            mean_interval=interval_of(outcomes),
            scripted=self.scripted,
            scripted_part=self.scripted_part,
            replayed=self.replayed,
            notes=self.notes,
            attempts=self._attempts,
            flaky=sum(case.is_flaky for case in self._repeated.cases.values()),
            incomplete=self._incomplete,
            errored_attempts=self._errored_attempts,
            repeats=self._repeated.statistics(),
            by_target={name: _counts(tally) for name, tally in sorted(targets.items())},
            by_prompt={name: _counts(prompts[name]) for name in self._in_order(prompts, 1)} or None,
            by_variant={name: _counts(variants[name]) for name in self._in_order(variants)} or None,
            variants=self._compared_variants(),
            by_suite={name: _counts(tally) for name, tally in sorted(suites.items())},
            by_evaluator={
                name: EvaluatorCounts(scores.count, self._evaluator_errors.get(name, 0), scores.mean)
                for name, scores in sorted(self._evaluators.items())
            },
            worst=tuple(self._worst_cases()),
            error_groups=tuple(
                ErrorGroup(stage, message, count, key.eval_id)
                for stage, message, count, key in self._errors.most_frequent(ERROR_GROUPS)
            ),
            token_usage=spend.target.token_usage,
            cost_usd=spend.target.cost_usd,
            cost_complete=spend.target.complete,
            judge_calls=spend.judge_calls,
            judge_failed_calls=spend.judge_failed_calls,
            judge_calls_from_record=spend.judge_calls_from_record,
            judge_token_usage=spend.judge.token_usage,
            judge_cost_usd=spend.judge.cost_usd,
            judge_cost_complete=spend.judge.complete,
            duration_seconds=duration_seconds,
            not_run=self.not_run,
            why_not_run=self.why_not_run,
            missing_shards=self.missing_shards,
            not_called=self._not_called,
            cut_off=self._cut_off,
        )


def _missing_shards(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    merged = manifest.get("merged")
    missing = merged.get("missing") if isinstance(merged, dict) else None
    return tuple(shard for shard in missing if isinstance(shard, str)) if isinstance(missing, list) else ()


def interval_of(tally: Tally) -> tuple[float, float] | None:
    """The 95% confidence interval of the mean score; None for fewer than two scores."""
    average, square = tally.scores.mean, tally.squares.mean if tally.squares is not None else None
    if average is None or square is None or tally.scores.count < 2:
        return None
    from agentv.report.statistics import interval_of_mean  # noqa: PLC0415 - not before the end of a run

    interval = interval_of_mean(average, square, tally.scores.count)
    return None if interval is None else (interval.low, interval.high)


def _counts(tally: Tally) -> Counts:
    return Counts(tally.total, tally.passed, tally.borderline, tally.failed, tally.errors, tally.scores.mean)
