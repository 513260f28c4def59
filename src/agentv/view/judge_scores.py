"""What each evaluator of a run gave to the rows: scores, verdicts, rubric checks, and the judge calls it needed."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentv.report.statistics import mean
from agentv.results import Verdict
from agentv.view.judge_targets import JudgeTargets, Usage, count_of
from agentv.view.row_columns import MOST_EVALUATORS, ledgers_of

BINS = 20
BY_MODELS = {"llm_judge", "rubric", "code_judge", "metric"}
"""Types that may give different scores to the same answer, whether or not they use the judge of the run."""
IN = " / "
"""Between the name of a composite and that of its member."""
MOST_CHECKS = 100
"""Rubric checks of an evaluator in one row."""
DEEPEST = 8
"""Composites in composites. Members of deeper ones are not listed."""


class Checks(NamedTuple):
    """The rubric checks of one answer: how often it was judged, and how often each check was satisfied."""

    judged: Counter[str]
    satisfied: Counter[str]


class EvaluatorScores:
    """The results of one evaluator. `rows`, `scores` and `passed` have one entry for each row that it judged."""

    def __init__(self, name: str, kind: str, member_of: str | None) -> None:
        self.name = name
        self.type = kind
        self.member_of = member_of
        self.rows = array("i")
        self.scores = array("d")
        self.passed = bytearray()
        self.repeated = bytearray()
        """Whether a judge reply came from the cache or from another run: then the row was not judged again."""
        self.errors = 0
        self.calls = 0
        self.usage = Usage()
        self.checks: dict[int, Checks] = {}
        """By group of rows with the same answer."""

    @property
    def is_judge(self) -> bool:
        """Whether a model or a script gives the scores, so that they may differ for the same answer."""
        return self.calls > 0 or self.type in BY_MODELS

    def last_row(self) -> int:
        return self.rows[-1] if self.rows else -1

    def to_dict(self) -> dict[str, Any]:
        """The fields of `JudgeEvaluator` that need no other evaluator."""
        histogram = [0] * BINS
        for score, count in Counter(self.scores).items():
            histogram[min(BINS - 1, int(score * BINS + 1e-9))] += count
        usage = self.usage.to_dict()
        return {
            "name": self.name,
            "type": self.type,
            "member": self.member_of is not None,
            "judge": self.is_judge,
            "rows": len(self.rows) + self.errors,
            "errors": self.errors,
            "passed": sum(self.passed),
            "calls": self.calls,
            "cost_usd": usage["cost_usd"] if self.calls else None,
            "cost_complete": usage["cost_complete"],
            "mean": mean(self.scores) if self.scores else None,
            "histogram": histogram,
            "distinct": len(set(self.scores)),
        }


class AllScores:
    """The evaluators of a run, and members of composites, in the order in which they first occur."""

    def __init__(self, targets: JudgeTargets, groups: Mapping[int, int], *, replayed: bool) -> None:
        """`groups` has the group of each row whose answer occurs more than once for its case.

        With `replayed`, all judge replies come from another run.
        """
        self.evaluators: dict[str, EvaluatorScores] = {}
        self.left_out = False
        self.replayed = replayed
        self._targets = targets
        self._groups = groups

    def add(self, row: int, results: Any) -> None:
        """Add the evaluator results of a row."""
        seen: set[str] = set()
        for name, member_of, result in _flat(results if type(results) is list else []):
            if name in seen:
                continue
            seen.add(name)
            kind = result.get("type")
            evaluator = self._evaluator(name, kind if type(kind) is str else "", member_of)
            if evaluator is not None:
                self._add(evaluator, row, result)

    def _evaluator(self, name: str, kind: str, member_of: str | None) -> EvaluatorScores | None:
        known = self.evaluators.get(name)
        if known is None and len(self.evaluators) < MOST_EVALUATORS:
            known = self.evaluators[name] = EvaluatorScores(name, kind, member_of)
        self.left_out = self.left_out or known is None
        return known

    def _add(self, evaluator: EvaluatorScores, row: int, result: Mapping[str, Any]) -> None:
        repeated = self.replayed
        for ledger in self._ledgers(result):
            calls = count_of(ledger, "call_count")
            evaluator.calls += calls
            repeated = repeated or count_of(ledger, "cache_hits") > 0
            if calls > count_of(ledger, "failed_calls"):
                evaluator.usage.add(ledger.get("token_usage"), ledger.get("cost_usd"))
        score = result.get("score")
        if result.get("error") is not None or not ((type(score) is float or type(score) is int) and 0 <= score <= 1):
            evaluator.errors += 1
            return
        evaluator.rows.append(row)
        evaluator.scores.append(score)
        evaluator.passed.append(result.get("verdict") == Verdict.PASS.value)
        evaluator.repeated.append(repeated)
        group = self._groups.get(row)
        if group is not None and not repeated:
            _add_checks(evaluator, group, result.get("details"))

    def _ledgers(self, result: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The judge usage of an evaluator, and of its members if it is a composite."""
        for name in ("judge", "judge_proxy"):
            if type(ledger := result.get(name)) is dict:
                self._targets.add_ledger(ledger)
                yield ledger
        if members := result.get("evaluator_results"):
            yield from ledgers_of(members if type(members) is list else ())


def _add_checks(evaluator: EvaluatorScores, group: int, details: Any) -> None:
    checks = details.get("checks") if type(details) is dict else None
    for check in checks[:MOST_CHECKS] if type(checks) is list else ():
        if type(check) is dict and type(check.get("id")) is str and type(check.get("satisfied")) is bool:
            counted = evaluator.checks.setdefault(group, Checks(Counter(), Counter()))
            counted.judged[check["id"]] += 1
            counted.satisfied[check["id"]] += check["satisfied"]


def _flat(results: Sequence[Any]) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """Evaluators, each followed by its members: name, name of the composite, result."""
    waiting: list[tuple[Any, str | None, str, int]] = [(result, None, "", 0) for result in reversed(results)]
    while waiting:
        result, member_of, turn, depth = waiting.pop()
        name = result.get("name") if type(result) is dict else None
        if type(name) is not str:
            continue
        # Rows name the evaluators of a turn after it, `cases.jsonl` does not.
        full = name if member_of is None else f"{member_of}{IN}{name.removeprefix(turn)}"
        yield full, member_of, result
        members = result.get("evaluator_results")
        if type(members) is list and depth < DEEPEST:
            turn = f"{name}/" if result.get("type") == "turn" else ""
            waiting += [(member, full, turn, depth + 1) for member in reversed(members)]
