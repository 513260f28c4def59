"""The comparison of two runs in words and tables: what the compare page shows around the table of its cases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.report.compare import format_delta
from agentv.report.comparison_numbers import format_p, percent
from agentv.text import plural
from agentv.view.addresses import page_address
from agentv.view.comparing import Side
from agentv.view.sections import UNKNOWN, Block, Cell, Part, folded, group, listed, paragraph, part, table

MOST_CHANGES = 8
MOST_LISTED = 500
MOST_TIMES = 100
"""Much more than that is not worth a number."""
SHOWN_TOGETHER = 24
"""Groups in one chart; if there are more, there is one for each key."""
SIGNIFICANT = 0.05
_AXIS = "Difference of the mean score, with its 95% interval. Right of 0, the candidate is better."

Data = Mapping[str, Any]


class CompareSections:
    """`data` are `CompareData` without sections; `a` and `b` the baseline and the candidate."""

    def __init__(self, data: Data, a: Side, b: Side) -> None:
        self._data = data
        self._a, self._b = a, b

    def to_dict(self) -> dict[str, Any]:
        """The fields `sections` and `left_out` of `CompareData`."""
        changes = self._changes() if self._a.run != self._b.run else None
        sections = [self._verdict(), changes, self._groups()]
        return {"sections": [section for section in sections if section], "left_out": self._left_out()}

    def _to(self, **query: str) -> str:
        return page_address("compare", str(self._a), str(self._b), **query)

    def _verdict(self) -> Block:
        data, summary = self._data, self._data["summary"]
        headline = data["headline"]
        decision = data["decision"]
        options = "without options" if self._a.prompt is None else "--by prompt"
        return group(
            paragraph(headline[:1].upper() + headline[1:], kind="lead headline"),
            paragraph(
                "Exit code ",
                part(str(decision["exit_code"]), "exit-code"),
                f" of agentv compare {options}: {'; '.join(decision['reasons'])}",
                kind="muted",
            ),
            group(
                group(_interval(summary), _more_cases(summary)),
                group(_numbers(summary), self._tests(summary)),
                kind="split",
            ),
            listed([f"Note: {note}" for note in data["notes"]], MOST_CHANGES, "note") if data["notes"] else None,
            kind=f"conclusion {summary['conclusion']}",
        )

    def _tests(self, summary: Data) -> Block:
        """Wins, flips and gain, with their exact tests."""

        def counted(count: int, words: str, kind: str) -> Part:
            return part(f"{count:,} {words}", href=self._to(f=kind))

        flips = f"; exact McNemar test {format_p(summary['mcnemar_p'])}"
        by = f" by {summary['threshold']:g} or more" if summary["threshold"] else ""
        sign = f"{by}, {summary['ties']:,} tied; sign test {format_p(summary['sign_test_p'])}"
        items: list[Cell] = [
            [counted(summary["wins"], "better", "better"), ", ", counted(summary["losses"], "worse", "worse"), sign],
            [
                counted(summary["newly_passed"], "newly pass", "newly-passed"),
                ", ",
                counted(summary["newly_failed"], "no longer pass", "newly-failed"),
                flips,
            ],
        ]
        # If the baseline is close to 1, a small loss is many times what could have been gained.
        if (gain := summary["normalised_gain"]) and abs(gain) <= 1:
            share = f", {percent(gain)} of the points missed by the baseline" if gain > 0 else ""
            items.append(f"normalised gain {gain:+.2f}{share}")
        return listed(items, len(items), "tests")

    def _changes(self) -> Block:
        changes = self._data["changes"]
        rulers = [_change(change) for change in changes if change["ruler"]]
        others = [_change(change) for change in changes if not change["ruler"]]
        same = "Cases, judge scripts, judges, configuration and options are the same, as far as the runs recorded them."
        warning = group(
            paragraph("Scores were not measured in the same way, so part of the difference may come from this:"),
            listed(rulers, MOST_CHANGES, "change-list"),
            kind="note bad ruler",
            title="The measurement changed",
        )
        return group(
            warning if rulers else None,
            group(listed(others, MOST_CHANGES, "change-list"), title="Other changes" if rulers else None)
            if others
            else None,
            None if changes else paragraph(same, kind="muted"),
            kind="changes",
            title="What changed between the runs",
        )

    def _groups(self) -> Block | None:
        """The difference in each group of cases, with a warning that some look different by luck."""
        groups = self._data["groups"]
        if not any(each["mean_delta"] for each in groups):
            return None
        keys = list(dict.fromkeys(each["by"] for each in groups))
        together = len(groups) <= SHOWN_TOGETHER
        charts = [
            folded(_key(by), self._forest([each for each in groups if each["by"] == by]), is_open=by == keys[0])
            for by in keys
        ]
        blocks = [self._forest(groups)] if together else charts
        return group(paragraph(_multiplicity(groups)), *blocks, kind="groups", title="By group")

    def _forest(self, groups: Sequence[Data]) -> Block:
        effects = [
            {
                "label": _label(each),
                "mean": each["mean_delta"],
                "interval": each["interval"],
                "note": format_p(each["p_holm"]),
                "cases": each["cases"],
                "conclusion": each["conclusion"] if each["p_holm"] < SIGNIFICANT else "unclear",
                "href": self._to(g=f"{each['by']}:{each['name']}"),
            }
            for each in groups
        ]
        return {"title": "Difference of the mean score by group", "effects": effects, "axis": _AXIS}

    def _left_out(self) -> Block | None:
        """Cases without a pair: errored, or in one of the runs only."""
        data = self._data
        lists = {
            "Errored in one of the runs or in both": [self._errored(case) for case in data["unjudged"]],
            "Only in the baseline": [self._only(case, self._a.run) for case in data["only_a"]],
            "Only in the candidate": [self._only(case, self._b.run) for case in data["only_b"]],
        }
        blocks = [
            folded(f"{title}: {plural(len(cases), 'case')}", _cut(cases), is_open=title[0] == "E" and len(cases) <= 5)
            for title, cases in lists.items()
            if cases
        ]
        return group(*blocks, title="Cases that cannot be compared") if blocks else None

    def _only(self, case: Data, run: str) -> Cell:
        return [part(case["eval_id"], href=_case(case, run)), _where(case)]

    def _errored(self, case: Data) -> Cell:
        sides = (
            ("baseline", case["target1"], self._a.run, case["error1"]),
            ("candidate", case["target"], self._b.run, case["error2"]),
        )
        errors: list[Part] = []
        for name, target, run, error in sides:
            if error is not None:
                errors += [part("", "line"), part(name, href=_case({**case, "target": target}, run)), f": {error}"]
        return [part(case["eval_id"], "strong"), _where(case), *errors]


def _case(case: Data, run: str) -> str:
    return page_address("run", run, "case", case["suite"], case["eval_id"], case["target"], "1")


def _where(case: Data) -> Part:
    return part(f" {case['suite']} · {case['target']}", "muted")


def _cut(cases: list[Cell]) -> Block:
    rest = len(cases) - MOST_LISTED
    more: list[Cell] = [part(f"and {rest:,} more", "muted")] if rest > 0 else []
    return listed(cases[:MOST_LISTED] + more, MOST_LISTED + 1, "case-list")


def _interval(summary: Data) -> Block | None:
    """The mean difference with its interval."""
    if summary["mean_delta"] is None:
        return None
    if summary["conclusion"] == "same":
        return paragraph("All differences are 0.", kind="muted")
    effect = {
        "label": "Mean difference",
        "mean": summary["mean_delta"],
        "interval": summary["interval"],
        "cases": summary["cases"],
        "conclusion": summary["conclusion"],
    }
    ends = summary["interval"]
    between = f"95% interval {' to '.join(map(format_delta, ends))}" if ends else "too few cases for an interval"
    axis = f"{between}. Right of 0, the candidate is better."
    return {"title": "Difference of the mean score", "effects": [effect], "axis": axis}


def _more_cases(summary: Data) -> Block | None:
    """About how many more cases would make an unclear difference significant, if it stayed the same."""
    delta, interval, matched = summary["mean_delta"], summary["interval"], summary["cases"]
    if summary["conclusion"] != "unclear" or not delta or not interval:
        return None
    reach = delta - interval[0] if delta > 0 else interval[1] - delta
    more = matched * (reach / delta) ** 2 - matched  # the interval shrinks with the square root of their number
    size = 10 ** max(0, int(math.log10(max(1, more))) - 1)
    count = max(1, math.ceil(more / size) * size)
    cases = f"about {plural(count, 'more case')}"
    if count > MOST_TIMES * matched:
        cases = f"more than {MOST_TIMES} times as many cases"
    elif count < matched / 10:
        cases = "a few more cases"
    text = f"If the difference stayed the same, it would take {cases} like these to tell it from luck."
    return paragraph(text, kind="more-cases")


def _numbers(summary: Data) -> Block:
    matched, sides = summary["matched"], ("1", "2")
    means = [summary[f"mean{side}"] for side in sides]
    passed = [summary[f"passed{side}"] for side in sides]
    rates = [summary[f"pass_rate{side}"] for side in sides]
    intervals = [rate["interval"] for rate in rates]
    delta = UNKNOWN if summary["mean_delta"] is None else format_delta(summary["mean_delta"])
    more = passed[1] - passed[0]
    rows: list[list[Cell]] = [
        ["Mean score", *(UNKNOWN if mean is None else f"{mean:.3f}" for mean in means), part(delta, "strong")],
        ["Passed", *(f"{count:,}/{matched:,}" for count in passed), part(f"{more:+,}" if more else "0", "strong")],
        ["Pass rate", *(UNKNOWN if rate["rate"] is None else percent(rate["rate"]) for rate in rates), ""],
        ["95% interval", *(" to ".join(map(percent, ends)) if ends else UNKNOWN for ends in intervals), ""],
    ]
    return table("Numbers of both runs", ("", "Baseline", "Candidate", "Difference"), rows, "numbers")


def _change(change: Data) -> Cell:
    parts: list[Part] = [change["text"]]
    hashed = "SHA-256 " if change["what"] in ("file", "case") else ""
    if change["before"] is not None or change["after"] is not None:
        for name in ("before", "after"):
            value = UNKNOWN if change[name] is None else change[name]
            parts.append(part(f"{hashed}{name} {value}", "below mono"))
    return parts


def _key(by: str) -> str:
    return by.removeprefix("metadata.")


def _label(each: Data) -> str:
    return f"{_key(each['by'])}: {each['name']}"


def _multiplicity(groups: Sequence[Data]) -> str:
    """How many groups were tested, and which are significant."""
    significant = [_label(each) for each in groups if each["p_holm"] < SIGNIFICANT]
    luck = "One group was tested (sign test). "
    if len(groups) > 1:
        lucky = max(1, round(len(groups) * SIGNIFICANT))
        luck = (
            f"{plural(len(groups), 'group')} were tested: by luck alone, about {lucky} of the intervals may exclude 0. "
            "The p-values (sign test) are corrected for that (Holm). "
        )
    if not significant:
        return f"{luck}No group is significant after the correction."
    more = f" and {len(significant) - 5:,} more" if len(significant) > 5 else ""
    return f"{luck}Significant after the correction: {', '.join(significant[:5])}{more}."
