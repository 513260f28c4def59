"""JUnit XML, for the test reports of CI systems.

    testsuites > testsuite (one per suite and target) > testcase > failure or error

A case that failed or is borderline is a `failure`; an errored case is an `error`. The attempts of a case are one test
case, which lists them in `system-out`. An incomplete run adds a test case with an `error`, so that missing rows do not
look like success. Rows are spooled to a temporary file and grouped from there, which keeps memory use low for runs of
any length.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, NamedTuple
from xml.sax.saxutils import escape

from agentv.report.accumulate import ExactSum, why
from agentv.report.annotations import Gap, Locate, no_gap, nowhere
from agentv.report.format import format_score
from agentv.report.terminal import clean
from agentv.report.trials import RepeatedCases, passes_of
from agentv.results import CaseResult, EvaluatorResult, RowKey, Verdict
from agentv.trials import Attempts

_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, and control characters that it discourages."""
_STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_TEXT = 8_000
_MESSAGE = 500
_ANSWER = 2_000


Question = Callable[[RowKey], str | None]
"""Returns what was asked in a row, or None if it is unknown."""


def not_recorded(key: RowKey) -> str | None:  # noqa: ARG001 - one signature for all
    """A `Question` for rows whose cases were not recorded."""
    return None


class _Attempt(NamedTuple):
    """One attempt of a case: its number, and where its parts are in the spool file."""

    number: int
    alone: tuple[int, int]
    """The test case, if this turns out to be the only attempt."""
    line: tuple[int, int]
    explained: tuple[int, int]
    """Why it did not pass; empty if it passed."""


@dataclass(slots=True)
class _Several:
    """A case with several attempts."""

    case: Attempts
    key: RowKey
    attempts: list[_Attempt] = field(default_factory=list)
    seconds: ExactSum = field(default_factory=ExactSum)
    cost: ExactSum = field(default_factory=ExactSum)


@dataclass(slots=True)
class _Group:
    """The rows of one suite and target: their totals, and where their text is in the spool file."""

    suite: str
    target: str
    failures: int = 0
    errors: int = 0
    seconds: ExactSum = field(default_factory=ExactSum)
    scores: ExactSum = field(default_factory=ExactSum)
    started: str = ""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """For each test case of a single row: its start and its end."""
    several: dict[str, _Several] = field(default_factory=dict)
    """Cases that have several attempts, or may have, by id."""

    @property
    def tests(self) -> int:
        return len(self.spans) + len(self.several)

    @property
    def name(self) -> str:
        return f"{self.suite} ({self.target})" if self.target else self.suite


def render_junit(
    rows: Iterable[CaseResult],
    properties: Mapping[str, str] | None = None,
    locate: Locate = nowhere,
    gap: Gap = no_gap,
    question: Question = not_recorded,
    *,
    repeated: RepeatedCases | None = None,
) -> Iterator[str]:
    """The report in chunks. `properties` are added to every test suite; a gap becomes an additional test case."""
    groups: dict[tuple[str, str], _Group] = {}
    repeated = repeated or RepeatedCases(every=True)
    count = 0
    with tempfile.TemporaryFile() as spool:
        for row in rows:
            count += 1
            group = groups.setdefault((row.suite, row.variant), _Group(row.suite, row.variant))
            group.seconds.add((row.duration_ms or 0.0) / 1000)
            if _STARTED.match(row.started_at) and (not group.started or row.started_at < group.started):
                group.started = row.started_at
            alone = _spooled(spool, _case(row, group.name, locate, question))
            if repeated.add(row):
                case = repeated.cases[row.key.case]
                several = group.several.setdefault(row.eval_id, _Several(case, row.key))
                several.seconds.add((row.duration_ms or 0.0) / 1000)
                if row.cost_usd is not None:
                    several.cost.add(row.cost_usd)
                explained = "\n".join(_explained(row, question(row.key)))[:_TEXT] if _is_unmet(row) else ""
                texts = (_spooled(spool, _attempt_line(row)), _spooled(spool, explained))
                several.attempts.append(_Attempt(row.attempt, alone, *texts))
            else:
                group.spans.append(alone)
                _count(group, None if row.error is not None else row.verdict, row.score)
        for group in groups.values():
            for several in group.several.values():
                _count(group, several.case.verdict, several.case.score)
        yield from _document([groups[key] for key in sorted(groups)], properties or {}, spool, gap(count), locate)


def _spooled(spool: IO[bytes], text: str) -> tuple[int, int]:
    start = spool.tell()
    spool.write(text.encode("utf-8", "surrogatepass"))
    return start, spool.tell()


