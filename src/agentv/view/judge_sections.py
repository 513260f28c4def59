"""The judges of a run in words and tables: what the judges page shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.report.comparison_numbers import format_p, percent
from agentv.report.format import format_cost, format_score
from agentv.text import plural
from agentv.view.addresses import filter_word, page_address
from agentv.view.judge_scores import BINS, IN
from agentv.view.sections import (
    UNKNOWN,
    Block,
    Cell,
    Part,
    bullets,
    folded,
    format_count,
    format_ms,
    group,
    listed,
    paragraph,
    part,
    table,
)

FLIPS_SHOWN = 5
FEW_LABELS = 30
CLEAR = 0.3
"""Weaker correlations are not named."""
MOST_HISTOGRAMS = 9
_LEVELS = ((0.8, "very good"), (0.6, "good"), (0.4, "moderate"), (0.2, "weak"))
_COUNTED = {
    "Timeouts": "timeouts",
    "Cancelled": "cancelled",
    "Refused": "refused",
    "Retries": "retries",
    "From cache": "cache_hits",
    "From record": "from_record",
}

Data = Mapping[str, Any]


class JudgeSections:
    """`data` are `JudgesData` without sections; `columns` the rows of the run, and `suites` the paths of its suites."""

    def __init__(self, data: Data, run: str, columns: Data, suites: Sequence[str]) -> None:
        self._data = data
        self._run = run
        self._columns = columns
        self._suites = suites
        self._evaluators: Sequence[Data] = data["evaluators"]

    def to_dict(self) -> dict[str, Any]:
        """The fields `lead` and `sections` of `JudgesData`."""
        sections = [
            self._targets(),
            self._scores(),
            self._noise(),
            self._agreement(),
            self._labels(),
            self._length(),
        ]
        return {"lead": self._lead(), "sections": [section for section in sections if section]}

    def _lead(self) -> str:
        targets, labels = self._data["targets"], self._data["labels"]
        calls = sum(target["calls"] for target in targets)
        failed = sum((target[name] or 0) for target in targets for name in ("failed", "timeouts", "cancelled"))
        sentences = ["No judge was called in this run: its scores come from checks that need no judge."]
        if calls:
            answered = f"of which {failed:,} failed" if failed else "all answered"
            sentences = [f"Judge calls: {calls:,}, {answered}; {_total_cost(targets)}."]
        noisy = [one for one in self._evaluators if one["noise"]]
        if noisy:
            worst = max(noisy, key=lambda one: _share(one["noise"]))
            share = percent(_share(worst["noise"]))
            sentences.append(
                f"The judge “{worst['name']}” changes its verdict on {share} of identical answers."
                if worst["noise"]["flipped"]
                else "No judge changed its verdict on an identical answer."
            )
        if labels:
            sentences.append(f"Verdicts agree with {labels['agree']:,} of {plural(labels['labels'], 'label')}.")
        return " ".join(sentences)

    def _targets(self) -> Block:
        targets = self._data["targets"]
        if not targets:
            return group(paragraph("No judge calls in this run.", kind="muted"), title="Judge calls")
        # Columns that are 0 for all targets say nothing.
        counted = {title: name for title, name in _COUNTED.items() if any(target[name] for target in targets)}
        head = ["Judge target", "Calls", "Answered", "Failed", *counted, "Tokens in", "Tokens out", "Cost"]
        rows: list[list[Cell]] = [
            [
                [target["name"], part(f" {', '.join(target['models'])}", "muted")],
                format_count(target["calls"]),
                format_count(target["ok"]),
                part(format_count(target["failed"]), "bad" if target["failed"] else None),
                *(format_count(target[name]) for name in counted.values()),
                format_count(target["input_tokens"]),
                format_count(target["output_tokens"]),
                _cost(target) if target["calls"] else UNKNOWN,
                *(format_ms(target[name]) for name in ("p50_ms", "p95_ms", "waited_p95_ms")),
            ]
            for target in targets
        ]
        return group(
            table("Judge targets", [*head, "Median time", "p95 time", "p95 waiting"], rows),
            paragraph(
                "Times are those of answered calls, without waiting for a free slot of the target. "
                "p95: 95% of the calls took at most this long.",
                kind="muted small",
            ),
            title="Judge calls",
        )

    def _scores(self) -> Block:
        if not self._evaluators:
            nothing = paragraph("No row of this run has results of evaluators.", kind="muted")
            return group(nothing, title="Evaluators")
        head = ("Evaluator", "Rows", "Errors", "Passed", "Mean", "Different scores", "Judge calls", "Cost")
        scored = [one for one in self._evaluators if one["rows"] > one["errors"]]
        first = [one for one in scored if one["judge"]][:MOST_HISTOGRAMS]
        rest = [one for one in scored if one not in first]
        if not first:
            first, rest = rest, []
        return group(
            table("Evaluators", head, map(self._evaluator, self._evaluators)),
            self._histograms(first),
            folded(f"Scores of {plural(len(rest), 'other evaluator')}", self._histograms(rest)) if rest else None,
            title="Evaluators",
        )

    def _evaluator(self, one: Data) -> list[Cell]:
        name, rows, scored = one["name"], format_count(one["rows"]), one["rows"] - one["errors"]
        shown = part(name.rpartition(IN)[2], "member") if one["member"] else name
        return [
            [shown, part(f" {one['type']}", "muted")] if one["type"] != name else shown,
            rows if one["member"] else part(rows, href=self._filtered(f"evaluator.{filter_word(name)}>=0")),
            part(format_count(one["errors"]), "errors", href=self._filtered("stage=evaluator"))
            if one["errors"]
            else "0",
            f"{one['passed']:,} ({percent(one['passed'] / scored)})" if scored else UNKNOWN,
            UNKNOWN if one["mean"] is None else format_score(one["mean"]),
            format_count(one["distinct"]),
            format_count(one["calls"]) if one["calls"] else UNKNOWN,
            _cost(one) if one["calls"] else UNKNOWN,
        ]

    def _histograms(self, evaluators: Sequence[Data]) -> Block:
        def chart(one: Data) -> Block:
            field = None if one["member"] else f"evaluator.{filter_word(one['name'])}"
            return {"title": f"Scores of {one['name']}", "counts": one["histogram"], "run": self._run, "field": field}

        return group(*(group(chart(one), _coarse(one)) for one in evaluators), kind="histograms")

    def _noise(self) -> Block | None:
        if not any(one["judge"] for one in self._evaluators):
            return None
        measured = [(one, one["noise"]) for one in self._evaluators if one["noise"]]
        if not measured:
            return group(*self._unmeasured(), title="Noise")
        rows: list[list[Cell]] = [
            [
                one["name"],
                format_count(noise["answers"]),
                format_count(noise["rows"]),
                f"{noise['sd']:.3f}",
                f"{noise['flipped']:,} ({percent(_share(noise))})",
                _interval(noise["flip_interval"]),
                "unknown" if noise["near"] is None else f"{noise['near']:,} of {one['rows'] - one['errors']:,}",
            ]
            for one, noise in measured
        ]
        head = ("Evaluator", "Answers judged again", "Rows", "SD of scores", "Verdict changed", "95% interval")
        flipping = [(one, noise) for one, noise in measured if noise["flipped"]]
        answers = max(noise["answers"] for _, noise in measured)
        least = percent(min(noise["flip_interval"][1] for _, noise in measured))
        return group(
            paragraph(
                "The same answer to the same case should get the same verdict each time it is judged. "
                "Replies from the cache do not count."
            ),
            table("Noise of evaluators on identical answers", [*head, "Near the pass line"], rows),
            *(self._flips(one, noise) for one, noise in flipping),
            *(_checks(one, noise) for one, noise in measured),
            None
            if flipping
            else paragraph(
                f"No verdict changed. With {plural(answers, 'answer')} judged again, a rate below {least} could still "
                "be hidden."
            ),
            title="Noise",
        )

    def _unmeasured(self) -> list[Block]:
        command = shlex.join(["agentv", "eval", *self._suites, "--outputs", self._run, "--repeat", "5"])
        return [
            paragraph(
                "No answer was judged more than once, so it is unknown whether the judges would repeat their verdicts. "
                "To find out, judge the answers of this run again, without calling the targets:"
            ),
            {"commands": [{"title": "judge each answer five times", "command": command}]},
        ]

    def _flips(self, one: Data, noise: Data) -> Block:
        near = (
            f" {noise['near']:,} of its {plural(one['rows'] - one['errors'], 'row')} are that close to the pass line: "
            "their verdict is not much better than a coin flip."
            if noise["near"]
            else ""
        )
        items: list[Cell] = [
            [
                self._case(flip["row"], one),
                f": passed {flip['passed']:,} of {flip['rows']:,}, scores from {format_score(flip['lowest'])} to "
                f"{format_score(flip['highest'])}",
            ]
            for flip in noise["flips"]
        ]
        return group(
            paragraph(f"Its scores for one answer have a standard deviation of {noise['sd']:.3f}.{near}"),
            listed(items, FLIPS_SHOWN, "bullets"),
            title=f"“{one['name']}” changes its verdict on {percent(_share(noise))} of identical answers",
        )

    def _agreement(self) -> Block | None:
        pairs = {frozenset((pair["one"], pair["other"])): pair for pair in self._data["agreement"]}
        if not pairs:
            return None
        names = list(dict.fromkeys(name for pair in self._data["agreement"] for name in (pair["one"], pair["other"])))

        def cell(row: str, column: str) -> Cell:
            if (pair := pairs.get(frozenset((row, column)))) is None:
                return ""
            below = f"{pair['agree']:,} of {pair['rows']:,}, rho {_decimal(pair['rho'])}"
            kappa = part(_decimal(pair["kappa"]), "strong" if (pair["kappa"] or 0) >= 0.6 else None)
            return [kappa, f" {_level(pair['kappa'])}", part(below, "below")]

        rows = [
            [row, *(cell(row, column) if k <= i else "" for k, column in enumerate(names[:-1]))]
            for i, row in enumerate(names[1:])
        ]
        return group(
            paragraph(
                "Cohen's kappa of their verdicts on the same rows: 0 is what chance would give, 1 is perfect. "
                "Below it, the rows on which both pass or both fail, and the rank correlation rho of their scores."
            ),
            table("Cohen's kappa of each two evaluators", ["", *names[:-1]], rows, "matrix"),
            title="Agreement between evaluators",
        )

    def _labels(self) -> Block:
        review = page_address("run", self._run, "review")
        labels = self._data["labels"]
        found: list[tuple[str, Data, Data | None]] = [("the verdict of the row", labels, None)] if labels else []
        found += [
            (one["name"], one["labels"], one)
            for one in self._evaluators
            if one["labels"] and (one["judge"] or not one["member"])
        ]
        title = "Agreement with people"
        if not found:
            text = " to see how often the judges agree with you: about thirty are enough for a first impression."
            link = part("Label some answers", href=review)
            return group(paragraph("There are no labels of people yet. ", link, text), title=title)
        head = ("Judge", "Labels", "Agree", "95% interval", "Kappa", "Wrongly passed", "Wrongly failed")
        rows: list[list[Cell]] = [
            [
                name,
                format_count(each["labels"]),
                f"{each['agree']:,} ({percent(each['agree'] / each['labels'])})",
                _interval(each["interval"]),
                [_decimal(each["kappa"]), part(f" {_level(each['kappa'])}", "muted small")],
                format_count(each["wrongly_passed"]),
                format_count(each["wrongly_failed"]),
            ]
            for name, each, _ in found
        ]
        most = max(each["labels"] for _, each, _ in found)
        few: list[Part] = [f"{plural(most, 'label')} are few: the intervals are wide. "]
        few += [part("Label more answers", href=review), "."]
        return group(
            table("Agreement of verdicts with labels", head, rows),
            *(
                folded(
                    f"Labels disagree with {name}: {plural(len(each['rows']), 'row')}",
                    bullets([self._case(row, one) for row in each["rows"]], "bullets"),
                    is_open=one is None,
                )
                for name, each, one in found
                if each["rows"]
            ),
            paragraph(*few, kind="muted") if most < FEW_LABELS else None,
            *(paragraph(_people(pair), kind="muted") for pair in self._data["people"]),
            title=title,
        )

    def _length(self) -> Block | None:
        known = [one for one in self._evaluators if one["length"] and one["length"]["rho"] is not None]
        if not known:
            return None
        head = ("Evaluator", "Cases", "Rank correlation", "p-value", "Meaning")
        rows: list[list[Cell]] = [
            [
                one["name"],
                format_count(one["length"]["rows"]),
                _decimal(one["length"]["rho"]),
                UNKNOWN if one["length"]["p"] is None else format_p(one["length"]["p"]),
                _meaning(one["length"]["rho"], one["length"]["p"]),
            ]
            for one in known
        ]
        return group(
            table("Correlation of score and answer length", head, rows),
            paragraph(
                "Spearman's rank correlation of score and characters of the answer, one pair for each case and target; "
                "p-values by Student's t approximation. Good answers may be longer for a reason: compare with labels "
                "before you blame the judge.",
                kind="muted small",
            ),
            title="Length of the answers",
        )

    def _filtered(self, text: str) -> str:
        return page_address("run", self._run, f=text)

    def _case(self, row: int, evaluator: Data | None) -> Part:
        """A link to the page of a row."""
        columns = self._columns
        eval_id, target = columns["eval_id"][row], columns["targets"][columns["target"][row]]
        place = (columns["suites"][columns["suite"][row]], eval_id, target, str(columns["attempt"][row]))
        query = {"evaluator": evaluator["name"]} if evaluator and not evaluator["member"] else {}
        name = f"{eval_id}, {target}" if len(columns["targets"]) > 1 else eval_id
        return part(name, href=page_address("run", self._run, "case", *place, **query))


def _checks(one: Data, noise: Data) -> Block | None:
    """Rubric checks that changed."""
    rows = [
        [check["id"], format_count(check["answers"]), f"{check['flipped']:,} ({percent(_share(check))})"]
        for check in noise["checks"]
        if check["flipped"]
    ]
    head = ("Criterion", "Answers judged again", "Judgment changed")
    title = f"Criteria of {one['name']} that it is not sure about"
    return group(table(title, head, rows), title=title) if rows else None


def _coarse(one: Data) -> Block | None:
    if not one["judge"] or one["distinct"] > 3 or one["rows"] - one["errors"] < 5 * BINS:
        return None
    text = (
        "It gave the same score to all rows: it tells answers apart no better than a constant."
        if one["distinct"] == 1
        else f"It gave only {one['distinct']} different scores, so a small improvement of the answers does not show."
    )
    return paragraph(text, kind="muted small")


def _people(pair: Data) -> str:
    return (
        f"{pair['one']} and {pair['other']} agree on {pair['agree']:,} of {plural(pair['rows'], 'row')} "
        f"(kappa {_decimal(pair['kappa'])}). A judge cannot be expected to agree more than people do."
    )


def _meaning(rho: float, p: float | None) -> Part:
    if p is None:
        return part("too few cases to tell", "muted")
    if p >= 0.05 or abs(rho) < CLEAR:
        return part("no clear relation", "muted")
    return part("longer answers score higher" if rho > 0 else "shorter answers score higher", "warn")


def _share(noise: Data) -> float:
    """The share of answers whose verdict differed."""
    return float(noise["flipped"] / noise["answers"])


def _interval(ends: Sequence[float] | None) -> str:
    return UNKNOWN if ends is None else f"{percent(ends[0])} to {percent(ends[1])}"


def _decimal(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _level(kappa: float | None) -> str:
    if kappa is None:
        return "all verdicts the same"
    return next((name for least, name in _LEVELS if kappa >= least), "poor")


def _cost(spent: Data) -> Cell:
    """The cost, and that it is not complete."""
    if spent["cost_usd"] is None:
        return "unknown"
    cost = format_cost(spent["cost_usd"])
    return cost if spent["cost_complete"] else part(f"≥ {cost}", title="The cost of some calls is unknown.")


def _total_cost(targets: Sequence[Data]) -> str:
    known = [target["cost_usd"] for target in targets if target["cost_usd"] is not None]
    if not known:
        return "cost unknown"
    total = format_cost(sum(known))
    is_complete = all(target["cost_complete"] for target in targets)
    return total if is_complete else f"at least {total}, the cost of some calls is unknown"
