"""A comparison as a person reads it on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentv.report.compare import Comparison, Conclusion, Decision, Outcome, Pair, Unjudged, format_delta
from agentv.report.format import format_score
from agentv.report.sides import CaseKey
from agentv.report.statistics import Interval, fewest_to_tell, mcnemar_exact, sign_test, wilson
from agentv.report.terminal import Look, columns, pad
from agentv.text import plural

INDENT = "  "
LEAST_WIDTH = 72
SHOWN = 5

_STYLE = {Conclusion.BETTER: "green", Conclusion.WORSE: "red"}


def render_comparison(comparison: Comparison, decision: Decision, look: Look) -> str:
    """The comparison, without a newline at its end."""
    look = Look(color=look.color, width=max(look.width, LEAST_WIDTH), unicode=look.unicode)
    sections = [
        [_headline(comparison, look)],
        _table(comparison, look),
        _tests(comparison, look),
        _cases("Worst regressions", comparison.worst(SHOWN), look),
        _cases("Best wins", comparison.best(SHOWN), look),
        _unjudged(comparison.unjudged, look),
        _unmatched(comparison, look),
        [line for note in comparison.notes() for line in _wrapped(f"note: {note}", look, "yellow")],
        _decision(decision, look),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def headline(comparison: Comparison) -> str:
    """What came out, in one line."""
    count, delta = plural(len(comparison.pairs), "case"), comparison.mean_delta
    if comparison.conclusion is Conclusion.TOO_FEW or delta is None:
        need = fewest_to_tell(comparison.confidence)
        return f"too few to tell: {count} compared, it takes {need} at least"
    if comparison.conclusion is Conclusion.SAME:
        return f"no difference: all {count} scored the same"
    if comparison.conclusion is Conclusion.UNCLEAR:
        return f"no clear difference over {count}: mean score {format_delta(delta)}"
    return f"the candidate is {comparison.conclusion.value} over {count}: mean score {format_delta(delta)}"


def format_p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def named(key: CaseKey) -> str:
    """The case by its id, and its target where that plays a part."""
    return f"{key.eval_id} ({key.target})" if key.target else key.eval_id


def _headline(comparison: Comparison, look: Look) -> str:
    marks = {
        Conclusion.BETTER: look.mark("✓", "+"),
        Conclusion.WORSE: look.mark("✗", "x"),
        Conclusion.SAME: "=",
    }
    text = f"{marks.get(comparison.conclusion, '?')} {headline(comparison)}"
    return look.style(text, "bold", _STYLE.get(comparison.conclusion, "yellow"))


def _table(comparison: Comparison, look: Look) -> list[str]:
    total = len(comparison.pairs)
    if not total or comparison.mean1 is None or comparison.mean2 is None or comparison.mean_delta is None:
        return []
    passed1, passed2 = comparison.passed
    ranges = [wilson(passed, total, confidence=comparison.confidence) for passed in (passed1, passed2)]
    level = percent(comparison.confidence)
    rows = [
        ("", "baseline", "candidate", "difference", f"{level} interval"),
        (
            "mean score",
            f"{comparison.mean1:.3f}",
            f"{comparison.mean2:.3f}",
            format_delta(comparison.mean_delta),
            _interval(comparison.interval),
        ),
        (
            "passed",
            f"{passed1:,}/{total:,}",
            f"{passed2:,}/{total:,}",
            f"{passed2 - passed1:+,}" if passed1 != passed2 else "0",
            "",
        ),
        ("pass rate", *(percent(passed / total) for passed in (passed1, passed2)), "", ""),
        (f"{level} interval", *(f"{percent(low)}-{percent(high)}" for low, high in ranges), "", ""),
    ]
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [pad(cell, width, right=i > 0) for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        if number == 0:
            cells = [look.style(cell, "dim") for cell in cells]
        elif number == 1:
            cells[3] = look.style(cells[3], "bold", _STYLE.get(comparison.conclusion, "bold"))
        lines.append((INDENT + "  ".join(cells)).rstrip())
    names = [
        (word, side.label) for word, side in (("baseline", comparison.baseline), ("candidate", comparison.candidate))
    ]
    return [*(f"{INDENT}{look.style(f'{word:<9}', 'dim')}  {_text(name, look)}" for word, name in names), "", *lines]


def _interval(interval: Interval | None) -> str:
    return "too few" if interval is None else f"{format_delta(interval.low)} to {format_delta(interval.high)}"


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
        lines[0] += look.style(f"; sign test {format_p(sign_test(wins, losses))}", "dim")
    if newly_passed + newly_failed:
        p = format_p(mcnemar_exact(newly_passed, newly_failed))
        flips = f"{newly_passed:,} newly pass   {newly_failed:,} no longer pass"
        lines.append(f"{INDENT}{flips}   {look.style(f'exact McNemar test {p}', 'dim')}")
    if comparison.gain is not None and comparison.mean_delta:
        share = f", {percent(comparison.gain)} of what was missing" if comparison.gain > 0 else ""
        lines.append(INDENT + look.style(f"normalised gain {comparison.gain:+.2f}{share}", "dim"))
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
        name = look.cut(_text(named(pair.key), look), look.width - columns(start))
        lines.append(f"{INDENT}{scores}  {look.style(delta, style)}  {name}")
        before = "was: " if pair.delta > 0 else ""
        reason = _text(pair.reason, look) or "no reason was given"
        lines.append(f"{INDENT}    {look.style(look.cut(f'{dot} {before}{reason}', look.width - 6), 'dim')}")
    return lines


def _unjudged(cases: Sequence[Unjudged], look: Look) -> list[str]:
    if not cases:
        return []
    dot = look.mark("·", "-")
    count = plural(len(cases), "case")
    lines = [f"{INDENT}{look.style('Could not be judged', 'bold')}  {look.style(f'{count}, no losses', 'dim')}"]
    for case in cases[:SHOWN]:
        where = (
            "both"
            if case.baseline_error and case.candidate_error
            else "candidate"
            if case.candidate_error
            else "baseline"
        )
        partly = ", compared by its other attempts" if case.compared else ""
        tail = f"  (in the {where}{partly})" if where != "both" else f"  (in both{partly})"
        name = look.cut(_text(named(case.key), look), max(10, look.width - len(INDENT) - len(tail)))
        lines.append(f"{INDENT}{name}{look.style(tail, 'magenta')}")
        message = _text(case.candidate_error or case.baseline_error or "", look)
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
        yield f"{INDENT}{look.cut(_text(named(key), look), look.width - len(INDENT))}"
    yield from _more(len(keys), look)


def _more(count: int, look: Look) -> list[str]:
    left = count - SHOWN
    return [INDENT + look.style(f"and {left:,} more (--json has all of them)", "dim")] if left > 0 else []


def _decision(decision: Decision, look: Look) -> list[str]:
    style = "green" if decision.exit_code == 0 else "magenta" if decision.exit_code == 3 else "red"
    first, *others = decision.reasons
    lines = _wrapped(f"exit code {decision.exit_code}: {first}", look, style)
    return [*lines, *(line for other in others for line in _wrapped(f"also: {other}", look, None))]


def _wrapped(text: str, look: Look, style: str | None) -> list[str]:
    lines = look.wrap(_text(text, look), look.width - len(INDENT), most=4)
    return [INDENT + (look.style(line, style) if style else line) for line in lines]


def _text(text: str, look: Look) -> str:
    return look.text(text)