def _text(spool: IO[bytes], span: tuple[int, int]) -> str:
    start, end = span
    spool.seek(start)
    return spool.read(end - start).decode("utf-8", "surrogatepass")


def _count(group: _Group, verdict: Verdict | None, score: float | None) -> None:
    if verdict is None:
        group.errors += 1
        return
    group.failures += verdict is not Verdict.PASS
    if score is not None:
        group.scores.add(score)


def _document(
    groups: list[_Group], properties: Mapping[str, str], spool: IO[bytes], missing: str | None, locate: Locate
) -> Iterator[str]:
    incomplete = int(missing is not None)
    everything = {
        "name": "agentv",
        "tests": str(sum(group.tests for group in groups) + incomplete),
        "failures": str(sum(group.failures for group in groups)),
        "errors": str(sum(group.errors for group in groups) + incomplete),
        "skipped": "0",
        "time": f"{sum(group.seconds.total for group in groups):.3f}",
    }
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites{_attributes(everything)}>\n'
    for group in groups:
        yield from _suite(group, properties, spool, locate)
    if missing is not None:
        yield _incomplete(missing)
    yield "</testsuites>\n"


def _incomplete(missing: str) -> str:
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0", "time": "0.000"}
    case = _attributes({"name": "the run is complete", "classname": "agentv", "time": "0.000"})
    error = _element("error", missing, "run error", missing)
    suite = _attributes({"name": "agentv", **counts})
    properties = _properties({"complete": "false"}, "      ")
    return f"  <testsuite{suite}>\n    <testcase{case}>\n{properties}{error}    </testcase>\n  </testsuite>\n"


def _suite(group: _Group, properties: Mapping[str, str], spool: IO[bytes], locate: Locate) -> Iterator[str]:
    attributes = {
        "name": group.name,
        "tests": str(group.tests),
        "failures": str(group.failures),
        "errors": str(group.errors),
        "skipped": "0",
        "time": f"{group.seconds.total:.3f}",
    }
    if group.started:
        attributes["timestamp"] = group.started[:19]
    yield f"  <testsuite{_attributes(attributes)}>\n"
    suite_properties = {"suite": group.suite, "target": group.target, **properties}
    if group.scores.mean is not None:
        suite_properties["mean_score"] = f"{group.scores.mean:.6g}"
    yield _properties(suite_properties, "    ")
    for span in group.spans:
        yield _text(spool, span)
    for several in group.several.values():
        if several.case.count > 1:
            yield _repeated_case(several, group.name, spool, locate)
        else:
            yield _text(spool, several.attempts[0].alone)
    yield "  </testsuite>\n"


def _repeated_case(several: _Several, classname: str, spool: IO[bytes], locate: Locate) -> str:
    """A test case with several attempts."""
    case = several.case
    rest = {"classname": classname, "time": f"{several.seconds.total:.3f}"}
    place = locate(several.key) if case.verdict is not Verdict.PASS else None
    if place is not None:
        rest |= {"file": place.file, "line": str(place.line)}
    properties = {"attempts": str(case.finished), "passed_attempts": str(case.passes)}
    properties |= {"pass_if": case.trials.pass_if.value, "flaky": str(case.is_flaky).lower()}
    if case.verdict is not None and case.score is not None:
        properties = {"score": f"{case.score:.6g}", "verdict": case.verdict.value, **properties}
    if several.cost.count:
        properties["cost_usd"] = f"{several.cost.total:.6g}"
    several.attempts.sort()
    lines = [_text(spool, attempt.line) for attempt in several.attempts]
    outcome = _repeated_outcome(case, lines, [_text(spool, attempt.explained) for attempt in several.attempts])
    output = f"      <system-out>{_content(chr(10).join(lines))}</system-out>\n"
    name = _attributes({"name": several.key.eval_id, **rest})
    return f"    <testcase{name}>\n{_properties(properties, '      ')}{outcome}{output}    </testcase>\n"


def _repeated_outcome(case: Attempts, lines: list[str], explained: list[str]) -> str:
    if case.verdict is Verdict.PASS:
        return ""
    unmet = [(line, text) for line, text in zip(lines, explained, strict=True) if text]
    first = unmet[0][0] if unmet else ""
    text = "\n".join(f"{line}\n{text}" for line, text in unmet)
    if case.is_incomplete:
        message = f"{case.missing:,} of {case.count:,} attempts are missing; {case.passes}/{case.finished} passed"
        return _element("error", message, "incomplete", text)
    if case.verdict is None:
        return _element(
            "error", f"{case.errors:,} of {case.count:,} attempts errored; {first}", "attempts errored", text
        )
    message = f"score {format_score(case.score)}, {case.verdict.value}, {passes_of(case)}; {first}"
    return _element("failure", message, case.verdict.value, text)


