"""The comparison of two runs, printed on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentv.report.compare import Comparison, Conclusion, Decision, Outcome, Pair, Unjudged, format_delta
from agentv.report.comparison_numbers import Numbers, comparison_headline, explained, format_p, percent
from agentv.report.format import format_score
from agentv.report.terminal import INDENT, Look, columns, pad, render_table
from agentv.results import CaseKey
from agentv.text import plural

LEAST_WIDTH = 72
SHOWN = 5

_STYLE = {Conclusion.BETTER: "green", Conclusion.WORSE: "red"}


def render_comparison(comparison: Comparison, decision: Decision, look: Look) -> str:
    """The comparison as text, without a trailing newline."""
    look = Look(color=look.color, width=max(look.width, LEAST_WIDTH), unicode=look.unicode)
    sections = [
        [_headline(comparison, look)],
        _table(comparison, look),
        _tests(comparison, look),
        _cases("Largest regressions", comparison.worst(SHOWN), look),
        _cases("Largest improvements", comparison.best(SHOWN), look),
        _unjudged(comparison.unjudged, look),
        _unmatched(comparison, look),
        [line for note in comparison.notes() for line in _wrapped(f"note: {note}", look, "yellow")],
        _decision(decision, look),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def case_name(key: CaseKey) -> str:
    """The id of a case, followed by its target if cases are paired by target."""
    return f"{key.eval_id} ({key.target})" if key.target else key.eval_id


def _headline(comparison: Comparison, look: Look) -> str:
    marks = {
        Conclusion.BETTER: look.mark("✓", "+"),
        Conclusion.WORSE: look.mark("✗", "x"),
        Conclusion.SAME: "=",
    }
    text = f"{marks.get(comparison.conclusion, '?')} {comparison_headline(comparison)}"
    return look.style(text, "bold", _STYLE.get(comparison.conclusion, "yellow"))


def _table(comparison: Comparison, look: Look) -> list[str]:
    numbers = Numbers.of(comparison)
    if numbers is None:
        return []
    header = ("", "baseline", "candidate", "difference", f"{numbers.level} interval")
    rows = [
        ("mean score", *numbers.mean),
        ("passed", *numbers.passed, ""),
        ("pass rate", *numbers.rates, "", ""),
        (f"{numbers.level} interval", *numbers.rate_intervals, "", ""),
    ]
    plain = (None,) * len(header)
    difference = f"bold {_STYLE.get(comparison.conclusion, '')}"
    table = render_table(header, rows, [(None, None, None, difference, None), plain, plain, plain], look)
    names = [
        (word, side.label) for word, side in (("baseline", comparison.baseline), ("candidate", comparison.candidate))
    ]
    return [*(f"{INDENT}{look.style(f'{word:<9}', 'dim')}  {look.text(name)}" for word, name in names), "", *table]


def _tests(comparison: Comparison, look: Look) -> list[str]:
    if not comparison.pairs:
        return []
    wins, losses, ties = (comparison.count(outcome) for outcome in Outcome)
    newly_passed, newly_failed = comparison.flips
    counts = [(wins, "better", "green"), (losses, "worse", "red"), (ties, "tied", "dim")]
    shown = "   ".join(
        look.style(f"{count:,} {word}", style) if count else f"0 {word}" for count, word, style in counts
    )
    by = "any difference" if not comparison.threshold else f"{comparison.threshold:g} or more"
    lines = [f"{INDENT}{shown}   {look.style(f'by {by}', 'dim')}"]
    if wins + losses:
        lines[0] += look.style(f"; sign test {format_p(comparison.tested.sign_test_p)}", "dim")
    if newly_passed + newly_failed:
        p = format_p(comparison.tested.mcnemar_p)
        flips = f"{newly_passed:,} newly pass   {newly_failed:,} no longer pass"
        lines.append(f"{INDENT}{flips}   {look.style(f'exact McNemar test {p}', 'dim')}")
    gain = comparison.meaningful_gain
    if gain:
        share = f", {percent(gain)} of the points missed by the baseline" if gain > 0 else ""
        lines.append(INDENT + look.style(f"normalised gain {gain:+.2f}{share}", "dim"))
    return lines


def _cases(title: str, pairs: Sequence[Pair], look: Look) -> list[str]:
    if not pairs:
        return []
    arrow, dot = look.mark("→", "->"), look.mark("·", "-")
    lines = [INDENT + look.style(title, "bold")]
    for pair in pairs:
        scores = f"{format_score(pair.score1)} {arrow} {format_score(pair.score2)}"
        delta = pad(format_delta(pair.delta), 7, right=True)
        start = f"{INDENT}{scores}  {delta}  "
        style = "green" if pair.delta > 0 else "red"
        attempts = f"  ({pair.attempts[0]} {arrow} {pair.attempts[1]})" if pair.attempts else ""
        name = look.cut(look.text(case_name(pair.key)), look.width - columns(start) - columns(attempts)) + attempts
        lines.append(f"{INDENT}{scores}  {look.style(delta, style)}  {name}")
        reason = look.text(explained(pair)) or "no reason given"
        lines.append(f"{INDENT}    {look.style(look.cut(f'{dot} {reason}', look.width - 6), 'dim')}")
    return lines


def _unjudged(cases: Sequence[Unjudged], look: Look) -> list[str]:
    if not cases:
        return []
    dot = look.mark("·", "-")
    count = plural(len(cases), "case")
    lines = [f"{INDENT}{look.style('Errors', 'bold')}  {look.style(f'{count}, not counted as losses', 'dim')}"]
    for case in cases[:SHOWN]:
        where = (
            "both"
            if case.baseline_error and case.candidate_error
            else "candidate"
            if case.candidate_error
            else "baseline"
        )
        partly = ", compared on its other attempts" if case.compared else ""
        tail = f"  (in the {where}{partly})" if where != "both" else f"  (in both{partly})"
        name = look.cut(look.text(case_name(case.key)), max(10, look.width - len(INDENT) - len(tail)))
        lines.append(f"{INDENT}{name}{look.style(tail, 'magenta')}")
        message = look.text(case.candidate_error or case.baseline_error or "")
        lines.append(f"{INDENT}    {look.style(look.cut(f'{dot} {message}', look.width - 6), 'dim')}")
    return [*lines, *_more(len(cases), look)]


def _unmatched(comparison: Comparison, look: Look) -> list[str]:
    lines = []
    for word, keys in (("baseline", comparison.only_baseline), ("candidate", comparison.only_candidate)):
        if keys:
            lines.append(
                f"{INDENT}{look.style(f'Only in the {word}', 'bold')}  {look.style(plural(len(keys), 'case'), 'dim')}"
            )
            lines += _listed(keys, look)
    return lines


def _listed(keys: Sequence[CaseKey], look: Look) -> Iterable[str]:
    for key in keys[:SHOWN]:
        yield f"{INDENT}{look.cut(look.text(case_name(key)), look.width - len(INDENT))}"
    yield from _more(len(keys), look)


def _more(count: int, look: Look) -> list[str]:
    left = count - SHOWN
    return [INDENT + look.style(f"and {left:,} more (use --json to list all)", "dim")] if left > 0 else []


def _decision(decision: Decision, look: Look) -> list[str]:
    style = "green" if decision.exit_code == 0 else "magenta" if decision.exit_code == 3 else "red"
    first, *others = decision.reasons
    lines = _wrapped(f"exit code {decision.exit_code}: {first}", look, style)
    return [*lines, *(line for other in others for line in _wrapped(f"also: {other}", look, None))]


def _wrapped(text: str, look: Look, style: str | None) -> list[str]:
    lines = look.wrap(look.text(text), look.width - len(INDENT), most=4)
    return [INDENT + (look.style(line, style) if style else line) for line in lines]
