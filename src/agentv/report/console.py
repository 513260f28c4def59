"""The summary printed at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from agentv.messages import TokenUsage
from agentv.report.format import format_cost, format_duration, format_score, format_tokens
from agentv.report.summary import Counts, ErrorGroup, EvaluatorCounts, Summary, WorstCase, headline, remarks
from agentv.report.terminal import INDENT, Look, columns, render_table
from agentv.report.trials import FlakyCase
from agentv.report.variant_table import Variants, in_words
from agentv.results import Verdict
from agentv.text import plural

GROUPS_SHOWN = 12
LEAST_WIDTH = 40

VERDICT_STYLE = {Verdict.PASS: "green", Verdict.BORDERLINE: "yellow", Verdict.FAIL: "red"}
ERROR_STYLE = "magenta"

WIDEST_VARIANT = 20
NARROWEST_CASE = 20
"""Room for the names of cases in the table of variants."""
Group = TypeVar("Group", Counts, EvaluatorCounts)

SCRIPTED = "scripted model: these results come from the mock provider, not from a real model"
_SCRIPTED_PARTS = {
    "target": "scripted target: the answers come from the mock provider, not from a real model",
    "judge": "scripted judge: the grades come from the mock provider, not from a real model",
}


def scripted_label(summary: Summary) -> str:
    """Which part of the results a mock produced."""
    return _SCRIPTED_PARTS.get(summary.scripted_part, SCRIPTED)


def render_summary(
    summary: Summary,
    *,
    run_dir: str,
    resume_hint: str | None,
    retry_hint: str | None = None,
    show_hint: str | None = None,
    interrupted: bool,
    color: bool,
    width: int,
    unicode: bool,
) -> str:
    """The summary as text, without a trailing newline."""
    look = Look(color=color, width=max(width, LEAST_WIDTH), unicode=unicode)
    sections = [
        _headline(summary, interrupted, look),
        _totals(summary, look),
        _breakdown("Targets" if summary.by_variant is None else "Variants", summary.columns, look),
        _variants(summary, look),
        _breakdown("Suites", summary.by_suite, look),
        _evaluators(summary.by_evaluator, look),
        _worst(summary, look),
        _flaky(summary, look),
        _errors(summary, run_dir, look),
        _footer(
            summary,
            run_dir,
            {
                "Resume": resume_hint if interrupted or summary.errors or summary.not_run else None,
                "Retry": retry_hint if summary.errors else None,
                "Show": show_hint,
            },
            look,
        ),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _headline(summary: Summary, interrupted: bool, look: Look) -> list[str]:
    text = headline(summary)
    if interrupted:
        everything = plural(summary.total, summary.noun)
        tail = f": {text.replace(f' of {everything}', '')}" if summary.exit_code else ""
        return _bold(f"! interrupted after {everything}{tail}", "yellow", look)
    if summary.borderline or summary.failed:
        return _bold(f"{look.mark('✗', 'x')} {text}", "red", look)
    if summary.exit_code:
        return _bold(f"! {text}", ERROR_STYLE, look)
    if not summary.total:
        return _bold(f"! {text}", "yellow", look)
    return _bold(f"{look.mark('✓', '+')} {text}", "green", look)


def _bold(text: str, style: str, look: Look) -> list[str]:
    first, *others = look.wrap(text, look.width - len(INDENT), most=4)
    return [look.style(line, "bold", style) for line in (first, *(INDENT + other for other in others))]


def _totals(summary: Summary, look: Look) -> list[str]:
    counts = [
        (summary.passed, "passed", "green"),
        (summary.borderline, "borderline", "yellow"),
        (summary.failed, "failed", "red"),
        (summary.errors, "error" if summary.errors == 1 else "errors", ERROR_STYLE),
        (summary.not_run, "not run", "yellow"),
        (summary.incomplete, "incomplete", "yellow"),
        (summary.flaky, "flaky", "yellow"),
    ]
    shown = [("", f"{count:,} {word}", style) for count, word, style in counts if count]
    if summary.mean_score is not None:
        shown.append(("mean score ", format_score(summary.mean_score), "bold"))
    if shown and summary.duration_seconds is not None:
        shown.append(("", format_duration(summary.duration_seconds), "dim"))
    lines = _side_by_side(shown, look)
    for parts in repeats_in_words(summary):
        lines += _side_by_side([("", text, "dim") for text in parts], look)
    for remark in remarks(summary):
        lines += [INDENT + line for line in look.wrap(remark, look.width - len(INDENT), most=2)]
    if summary.scripted:
        room = look.width - len(INDENT)
        label = scripted_label(summary)
        parts = [label] if columns(label) <= room else label.replace(", ", ",\n").split("\n")
        wrapped = [line for part in parts for line in look.wrap(part, room, most=2)]
        lines.extend(INDENT + look.style(line, "yellow") for line in wrapped)
    for note in summary.notes:
        wrapped = look.wrap(look.text(note), look.width - len(INDENT), most=3)
        lines.extend(INDENT + look.style(line, "yellow") for line in wrapped)
    return lines


def repeats_in_words(summary: Summary) -> list[list[str]]:
    """Lines of facts about the attempts of cases; empty if every case has one attempt."""
    repeats = summary.repeats
    if repeats is None:
        return []
    attempts = [f"{plural(summary.attempts, 'attempt')}, pass if {' or '.join(repeats.pass_if)}"]
    if summary.errored_attempts:
        attempts.append(f"{plural(summary.errored_attempts, 'attempt')} errored")
    if repeats.spread is not None:
        attempts.append(f"spread {repeats.spread:.2f}")
    if repeats.stop_early:
        return [attempts, ["pass@k and pass^k are not computed with stop_early"]]
    estimates = []
    for name, estimate in zip(("pass@", "pass^"), repeats.at_count or (), strict=False):
        low, high = (f"{bound:.2f}" for bound in estimate.interval)
        fewer = f" of {plural(estimate.cases, 'case')}" if estimate.cases < repeats.cases else ""
        estimates.append(f"{name}{repeats.count} {estimate.value:.2f} ({low} to {high}){fewer}")
    return [attempts, estimates]


def _side_by_side(parts: Sequence[tuple[str, str, str]], look: Look) -> list[str]:
    """Lines of parts (label, text, style of the text), with as many parts per line as fit the terminal."""
    lines: list[str] = []
    left = 0
    for label, text, style in parts:
        taken, shown = columns(label + text), label + look.style(text, style)
        if taken + 3 <= left:
            lines[-1] += "   " + shown
            left -= taken + 3
        else:
            lines.append(INDENT + shown)
            left = look.width - len(INDENT) - taken
    return lines


def _title(text: str, look: Look) -> str:
    return INDENT + look.style(text, "bold")


def _number(count: int) -> str:
    return f"{count:,}" if count else "-"


def _breakdown(title: str, groups: Mapping[str, Counts], look: Look) -> list[str]:
    if len(groups) < 2:
        return []
    shown = _lowest(groups)
    rows = [
        (
            look.text(name),
            f"{counts.passed:,}/{counts.total:,}",
            _number(counts.borderline),
            _number(counts.failed),
            _number(counts.errors),
            format_score(counts.mean_score),
        )
        for name, counts in shown.items()
    ]
    header = (title, "passed", "borderline", "failed", "errors", "mean")
    styles = (None, "green", "yellow", "red", ERROR_STYLE, None)
    return [*render_table(header, rows, [styles] * len(rows), look), *_more(len(groups) - len(shown), look)]


def _variants(summary: Summary, look: Look) -> list[str]:
    return [] if summary.variants is None else variant_lines(summary.variants, look)


def variant_lines(variants: Variants, look: Look) -> list[str]:
    """The scores of the cases with each variant, and which variant is best."""
    shown, names, legend = _variant_columns(variants, look)
    header = ("Case", *names)
    rows = [("mean score", *(format_score(variants.means[index]) for index in shown))]
    rows += [(look.text(case.eval_id), *(format_score(case.scores[index]) for index in shown))
             for case in variants.cases]  # fmt: skip
    bold = [tuple("bold" if case.scores[index] == max(known) else None for index in shown)
            if (known := [score for score in case.scores if score is not None]) and case.spread
            else (None,) * len(shown)
            for case in variants.cases]  # fmt: skip
    lines = legend + render_table(header, rows, [("bold",) * len(header), *((None, *styles) for styles in bold)], look)
    more = [INDENT + look.style(f"and {variants.more_cases:,} more cases in results.jsonl", "dim")]
    more = more if variants.more_cases else []
    style = "green" if variants.is_clear else "yellow"
    sentence = look.wrap(look.text(in_words(variants)), look.width - len(INDENT), most=3)
    return [*lines, *more, "", *(INDENT + look.style(line, style) for line in sentence)]


def _variant_columns(variants: Variants, look: Look) -> tuple[list[int], list[str], list[str]]:
    """The variants that have a column, the names of these columns, and the lines that explain the names.

    If the names do not fit into the line, or would look the same, columns have numbers. If there is not enough room for
    all of them, the variants with the highest mean scores are shown.
    """
    names = [look.cut(look.text(name), WIDEST_VARIANT) for name in variants.names]
    shown = list(range(len(names)))
    room = look.width - len(INDENT) - NARROWEST_CASE
    needed = sum(max(columns(name), len("0.00")) + len("  ") for name in names)
    if needed <= room and len(set(names)) == len(names):
        return shown, names, []
    fitting = max(2, room // len("  0.00"))
    best = sorted(shown, key=lambda index: -(variants.means[index] or 0.0))[:fitting]
    shown = sorted(best)
    lines = [f"{index + 1:>2}  {look.text(variants.names[index])}" for index in shown]
    legend = [INDENT + look.cut(line, look.width - len(INDENT)) for line in lines]
    if left := len(names) - len(shown):
        legend.append(INDENT + look.style(f"and {left:,} more with the same or a lower mean (see run.json)", "dim"))
    return shown, [str(index + 1) for index in shown], [*legend, ""]


def _evaluators(groups: Mapping[str, EvaluatorCounts], look: Look) -> list[str]:
    if len(groups) < 2:
        return []
    shown = _lowest(groups)
    rows = [
        (look.text(name), format_score(counts.mean_score), _number(counts.judged), _number(counts.errors))
        for name, counts in shown.items()
    ]
    styles = (None, None, "dim", ERROR_STYLE)
    table = render_table(("Evaluators", "mean", "judged", "errors"), rows, [styles] * len(rows), look)
    return [*table, *_more(len(groups) - len(shown), look)]


def _lowest(groups: Mapping[str, Group]) -> dict[str, Group]:
    """All groups, sorted by name; if there are many, only those with the lowest mean scores."""
    if len(groups) <= GROUPS_SHOWN:
        return dict(groups)
    order = sorted(groups.items(), key=lambda item: (item[1].mean_score or 0.0, item[0]))
    return dict(order[:GROUPS_SHOWN])


def _more(count: int, look: Look) -> list[str]:
    text = f"and {count:,} more with the same or a higher mean (see run.json)"
    return [INDENT + look.style(text, "dim")] if count > 0 else []


def _worst(summary: Summary, look: Look) -> list[str]:
    if not summary.worst:
        return []
    lines = [_title("Worst cases" if len(summary.worst) > 1 else "Worst case", look)]
    for case in summary.worst:
        style = VERDICT_STYLE[case.verdict]
        label = look.style(f"{format_score(case.score)}  {case.verdict.value:<10}", style)
        room = look.width - len(INDENT) - len("0.00  borderline  ")
        name, where = look.text(case.eval_id), _where(case, summary, look)
        where = look.cut(where, max(room // 2, room - columns(name)))
        name = look.cut(name, room - columns(where))
        lines.append(f"{INDENT}{label}  {name}{look.style(where, 'dim')}")
        lines += [f"{INDENT}      {look.style(line, 'dim')}" for line in _evidence(case, summary, look)]
    left = summary.borderline + summary.failed - len(summary.worst)
    if left > 0:
        lines.append(INDENT + look.style(f"and {left:,} more in results.jsonl", "dim"))
    return lines


def _flaky(summary: Summary, look: Look) -> list[str]:
    """The flaky cases that passed; those that did not pass are among the worst cases."""
    cases = summary.repeats.flaky if summary.repeats is not None else ()
    if not cases:
        return []
    lines = [_title("Passed, but flaky", look)]
    for case in cases:
        label = f"{format_score(case.score)}  {f'{case.passes}/{case.attempts} flaky':<10}"
        room = look.width - len(INDENT) - len("0.00  borderline  ")
        name, where = look.text(case.eval_id), _where(case, summary, look)
        where = look.cut(where, max(room // 2, room - columns(name)))
        lines.append(
            f"{INDENT}{look.style(label, 'yellow')}  {look.cut(name, room - columns(where))}{look.style(where, 'dim')}"
        )
    return lines


def _evidence(case: WorstCase, summary: Summary, look: Look) -> list[str]:
    """What was asked and answered, and the reason that cost the most score."""
    room = look.width - len(INDENT) - 6
    question = [] if case.question is None else look.wrap(f"question: {look.text(case.question)}", room, most=2)
    answer = look.wrap(f"answer: {look.text(case.answer) or '(empty)'}", room, most=2)
    return [*question, *answer, _reason(case, summary, look)]


def _where(case: WorstCase | FlakyCase, summary: Summary, look: Look) -> str:
    """The target and the suite of a case, each only if the run has more than one, after the results of its attempts."""
    parts = []
    if isinstance(case, WorstCase) and case.attempts is not None:
        parts.append(f"{case.passes}/{case.attempts}{' flaky' if case.passes else ''}")
    if len(summary.columns) > 1:
        parts.append(look.text(case.target))
    if len(summary.by_suite) > 1:
        parts.append(look.text(case.suite))
    return f"  ({', '.join(parts)})" if parts else ""


def _reason(case: WorstCase, summary: Summary, look: Look) -> str:
    reason = look.text(case.reason) or "no reason given"
    if case.evaluator and len(summary.by_evaluator) > 1:
        reason = f"{look.text(case.evaluator)}: {reason}"
    return look.cut(reason, look.width - len(INDENT) - 6, at_word=True)


def _errors(summary: Summary, run_dir: str, look: Look) -> list[str]:
    if not summary.error_groups:
        return []
    lines = [_title("Errors", look)]
    for group in summary.error_groups:
        lines += _error_group(group, look)
    left = summary.errored_attempts - sum(group.count for group in summary.error_groups)
    if left > 0:
        lines.append(INDENT + look.style(f"and {left:,} more with other messages in results.jsonl", "dim"))
    if any(group.stage == "evaluator" for group in summary.error_groups):
        cause = "the judge works" if summary.judge_failed_calls else "the evaluator is fixed"
        advice = f"The answers were saved. Once {cause}, grade them again without calling the target:"
        lines += ["", *(INDENT + line for line in look.wrap(advice, look.width - len(INDENT), most=4))]
        lines.append(f"{INDENT}agentv eval SUITE --outputs {look.text(run_dir)}")
    return lines


def _error_group(group: ErrorGroup, look: Look) -> list[str]:
    label = f"{group.count:,}x  "
    edge = " " * columns(label)
    room = look.width - len(INDENT) - len(edge)
    message_lines = [look.text(line) for line in group.message.splitlines()]
    wrapped = look.wrap(" ".join(line for line in message_lines if line), room, most=5)
    example = "in " if group.count == 1 else "first in "
    where = look.style(f"{group.stage} error, {example}", "dim") + look.text(group.eval_id)
    return [
        INDENT + look.style(label, ERROR_STYLE) + wrapped[0],
        *(INDENT + edge + line for line in wrapped[1:]),
        INDENT + edge + where,
    ]


def _footer(summary: Summary, run_dir: str, hints: Mapping[str, str | None], look: Look) -> list[str]:
    entries = []
    target = _spend(summary.token_usage, summary.cost_usd, summary.cost_complete)
    if target:
        entries.append(("Target", ", ".join(target)))
    if summary.judge_calls:
        judge = _spend(summary.judge_token_usage, summary.judge_cost_usd, summary.judge_cost_complete)
        failed = summary.judge_failed_calls
        calls = [f"{summary.judge_calls - failed:,} answered", f"{failed:,} failed"] if failed else []
        if summary.judge_calls_from_record:
            calls.append(f"{summary.judge_calls_from_record:,} taken from the record")
        entries.append(("Judge", ", ".join([plural(summary.judge_calls, "call"), *calls, *judge])))
    entries.append(("Run", look.text(run_dir)))
    entries += [(label, look.text(hint)) for label, hint in hints.items() if hint]
    return [f"{INDENT}{look.style(f'{label:<6}', 'dim')}  {text}" for label, text in entries]


def _spend(usage: TokenUsage | None, cost_usd: float | None, complete: bool) -> list[str]:
    parts = []
    if usage is not None:
        parts.append(format_tokens(usage))
    if cost_usd is not None:
        parts.append(format_cost(cost_usd) if complete else f"at least {format_cost(cost_usd)}")
    return parts
