"""One case in two runs: side by side on a wide terminal, otherwise one below the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from agentv.codec import encode
from agentv.evidence import CaseRecord
from agentv.messages import Message, whole_text
from agentv.report.case_view import CaseView, score_sentences
from agentv.report.compare import format_delta
from agentv.report.format import format_score
from agentv.report.show_case import WITHOUT_CASES, Page, compact, messages, outcome_mark, outcome_of, spent
from agentv.report.terminal import INDENT, Look, columns
from agentv.report.word_diff import both_sides, flow, merged
from agentv.results import CaseResult, EvaluatorResult

SIDE_BY_SIDE = 100
"""Columns from which both runs are shown side by side."""
_FIELDS = {
    "input_messages": "question",
    "expected_outcome": "expected outcome",
    "expected_messages": "expected messages",
    "reference_answer": "reference answer",
    "threshold": "threshold",
    "evaluators": "evaluators",
    "metadata": "metadata",
    "tags": "tags",
}


class DiffPage(Page):
    """A page with two columns, or with both sides one below the other."""

    def __init__(self, look: Look) -> None:
        super().__init__(look)
        self.is_wide = look.width >= SIDE_BY_SIDE
        self._line = look.mark("│", "|")
        self.column = (look.width - len(INDENT) - 3) // 2 if self.is_wide else look.width - 2 * len(INDENT)

    def rows(self, left: Sequence[tuple[str, int]], right: Sequence[tuple[str, int]]) -> None:
        """Two columns of lines, each with the number of columns it takes."""
        for number in range(max(len(left), len(right))):
            one, taken = left[number] if number < len(left) else ("", 0)
            two, _ = right[number] if number < len(right) else ("", 0)
            space = " " * (self.column - taken)
            self.lines.append(f"{INDENT}{one}{space} {self.look.style(self._line, 'dim')} {two}".rstrip())

    def sides(self, left: str, right: str) -> None:
        """Two strings, without marks."""
        if self.is_wide:
            self.rows(
                *([(line, columns(line)) for line in self.look.block(text, self.column)] for text in (left, right))
            )
            return
        for name, text in (("before", left), ("after", right)):
            self.text(text, 1, first=f"{name:<6}  ")

    def changes(self, left: str, right: str) -> None:
        """Two strings with the words marked that differ."""
        if self.is_wide:
            self.rows(*(flow(words, self.column, self.look) for words in both_sides(left, right, self.look)))
            return
        for line, _ in flow(merged(left, right, self.look), self.look.width - len(INDENT), self.look):
            self.lines.append(f"{INDENT}{line}".rstrip())


def render_diff(before: CaseView, after: CaseView, look: Look) -> str:
    """The same case in two runs as text."""
    page = DiffPage(look)
    page.lines.append(_headline(before.row, after.row, look))
    page.fields([("before", _source(before)), ("after", _source(after))])
    _case_changes(before, after, page)
    page.heading("Answer", "unchanged" if before.row.candidate_answer == after.row.candidate_answer else "")
    if before.row.candidate_answer == after.row.candidate_answer:
        page.text(after.row.candidate_answer or "(empty)")
    else:
        page.changes(before.row.candidate_answer or "(empty)", after.row.candidate_answer or "(empty)")
    _tool_calls(before.row, after.row, page)
    page.heading("Score")
    page.sides(*("\n".join(score_sentences(view.row, view.threshold)) for view in (before, after)))
    _evaluators(before, after, page)
    page.heading("More")
    for view in (before, after):
        command = f"{view.reader.directory.show_command} {quote(view.row.eval_id)}"
        page.lines.append(f"{INDENT}{look.text(command)}")
    return "\n".join(page.lines)


def diff_to_dict(before: CaseView, after: CaseView) -> dict[str, Any]:
    """Both sides as one JSON object."""
    changed = None if before.case is None or after.case is None else _changed(before.case, after.case)
    return {"before": before.to_dict(), "after": after.to_dict(), "case_changed": changed}


def _headline(before: CaseResult, after: CaseResult, look: Look) -> str:
    outcomes = [outcome_of(row, look) for row in (before, after)]
    arrow = look.mark("→", "->")
    delta = "" if before.error or after.error else f"  ({format_delta(after.score - before.score)})"
    one, two = (look.style(text, style) for _, text, style in outcomes)
    room = look.width - sum(len(text) for _, text, _ in outcomes) - len(delta) - 6
    name = look.cut(look.text(after.eval_id), max(10, room))
    return f"{look.style(name, 'bold')}  {one} {arrow} {two}{look.style(delta, 'dim')}"


def _source(view: CaseView) -> str:
    row = view.row
    model = f" ({row.model})" if row.model else ""
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    cost = spent(row.duration_ms, row.token_usage, row.cost_usd)
    return f"{view.run_id}, {row.variant}{model}{attempt}{f', {cost}' if cost else ''}"


# -- the case


def _case_changes(before: CaseView, after: CaseView, page: DiffPage) -> None:
    old, new = before.case, after.case
    if old is None or new is None:
        hashes = {before.row.case_sha256, after.row.case_sha256}
        page.heading("Question")
        if None not in hashes and len(hashes) > 1:
            page.text("The case was changed between the runs.", 1, "yellow")
        if new is None and old is None:
            page.text(WITHOUT_CASES, 1, "dim")
        else:
            messages((new or old or CaseRecord("", "", "", ())).input_messages, page)
        return
    changed = _changed(old, new)
    page.heading("Question", "unchanged" if "question" not in changed else "")
    if changed:
        names = ", ".join(changed)
        page.text(f"The case was changed between the runs: {names}.", 1, "yellow")
    if "question" in changed:
        page.changes(_conversation(old.input_messages), _conversation(new.input_messages))
    else:
        messages(new.input_messages, page)
    for name, title in (("expected_outcome", "Expected"), ("reference_answer", "Reference answer")):
        one, two = getattr(old, name) or "", getattr(new, name) or ""
        if one or two:
            page.heading(title)
            page.text(two) if one == two else page.changes(one or "(none)", two or "(none)")


def _changed(old: CaseRecord, new: CaseRecord) -> list[str]:
    """What differs between two versions of a case."""
    one, two = encode(old), encode(new)
    return [word for name, word in _FIELDS.items() if one[name] != two[name]]


def _conversation(asked: Sequence[Message]) -> str:
    if len(asked) == 1:
        return whole_text(asked[0])
    return "\n\n".join(f"{message.role}: {whole_text(message)}" for message in asked)


# -- how it was judged


def _tool_calls(before: CaseResult, after: CaseResult, page: DiffPage) -> None:
    one, two = (
        "\n".join(
            f"{call.tool} {compact(call.input)}" for message in row.output_messages for call in message.tool_calls
        )
        for row in (before, after)
    )
    if one or two:
        page.heading("Tool calls", "unchanged" if one == two else "")
        page.text(two) if one == two else page.changes(one or "(none)", two or "(none)")


def _evaluators(before: CaseView, after: CaseView, page: DiffPage) -> None:
    old: Mapping[str, EvaluatorResult] = {result.name: result for result in before.row.evaluator_results}
    new: Mapping[str, EvaluatorResult] = {result.name: result for result in after.row.evaluator_results}
    names = [*new, *(name for name in old if name not in new)]
    if not names:
        return
    page.heading("Evaluators")
    for number, name in enumerate(names):
        if number:
            page.lines.append("")
        one, two = old.get(name), new.get(name)
        page.lines.append(f"{INDENT}{page.look.style(page.look.text(name), 'bold')}{_delta(one, two, page.look)}")
        if _judged(one, page.look) == _judged(two, page.look):
            page.text(_judged(two, page.look), 2)
            continue
        page.sides(_judged(one, page.look), _judged(two, page.look))


def _delta(one: EvaluatorResult | None, two: EvaluatorResult | None, look: Look) -> str:
    if one is None or two is None or one.error is not None or two.error is not None or one.score == two.score:
        return ""
    delta = two.score - one.score
    return f"  {look.style(format_delta(delta), 'green' if delta > 0 else 'red')}"


def _judged(result: EvaluatorResult | None, look: Look) -> str:
    if result is None:
        return "(not used)"
    mark, _ = outcome_mark(result, look)
    if result.error is not None:
        return f"{mark} error: {result.error}"
    lines = [f"{mark} {result.verdict.value} {format_score(result.score)}"]
    lines += [result.reasoning] if result.reasoning else []
    return "\n".join([*lines, *(f"+ {hit}" for hit in result.hits), *(f"- {miss}" for miss in result.misses)])