def _is_unmet(row: CaseResult) -> bool:
    return row.error is not None or row.verdict is not Verdict.PASS


def _attempt_line(row: CaseResult) -> str:
    if row.error is not None:
        return f"attempt {row.attempt}: {row.error.stage} error: {clean(row.error.message)[:_MESSAGE]}"
    line = f"attempt {row.attempt}: score {format_score(row.score)}, {row.verdict.value}"
    return line if row.verdict is Verdict.PASS else f"{line}: {clean(why(row)[1])[:_MESSAGE]}"


def _case(row: CaseResult, classname: str, locate: Locate, question: Question) -> str:
    """The test case of a single row."""
    rest = {"classname": classname, "time": f"{(row.duration_ms or 0.0) / 1000:.3f}"}
    place = locate(row.key) if row.error is not None or row.verdict is not Verdict.PASS else None
    if place is not None:
        rest |= {"file": place.file, "line": str(place.line)}
    properties = {"score": f"{row.score:.6g}", "verdict": row.verdict.value, "attempt": str(row.attempt)}
    if row.error is not None:
        properties = {"attempt": str(row.attempt)}
    if row.cost_usd is not None:
        properties["cost_usd"] = f"{row.cost_usd:.6g}"
    name = _attributes({"name": row.eval_id, **rest})
    return f"    <testcase{name}>\n{_properties(properties, '      ')}{_outcome(row, question)}    </testcase>\n"


def _outcome(row: CaseResult, question: Question) -> str:
    if row.error is not None:
        return _element("error", row.error.message, f"{row.error.stage} error", row.error.message)
    if row.verdict is Verdict.PASS:
        return ""
    evaluator, reason = why(row)
    named = f"{evaluator}: " if evaluator and len(row.evaluator_results) > 1 else ""
    message = f"score {format_score(row.score)}, {row.verdict.value}" + (f": {named}{reason}" if reason else "")
    return _element("failure", message, row.verdict.value, "\n".join(_explained(row, question(row.key))))


def _explained(row: CaseResult, question: str | None) -> Iterator[str]:
    """The error, or the result of each evaluator, the question and the answer."""
    if row.error is not None:
        yield row.error.message
    for result in row.evaluator_results:
        yield from judgment(result)
    if not row.evaluator_results:
        yield from (f"missed: {miss}" for miss in row.misses)
        if row.reasoning:
            yield row.reasoning
    if question:
        yield f"question: {question}"
    if row.candidate_answer:
        cut = row.candidate_answer[:_ANSWER]
        yield f"answer: {cut}{'...' if len(cut) < len(row.candidate_answer) else ''}"


def judgment(result: EvaluatorResult) -> Iterator[str]:
    """The verdict of an evaluator, and its reasons."""
    yield f"{result.name} ({result.type}): {result.verdict.value}, score {format_score(result.score)}"
    yield from (f"  missed: {miss}" for miss in result.misses)
    if result.reasoning:
        yield f"  {result.reasoning}"


def _element(name: str, message: str, kind: str, text: str) -> str:
    attributes = {"message": message[:_MESSAGE], "type": kind}
    return f"      <{name}{_attributes(attributes)}>{_content(text)}</{name}>\n"


def _properties(values: Mapping[str, str], indent: str) -> str:
    lines = [f"{indent}  <property{_attributes({'name': name, 'value': value})}/>\n" for name, value in values.items()]
    return f"{indent}<properties>\n{''.join(lines)}{indent}</properties>\n"


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{_attribute(value)}"' for name, value in values.items())


def _attribute(text: str) -> str:
    """Escaped, on one line: XML parsers replace line breaks in attributes with spaces."""
    return _escaped(clean(text)).replace('"', "&quot;")


def _content(text: str) -> str:
    lines = text[:_TEXT].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    legal = "\n".join(_ILLEGAL.sub("\ufffd", line) for line in lines)
    return _escaped(legal)


def _escaped(text: str) -> str:
    """Escaped for XML, and for CI logs that run `::command::` and `##[command]`."""
    return escape(_ILLEGAL.sub("\ufffd", text)).replace("::", "&#58;:").replace("##", "&#35;#")
