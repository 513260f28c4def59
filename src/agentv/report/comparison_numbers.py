"""The formatted numbers of a comparison, shared by the terminal and Markdown output."""

from __future__ import annotations

from typing import NamedTuple

from agentv.report.accumulate import MISSED
from agentv.report.compare import Comparison, Conclusion, Pair, format_delta
from agentv.report.statistics import Interval, fewest_to_tell
from agentv.text import plural


def comparison_headline(comparison: Comparison) -> str:
    """The conclusion of the comparison in one line."""
    count, delta = plural(comparison.cases, "case"), comparison.mean_delta
    each = f", each with {comparison.each_with}" if comparison.each_with else ""
    if comparison.conclusion is Conclusion.TOO_FEW or delta is None:
        needed = fewest_to_tell(comparison.confidence)
        return f"too few cases: {comparison.cases:,} compared{each}, at least {needed} needed"
    if comparison.conclusion is Conclusion.SAME:
        return f"no difference: all {count}{each}{',' * bool(each)} scored the same"
    if comparison.conclusion is Conclusion.UNCLEAR:
        return f"no significant difference over {count}{each}: mean score {format_delta(delta)}"
    return f"the candidate is {comparison.conclusion.value} over {count}{each}: mean score {format_delta(delta)}"


def explained(pair: Pair) -> str:
    """Why a case lost points: in the candidate or, if it improved, in the baseline."""
    if pair.delta <= 0 or not pair.reason:
        return pair.reason
    criteria = pair.reason.removeprefix(MISSED)
    return f"was missing: {criteria}" if criteria != pair.reason else f"was: {pair.reason}"


def format_p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


class Numbers(NamedTuple):
    """The rows of the comparison table. In each row the baseline comes first, then the candidate."""

    level: str
    """The confidence level, such as `95%`."""
    mean: tuple[str, str, str, str]
    """Both mean scores, their difference, and the interval of the difference."""
    passed: tuple[str, str, str]
    """The numbers of passed cases, and their difference."""
    rates: tuple[str, str]
    rate_intervals: tuple[str, str]

    @classmethod
    def of(cls, comparison: Comparison) -> Numbers | None:
        """The numbers of a comparison; None if no case was scored in both runs."""
        total = len(comparison.pairs)
        if not total or comparison.mean1 is None or comparison.mean2 is None or comparison.mean_delta is None:
            return None
        passed1, passed2 = comparison.passed
        intervals = [comparison.rate_interval(passed) for passed in (passed1, passed2)]
        low_high = [f"{percent(low)}-{percent(high)}" for low, high in intervals]
        mean1, mean2 = f"{comparison.mean1:.3f}", f"{comparison.mean2:.3f}"
        return cls(
            percent(comparison.confidence),
            (mean1, mean2, format_delta(comparison.mean_delta), _interval(comparison.interval)),
            (
                f"{passed1:,}/{total:,}",
                f"{passed2:,}/{total:,}",
                f"{passed2 - passed1:+,}" if passed1 != passed2 else "0",
            ),
            (percent(passed1 / total), percent(passed2 / total)),
            (low_high[0], low_high[1]),
        )


def _interval(interval: Interval | None) -> str:
    return "too few cases" if interval is None else f"{format_delta(interval.low)} to {format_delta(interval.high)}"
