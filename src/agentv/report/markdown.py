"""Markdown for pull requests and job summaries. Text from rows is always escaped and rendered as code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agentv.report.compare import Comparison, Decision, Outcome, Pair, format_delta
from agentv.report.comparison_numbers import Numbers, comparison_headline, explained, format_p
from agentv.report.console import repeats_in_words, scripted_label
from agentv.report.format import format_cost, format_duration, format_score
from agentv.report.summary import Counts, Summary, WorstCase, headline
from agentv.report.terminal import clean
from agentv.report.variant_table import Variants, in_words
from agentv.results import CaseKey

_SPECIAL = re.compile(r"[&<>|\\`*_\[\]~@#:$]|(?<=www)\.", re.IGNORECASE)
_LONGEST = 400
_ANSWER = 1_500
_SHOWN = 10


def as_code(text: str, most: int = _LONGEST) -> str:
    """Untrusted text as inline code on one line; it cannot create markup, links, mentions or table cells.

    Special characters are written as numeric entities, and no site looks for mentions and links inside `<code>`.
    """
    line = clean(text)
    line = line if len(line) <= most else line[: most - 1] + "…"
    return f"<code>{_SPECIAL.sub(lambda match: f'&#{ord(match[0])};', line) or '-'}</code>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; all columns except the first are right-aligned."""
    border = [":---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in (header, border, *rows)]


# -- one run


def render_markdown(summary: Summary, *, name: str, notes: Sequence[str] = ()) -> str:
    """The summary of a run: totals, breakdowns by target, suite and evaluator, worst cases and errors."""
    sections = [
        [f"## agentv: {headline(summary)}"],
        [f"> {scripted_label(summary)}"] if summary.scripted else [],
        [f"> {as_code(note)}" for note in summary.notes],
        [f"> {note}" for note in notes],
        _totals(summary),
        ["; ".join(fact for facts in repeats_in_words(summary) for fact in facts) + "."] if summary.repeats else [],
        _groups("target" if summary.by_variant is None else "variant", summary.columns),
        _variants(summary),
        _groups("suite", summary.by_suite),
        _evaluators(summary),
        _worst(summary),
        _flaky(summary),
        _errors(summary),
        [f"Run {as_code(name)}"],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


_COUNTS = ("passed", "borderline", "failed", "errors", "mean score")


def _counted(counts: Counts | Summary) -> list[str]:
    numbers = (counts.passed, counts.borderline, counts.failed, counts.errors)
    return [*(f"{number:,}" for number in numbers), format_score(counts.mean_score)]


def _totals(summary: Summary) -> list[str]:
    header, cells = ["results", *_COUNTS], [f"{summary.total:,}", *_counted(summary)]
    if summary.repeats is not None:
        header.append("flaky")
        cells.append(f"{summary.flaky:,}")
    if summary.cost_usd is not None:
        header.append("cost")
        cells.append(format_cost(summary.cost_usd) if summary.cost_complete else f"≥ {format_cost(summary.cost_usd)}")
    if summary.judge_calls:
        header.append("judge calls")
        failed = f" ({summary.judge_failed_calls:,} failed)" if summary.judge_failed_calls else ""
        cells.append(f"{summary.judge_calls:,}{failed}")
    if summary.duration_seconds is not None:
        header.append("time")
        cells.append(format_duration(summary.duration_seconds))
    return table(header, [cells])


def _groups(word: str, groups: Mapping[str, Counts]) -> list[str]:
    if len(groups) < 2:
        return []
    rows = [(as_code(name), f"{counts.total:,}", *_counted(counts)) for name, counts in groups.items()]
    return table((word, "results", *_COUNTS), rows)


def _variants(summary: Summary) -> list[str]:
    return [] if summary.variants is None else variants_markdown(summary.variants)


def variants_markdown(variants: Variants) -> list[str]:
    """The scores of the cases with each variant, and which variant is best."""
    header = ("case", *(as_code(name) for name in variants.names))
    rows = [("mean score", *map(format_score, variants.means))]
    rows += [(as_code(case.eval_id), *map(format_score, case.scores)) for case in variants.cases]
    more = [f"and {variants.more_cases:,} more cases in `results.jsonl`", ""] if variants.more_cases else []
    return [*table(header, rows), "", *more, clean(in_words(variants))]


def _evaluators(summary: Summary) -> list[str]:
    if len(summary.by_evaluator) < 2:
        return []
    rows = [
        (as_code(name), format_score(counts.mean_score), f"{counts.judged:,}", f"{counts.errors:,}")
        for name, counts in summary.by_evaluator.items()
    ]
    return table(("evaluator", "mean score", "judged", "errors"), rows)


def _worst(summary: Summary) -> list[str]:
    if not summary.worst:
        return []
    lines = ["### Worst cases", "", "| case | score | verdict | why |", "| :--- | ---: | :--- | :--- |"]
    for case in summary.worst:
        why = as_code(case.reason) if clean(case.reason) else "no reason given"
        evaluator = f"{as_code(case.evaluator)}: " if case.evaluator else ""
        lines.append(
            f"| {_named(case, summary)} | {format_score(case.score)} | {case.verdict.value} | {evaluator}{why} |"
        )
    left = summary.borderline + summary.failed - len(summary.worst)
    if left > 0:
        lines += ["", f"and {left:,} more in `results.jsonl`"]
    return [*lines, "", *_answers(summary)]


def _flaky(summary: Summary) -> list[str]:
    cases = summary.repeats.flaky if summary.repeats is not None else ()
    if not cases:
        return []
    target = len(summary.columns) > 1
    rows = [
        (
            as_code(case.eval_id) + (f" {as_code(case.target)}" if target else ""),
            f"{case.passes}/{case.attempts}",
            format_score(case.score),
        )
        for case in cases
    ]
    return ["### Passed, but flaky", "", *table(("case", "passed", "mean score"), rows)]


def _answers(summary: Summary) -> list[str]:
    """The questions and answers of the worst cases, folded."""
    asked = any(case.question is not None for case in summary.worst)
    several = len(summary.worst) > 1
    words = (
        ("Questions and answers" if asked else "Answers") if several else ("Question and answer" if asked else "Answer")
    )
    lines = [f"<details><summary>{words} of {'these cases' if several else 'this case'}</summary>", ""]
    lines += (
        ["| case | question | answer |", "| :--- | :--- | :--- |"]
        if asked
        else ["| case | answer |", "| :--- | :--- |"]
    )
    for case in summary.worst:
        question = f" {as_code(case.question or '', _ANSWER)} |" if asked else ""
        lines.append(f"| {_named(case, summary)} |{question} {as_code(case.answer, _ANSWER)} |")
    return [*lines, "", "</details>"]


def _named(case: WorstCase, summary: Summary) -> str:
    """The id of a case, with its target if the run has more than one, and how its attempts ended if it has several."""
    name = as_code(case.eval_id)
    if len(summary.columns) > 1:
        name += f" {as_code(case.target)}"
    if case.attempts is None:
        return name
    return f"{name} {case.passes}/{case.attempts}{' flaky' if case.passes else ''}"


def _errors(summary: Summary) -> list[str]:
    if not summary.error_groups:
        return []
    title = f"### Errors ({summary.errored_attempts:,})"
    lines = [title, "", "Errored cases have no score and are not counted as failures.", ""]
    lines += ["| results | stage | message | first in |", "| ---: | :--- | :--- | :--- |"]
    for group in summary.error_groups:
        lines.append(
            f"| {group.count:,} | {as_code(group.stage)} | {as_code(group.message)} | {as_code(group.eval_id)} |"
        )
    left = summary.errored_attempts - sum(group.count for group in summary.error_groups)
    return [*lines, "", f"and {left:,} more with other messages in `results.jsonl`"] if left > 0 else lines


# -- two runs


def render_comparison_markdown(comparison: Comparison, decision: Decision) -> str:
    """The comparison of two runs, for a pull request."""
    sections = [
        [f"## agentv: {comparison_headline(comparison)}"],
        [f"> {note}" for note in comparison.notes()],
        _numbers(comparison),
        _tests(comparison),
        _pairs("Largest regressions", comparison.worst(_SHOWN)),
        _pairs("Largest improvements", comparison.best(_SHOWN)),
        _unjudged(comparison),
        _only("baseline", comparison.only_baseline),
        _only("candidate", comparison.only_candidate),
        ["; also: ".join((f"Exit code {decision.exit_code}: {decision.reasons[0]}", *decision.reasons[1:])) + "."],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _numbers(comparison: Comparison) -> list[str]:
    sides = [as_code(comparison.baseline.label), as_code(comparison.candidate.label)]
    names = f"Baseline {sides[0]}, candidate {sides[1]}"
    numbers = Numbers.of(comparison)
    if numbers is None:
        return [names]
    rates = [f"{rate} ({interval})" for rate, interval in zip(numbers.rates, numbers.rate_intervals, strict=True)]
    header = ("", "baseline", "candidate", "difference", f"{numbers.level} interval")
    rows = [("mean score", *numbers.mean), ("passed", *numbers.passed, ""), ("pass rate", *rates, "", "")]
    return [names, "", *table(header, rows)]


def _tests(comparison: Comparison) -> list[str]:
    if not comparison.pairs:
        return []
    wins, losses, ties = (comparison.count(outcome) for outcome in Outcome)
    newly_passed, newly_failed = comparison.flips
    by = f"{comparison.threshold:g} or more" if comparison.threshold else "any difference"
    sign, mcnemar = format_p(comparison.tested.sign_test_p), format_p(comparison.tested.mcnemar_p)
    lines = [f"- {wins:,} better, {losses:,} worse, {ties:,} tied, by {by}: sign test {sign}"]
    lines.append(f"- {newly_passed:,} newly pass, {newly_failed:,} no longer pass: exact McNemar test {mcnemar}")
    if comparison.meaningful_gain is not None:
        lines.append(f"- normalised gain {comparison.meaningful_gain:+.2f}")
    return lines


def _pairs(title: str, pairs: Sequence[Pair]) -> list[str]:
    if not pairs:
        return []
    lines = [
        f"### {title}",
        "",
        "| case | baseline | candidate | difference | why |",
        "| :--- | ---: | ---: | ---: | :--- |",
    ]
    for pair in pairs:
        why = as_code(explained(pair)) if clean(pair.reason) else "no reason given"
        scores = f"{format_score(pair.score1)} | {format_score(pair.score2)} | {format_delta(pair.delta)}"
        attempts = f" {pair.attempts[0]} → {pair.attempts[1]}" if pair.attempts else ""
        lines.append(f"| {_case(pair.key)}{attempts} | {scores} | {why} |")
    return lines


def _case(key: CaseKey) -> str:
    return f"{as_code(key.eval_id)} {as_code(key.target)}" if key.target else as_code(key.eval_id)


def _unjudged(comparison: Comparison) -> list[str]:
    cases = comparison.unjudged
    if not cases:
        return []
    lines = [f"### Errors ({len(cases):,})", "", "Errors are excluded from the numbers above and are not losses.", ""]
    lines += ["| case | baseline | candidate |", "| :--- | :--- | :--- |"]
    for case in cases[:_SHOWN]:
        errors = [
            as_code(error) if error is not None else "scored" for error in (case.baseline_error, case.candidate_error)
        ]
        lines.append(f"| {_case(case.key)} | {errors[0]} | {errors[1]} |")
    return [*lines, *_more(len(cases))]


def _only(word: str, keys: Sequence[CaseKey]) -> list[str]:
    if not keys:
        return []
    lines = [f"### Only in the {word} ({len(keys):,})", "", *(f"- {_case(key)}" for key in keys[:_SHOWN])]
    return [*lines, *_more(len(keys))]


def _more(count: int) -> list[str]:
    return ["", f"and {count - _SHOWN:,} more"] if count > _SHOWN else []
