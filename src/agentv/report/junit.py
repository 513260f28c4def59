"""JUnit XML, for the test reports of CI systems.

    testsuites > testsuite (one per suite and target) > testcase > failure or error

A case that failed or is borderline is a `failure`; an errored case is an `error`. An incomplete run adds a test case
with an `error`, so that missing rows do not look like success. Rows are spooled to a temporary file and grouped from
there, which keeps memory use low for runs of any length.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO
from xml.sax.saxutils import escape

from agentv.report.accumulate import ExactSum, why
from agentv.report.annotations import Gap, Locate, no_gap, nowhere
from agentv.report.format import format_score
from agentv.report.terminal import clean
from agentv.results import CaseResult, EvaluatorResult, RowKey, Verdict

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
    spans: list[tuple[int, int, int, int]] = field(default_factory=list)
    """For each test case: its start, the position of its attempt number, its end, and the attempt number."""

    @property
    def name(self) -> str:
        return f"{self.suite} ({self.target})" if self.target else self.suite


def render_junit(
    rows: Iterable[CaseResult],
    properties: Mapping[str, str] | None = None,
    locate: Locate = nowhere,
    gap: Gap = no_gap,
    question: Question = not_recorded,
) -> Iterator[str]:
    """The report in chunks. `properties` are added to every test suite; a gap becomes an additional test case."""
    groups: dict[tuple[str, str], _Group] = {}
    with tempfile.TemporaryFile() as spool:
        for row in rows:
            group = groups.setdefault((row.suite, row.target), _Group(row.suite, row.target))
            _count(group, row)
            before, after = _case(row, group.name, locate, question)
            start = spool.tell()
            spool.write(before)
            split = spool.tell()
            spool.write(after)
            group.spans.append((start, split, spool.tell(), row.attempt))
        missing = gap(sum(len(group.spans) for group in groups.values()))
        yield from _document([groups[key] for key in sorted(groups)], properties or {}, spool, missing)


def _count(group: _Group, row: CaseResult) -> None:
    group.seconds.add((row.duration_ms or 0.0) / 1000)
    if row.error is not None:
        group.errors += 1
    else:
        group.scores.add(row.score)
        group.failures += row.verdict is not Verdict.PASS
    if _STARTED.match(row.started_at) and (not group.started or row.started_at < group.started):
        group.started = row.started_at


def _document(
    groups: list[_Group], properties: Mapping[str, str], spool: IO[bytes], missing: str | None
) -> Iterator[str]:
    incomplete = int(missing is not None)
    everything = {
        "name": "agentv",
        "tests": str(sum(len(group.spans) for group in groups) + incomplete),
        "failures": str(sum(group.failures for group in groups)),
        "errors": str(sum(group.errors for group in groups) + incomplete),
        "skipped": "0",
        "time": f"{sum(group.seconds.total for group in groups):.3f}",
    }
    repeated = any(span[3] > 1 for group in groups for span in group.spans)
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites{_attributes(everything)}>\n'
    for group in groups:
        yield from _suite(group, properties, spool, repeated)
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


def _suite(group: _Group, properties: Mapping[str, str], spool: IO[bytes], repeated: bool) -> Iterator[str]:
    attributes = {
        "name": group.name,
        "tests": str(len(group.spans)),
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
    for start, split, end, attempt in group.spans:
        spool.seek(start)
        yield spool.read(split - start).decode("utf-8")
        yield f" [attempt {attempt}]" if repeated else ""
        yield spool.read(end - split).decode("utf-8")
    yield "  </testsuite>\n"


def _case(row: CaseResult, classname: str, locate: Locate, question: Question) -> tuple[bytes, bytes]:
    """A test case in two parts: up to the end of its name, and the rest."""
    rest = {"classname": classname, "time": f"{(row.duration_ms or 0.0) / 1000:.3f}"}
    place = locate(row.key) if row.error is not None or row.verdict is not Verdict.PASS else None
    if place is not None:
        rest |= {"file": place.file, "line": str(place.line)}
    properties = {"score": f"{row.score:.6g}", "verdict": row.verdict.value, "attempt": str(row.attempt)}
    if row.error is not None:
        properties = {"attempt": str(row.attempt)}
    if row.cost_usd is not None:
        properties["cost_usd"] = f"{row.cost_usd:.6g}"
    name = f'    <testcase name="{_attribute(row.eval_id)}'
    body = f'"{_attributes(rest)}>\n{_properties(properties, "      ")}{_outcome(row, question)}    </testcase>\n'
    return name.encode("utf-8"), body.encode("utf-8")


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
    """The result of each evaluator, the question and the answer."""
    for result in row.evaluator_results:
        yield from _judgment(result)
    if not row.evaluator_results:
        yield from (f"missed: {miss}" for miss in row.misses)
        if row.reasoning:
            yield row.reasoning
    if question:
        yield f"question: {question}"
    if row.candidate_answer:
        cut = row.candidate_answer[:_ANSWER]
        yield f"answer: {cut}{'...' if len(cut) < len(row.candidate_answer) else ''}"


def _judgment(result: EvaluatorResult) -> Iterator[str]:
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
