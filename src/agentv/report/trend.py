"""The mean score of a suite with a target over several runs, on the cases that the runs share.

The line breaks where what measures the scores has changed (`ruler.py`): scores on either side are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentv.errors import RecordError
from agentv.record.catalog import RunEntry
from agentv.record.reading import RunReader
from agentv.report.compare import Conclusion, conclude
from agentv.report.labels import replayed_id
from agentv.report.ruler import Ruler
from agentv.report.statistics import Interval, exact, fewest_to_tell, mean, score_interval
from agentv.text import plural

CONFIDENCE = 0.95


class LeftOut(NamedTuple):
    """A run that is not part of a line."""

    entry: RunEntry
    reason: str
    on_purpose: bool = False
    """Whether only a part of the cases was selected for the run."""


class LineKey(NamedTuple):
    """A suite with one target."""

    suite: str
    target: str


@dataclass(slots=True)
class Point:
    """One run in a line."""

    entry: RunEntry
    ruler: Ruler
    scores: Mapping[str, float]
    """The score of each case; of a case with several attempts, the mean."""
    errors: int
    breaks: list[str] = field(default_factory=list)
    """What changed since the run before."""
    shared: tuple[str, ...] = ()
    """The cases that all runs between two breaks have scored."""

    @property
    def mean(self) -> float | None:
        return mean(self.shared_scores) if self.shared else None

    @property
    def interval(self) -> Interval | None:
        return score_interval(self.shared_scores)

    @property
    def shared_scores(self) -> list[float]:
        return [self.scores[name] for name in self.shared]

    def to_dict(self) -> dict[str, Any]:
        started, git = self.entry.started, self.entry.manifest.get("git")
        return {
            "run_id": self.entry.id,
            "name": self.entry.labels.name,
            "started_at": started.isoformat() if started else None,
            "mean_score": self.mean,
            "mean_interval": list(self.interval) if self.interval else None,
            "shared_cases": len(self.shared),
            "scored_cases": len(self.scores),
            "errors": self.errors,
            "changed": self.breaks,
            "git": git if isinstance(git, Mapping) else None,
        }


@dataclass(frozen=True, slots=True)
class Test:
    """The latest run compared with earlier ones, case by case."""

    against: str
    cases: int
    confidence: float
    mean_delta: float | None
    interval: Interval | None
    conclusion: Conclusion

    def to_dict(self) -> dict[str, Any]:
        return {
            "against": self.against,
            "cases": self.cases,
            "confidence": self.confidence,
            "mean_delta": self.mean_delta,
            "interval": list(self.interval) if self.interval else None,
            "conclusion": self.conclusion.value,
        }


@dataclass(slots=True)
class TrendLine:
    """The runs of one suite with one target, oldest first."""

    key: LineKey
    points: list[Point] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    """Runs that are not part of the line, newest first."""
    tests: list[Test] = field(default_factory=list)

    @property
    def last_segment(self) -> list[Point]:
        """The runs since the line broke last."""
        start = max((i for i, point in enumerate(self.points) if point.breaks), default=0)
        return self.points[start:]

    @property
    def is_degrading(self) -> bool:
        """Whether the latest run is significantly worse than the runs before it, since the line broke last."""
        return self.too_little() is None and any(test.conclusion is Conclusion.WORSE for test in self.tests)

    def too_little(self) -> str | None:
        """Why the latest run cannot be compared with earlier ones; None if it can."""
        if (latest := self.missing_latest) is not None:
            return f"{latest.entry.id} is left out"
        if len(self.points) < 2:
            return "there is only one run" if self.points else "there are no runs"
        if len(self.last_segment) < 2:
            return f"the latest run is the first one since the line broke ({'; '.join(self.points[-1].breaks)})"
        if not self.points[-1].shared:
            return "the runs have no scored cases in common"
        if all(test.conclusion is Conclusion.TOO_FEW for test in self.tests):
            least = fewest_to_tell(self.tests[0].confidence)
            return f"{plural(len(self.points[-1].shared), 'case')} in common, at least {least} needed"
        return None

    @property
    def missing_latest(self) -> LeftOut | None:
        """The latest run, if it should be in the line and is not."""
        latest = next((run for run in self.left_out if not run.on_purpose), None)
        if latest is None or not self.points:
            return latest
        one, other = latest.entry.started, self.points[-1].entry.started
        return latest if one is not None and other is not None and one > other else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "suite": self.key.suite,
            "target": self.key.target,
            "points": [point.to_dict() for point in self.points],
            "left_out": [{"run_id": run.entry.id, "reason": run.reason} for run in self.left_out],
            "tests": [test.to_dict() for test in self.tests],
            "degrading": self.is_degrading,
            "note": self.too_little(),
        }


def build_trend(
    entries: Iterable[RunEntry], *, suites: set[str] | None, target: str | None, last: int
) -> list[TrendLine]:
    """The lines of these runs, which come newest first; each with at most `last` runs.

    `suites` are the names of the suites to show, None for all of them.
    """
    lines: dict[LineKey, TrendLine] = {}
    for entry in entries:
        if entry.problem is not None:
            continue
        open_lines = [
            key
            for key in _lines_of(entry.manifest)
            if (suites is None or key.suite in suites)
            and (target is None or key.target == target)
            and len(lines.setdefault(key, TrendLine(key)).points) < last
        ]
        if not open_lines or (status := entry.status()) == "running":
            continue
        left_out = None
        if (replayed := replayed_id(entry.manifest)) is not None:
            left_out = LeftOut(entry, f"it replays run {replayed} and measures nothing new", on_purpose=True)
        elif status != "finished":
            left_out = LeftOut(entry, f"it is not finished ({status})")
        _add(entry, [lines[key] for key in open_lines], left_out)
    for line in lines.values():
        line.points.reverse()
        _connect(line)
    return [line for _, line in sorted(lines.items()) if line.points or line.left_out]


def _add(entry: RunEntry, lines: Sequence[TrendLine], left_out: LeftOut | None) -> None:
    """Add a run to its lines, or to what they leave out."""
    if left_out is None:
        try:
            _read(entry, lines)
        except RecordError as error:
            left_out = LeftOut(entry, error.message)
    if left_out is not None:
        for line in lines:
            line.left_out.append(left_out)


def _read(entry: RunEntry, lines: Sequence[TrendLine]) -> None:
    reader = RunReader.open(entry.directory)
    hashes = reader.case_hashes()
    attempts: dict[LineKey, dict[str, list[float]]] = {line.key: {} for line in lines}
    for head in reader.heads():
        cases = attempts.get(LineKey(head.key.suite, head.key.target))
        if cases is not None:
            cases.setdefault(head.key.eval_id, []).extend([] if head.errored else [head.score])
    for line in lines:
        cases = attempts[line.key]
        scores = {name: mean(values) for name, values in cases.items() if values}
        total = max(len(cases), _all_cases(entry.manifest, line.key.suite))
        if 2 * len(scores) < total or not scores:
            reason = f"only {len(scores):,} of {plural(total, 'case')} scored"
            line.left_out.append(LeftOut(entry, reason, on_purpose=len(scores) == len(cases) > 0))
            continue
        ruler = Ruler.of(reader.manifest, line.key.suite, line.key.target, hashes)
        line.points.append(Point(entry, ruler, scores, len(cases) - len(scores)))


def _connect(line: TrendLine) -> None:
    """Find the breaks, the shared cases between them, and test the latest run."""
    for before, after in zip(line.points, line.points[1:], strict=False):
        after.breaks = after.ruler.changes(before.ruler, [name for name in after.scores if name in before.scores])
    segments: list[list[Point]] = []
    for point in line.points:
        if not segments or point.breaks:
            segments.append([])
        segments[-1].append(point)
    for segment in segments:
        shared = tuple(name for name in segment[0].scores if all(name in point.scores for point in segment))
        for point in segment:
            point.shared = shared
    if segments and len(segments[-1]) > 1 and segments[-1][0].shared and line.missing_latest is None:
        line.tests = _tests(segments[-1])


def _tests(points: Sequence[Point]) -> list[Test]:
    """The latest run against the one before it and, if there are more, against the mean of all earlier ones.

    With two tests, each has half of the chance of a false alarm.
    """
    *earlier, latest = points
    sides = [("the run before", earlier[-1:])]
    if len(earlier) > 1:
        sides.append((f"the mean of the {len(earlier)} runs before", earlier))
    confidence = 1 - (1 - CONFIDENCE) / len(sides)
    tests = []
    for name, runs in sides:
        deltas = [exact(latest.scores[case] - mean([run.scores[case] for run in runs])) for case in latest.shared]
        tests.append(Test(name, len(deltas), confidence, *conclude(deltas, confidence)))
    return tests


def _lines_of(manifest: Mapping[str, Any]) -> list[LineKey]:
    suites = manifest.get("suites")
    keys = []
    for suite in suites if isinstance(suites, list) else []:
        name = suite.get("name") if isinstance(suite, Mapping) else None
        if not isinstance(name, str):
            continue
        keys += [LineKey(name, target) for target in _targets(manifest, suite)]
    return list(dict.fromkeys(keys))


def _targets(manifest: Mapping[str, Any], suite: Mapping[str, Any]) -> list[str]:
    """The targets of a suite. Rows of recorded answers have the names of the targets that gave them."""
    summary = manifest.get("summary")
    counted = summary.get("by_variant") or summary.get("by_target") if isinstance(summary, Mapping) else None
    answered = [name for name in counted if isinstance(name, str)] if isinstance(counted, Mapping) else []
    planned = suite.get("targets")
    names = [name for name in planned if isinstance(name, str)] if isinstance(planned, Mapping) else []
    return [name for name in names if name in answered] or answered or names


def _all_cases(manifest: Mapping[str, Any], suite: str) -> int:
    """The number of cases of the suite, including those that were not selected; 0 if unknown."""
    suites = manifest.get("suites")
    for recorded in suites if isinstance(suites, list) else []:
        if isinstance(recorded, Mapping) and recorded.get("name") == suite:
            count = recorded.get("all_cases", recorded.get("cases"))
            return count if isinstance(count, int) and 0 <= count < 2**53 else 0
    return 0
