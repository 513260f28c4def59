"""A case of a run, to be read: what was asked and answered, how it was judged, and each judge call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentv.evidence import EvaluatorRecord, JudgeCallRecord
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.record.reading import RowHead
from agentv.report.case_view import CaseView, format_threshold, score_sentences
from agentv.report.choosing import Choice, passed
from agentv.report.console import ERROR_STYLE, VERDICT_STYLE
from agentv.report.format import format_cost, format_duration, format_score
from agentv.report.questions import part_shown
from agentv.report.terminal import INDENT, Look, columns
from agentv.results import CUT_OFF, CaseResult, EvaluatorResult, TurnRecord, Verdict, judge_ledgers
from agentv.text import plural, short_path

LEAST_WIDTH = 40
WITHOUT_CASES = "This run was recorded without its cases, by an older version of agentv."
WITHOUT_IO = "The prompt and the reply were not recorded (see --judge-io)."


class Page:
    """Lines of text, with headings at the margin and everything else indented."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.lines: list[str] = []

    def heading(self, text: str, note: str = "") -> None:
        if self.lines:
            self.lines.append("")
        self.lines.append(self.look.style(text, "bold", "cyan") + (f"  {self.look.style(note, 'dim')}" if note else ""))

    def text(self, text: str, indent: int = 1, *styles: str, first: str = "") -> None:
        """A block of text. `first` is printed before its first line, and the other lines are aligned with it."""
        margin = INDENT * indent
        room = self.look.width - len(margin) - columns(first)
        for number, line in enumerate(self.look.block(text, room) or [""]):
            start = first if number == 0 else " " * columns(first)
            self.lines.append((margin + self.look.style(start + line, *styles)).rstrip() if line or start else "")

    def label(self, text: str, indent: int = 1) -> None:
        self.text(text, indent, "dim")

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        pairs = [(name, text) for name, text in pairs if text]
        wide = max((len(name) for name, _ in pairs), default=0)
        for name, text in pairs:
            first, *others = self.look.block(text, self.look.width - len(INDENT) - wide - 2) or [""]
            self.lines.append(f"{INDENT}{self.look.style(f'{name:<{wide}}', 'dim')}  {first}".rstrip())
            self.lines += [f"{INDENT}{' ' * wide}  {line}" for line in others]


def render_case(view: CaseView, choice: Choice, commands: Sequence[tuple[str, str]], look: Look) -> str:
    """The case as text. `commands` are suggestions: a command and what it does."""
    page = Page(look)
    page.lines.append(_headline(view, look))
    page.fields(_facts(view, choice))
    if view.row.error is not None:
        page.heading("Error", f"of the {view.row.error.stage}")
        page.text(view.row.error.message, 1, ERROR_STYLE)
    _asked(view, page)
    if not view.row.turns:
        page.heading("Answer")
        page.text(view.row.candidate_answer or "(empty)")
    _trajectory(view.row, page)
    page.heading("Score")
    for sentence in score_sentences(view.row, view.threshold):
        page.text(sentence)
    if view.row.evaluator_results:
        page.heading("Evaluators")
        for number, result in enumerate(view.row.evaluator_results):
            if number and (view.row.evaluator_results[number - 1].misses or result.misses):
                page.lines.append("")
            _evaluator(result, view, page, 1)
    _calls(view, page)
    if view.reader.damaged.total():
        damaged = ", ".join(f"{plural(n, 'line')} of {name}" for name, n in view.reader.damaged.items() if n)
        page.heading("Damaged")
        page.text(f"{damaged} could not be read and were skipped.")
    if commands:
        page.heading("Next")
        _suggest(commands, page)
    return "\n".join(page.lines)


def _suggest(commands: Sequence[tuple[str, str]], page: Page) -> None:
    """Commands are never wrapped, so that they can be copied. Descriptions are above commands that are too long."""
    look = page.look
    wide = max(len(text) for _, text in commands)
    fits = all(len(INDENT) + wide + 2 + columns(look.text(command)) <= look.width for command, _ in commands)
    for command, text in commands:
        label = look.style(f"{text:<{wide}}" if fits else f"{text}:", "dim")
        page.lines += (
            [f"{INDENT}{label}  {look.text(command)}"] if fits else [INDENT + label, INDENT * 2 + look.text(command)]
        )


def outcome_of(row: CaseResult, look: Look) -> tuple[str, str, str]:
    """The mark of a row, its outcome in words, and its colour."""
    if row.error is not None:
        return "!", f"{row.error.stage} error", ERROR_STYLE
    mark = look.mark("✓", "+") if row.verdict is Verdict.PASS else look.mark("✗", "x")
    return mark, f"{row.verdict.value} {format_score(row.score)}", VERDICT_STYLE[row.verdict]


def _headline(view: CaseView, look: Look) -> str:
    mark, outcome, style = outcome_of(view.row, look)
    if view.threshold is not None and view.row.error is None:
        outcome += f", needs {format_threshold(view.threshold)}"
    name = look.cut(look.text(view.row.eval_id), max(10, look.width - 4 - len(outcome)))
    return f"{look.style(f'{mark} {name}', 'bold', style)}  {look.style(outcome, style)}"


def _facts(view: CaseView, choice: Choice) -> list[tuple[str, str]]:
    row, case = view.row, view.case
    place = "" if case is None or not case.file else f" ({short_path(Path(case.file), Path.cwd())}:{case.line})"
    model = f", model {row.model}" if row.model else ""
    stopped = f", stopped at the token limit ({row.finish_reason})" if row.finish_reason in CUT_OFF else ""
    tags, metadata = (case.tags, case.metadata) if case is not None else ((), row.metadata)
    return [
        ("suite", f"{row.suite}{place}"),
        ("target", f"{row.target}{model}{stopped}{_on_node(row.execution)}"),
        ("prompt", row.prompt or ""),
        ("run", f"{view.run_id}{_when(row.started_at)}"),
        ("usage", spent(row.duration_ms, row.token_usage, row.cost_usd, cache_hit=row.cache_hit)),
        ("user", _played(view)),
        ("tags", ", ".join(tags)),
        ("metadata", compact(metadata) if metadata else ""),
        ("conversation", row.conversation_id or ""),
        ("warnings", "\n".join(row.warnings)),
        ("also", _siblings(choice)),
    ]


def _when(started_at: str) -> str:
    return f", {started_at[:19].replace('T', ' ')}" if started_at else ""


def spent(
    duration_ms: float | None, usage: TokenUsage | None, cost_usd: float | None, *, cache_hit: bool = False
) -> str:
    """Time, tokens and cost of a call, as far as they are known."""
    parts = (["from the cache"] if cache_hit else []) + ([] if duration_ms is None else [_time(duration_ms)])
    if usage is not None:
        cached = f" + {usage.cached:,} cached" if usage.cached else ""
        parts.append(f"{usage.input:,}{cached} tokens in, {usage.output:,} out")
    if cost_usd is not None:
        parts.append(format_cost(cost_usd))
    return ", ".join(parts)


def _played(view: CaseView) -> str:
    """The target that played the user of a conversation, and what its messages cost."""
    user = view.case.user if view.case is not None else None
    usages = [turn.user_token_usage for turn in view.row.turns if turn.user_token_usage is not None]
    costs = [turn.user_cost_usd for turn in view.row.turns if turn.user_cost_usd is not None]
    cost = spent(None, sum(usages, TokenUsage()) if usages else None, sum(costs) if costs else None)
    return ", ".join(filter(None, (str(user.get("target", "")) if user else "", cost)))


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 999.5 else format_duration(milliseconds / 1000)


def _siblings(choice: Choice) -> str:
    """The outcomes of the other targets and attempts of this case."""
    others = [head for head in choice.siblings if head.key != choice.head.key]
    several_targets = len({head.key.target for head in choice.siblings}) > 1
    several_attempts = len({head.key.attempt for head in choice.siblings}) > 1
    names = []
    for head in others[:20]:
        parts = ([head.key.target] if several_targets else []) + (
            [f"attempt {head.key.attempt}"] if several_attempts else []
        )
        outcome = "error" if head.errored else f"{head.verdict.value} {format_score(head.score)}"
        names.append(f"{' '.join(parts)}: {outcome}")
    more = f"; and {len(others) - 20} more" if len(others) > 20 else ""
    attempts = [head for head in choice.siblings if head.key.target == choice.head.key.target]
    passes = sum(passed(head) for head in attempts)
    own = f"this is attempt {choice.head.key.attempt}, {passes}/{len(attempts)} passed; " if several_attempts else ""
    return f"{own}{'; '.join(names)}{more}" if names else ""


# -- question, expectation, answer


def _asked(view: CaseView, page: Page) -> None:
    case = view.case
    if view.row.turns:
        turns = view.row.turns
        page.heading("Conversation", plural(len(turns), "turn"))
        for number, turn in enumerate(turns, 1):
            _turn(number, turn, page)
    elif case is None:
        page.heading("Question")
        page.text(WITHOUT_CASES, 1, "dim")
    else:
        page.heading("Question", "" if view.sent is None else "as sent, with the prompts of the target")
        messages(case.input_messages if view.sent is None else view.sent, page)
    if case is None:
        return
    if case.expected_outcome:
        page.heading("Expected")
        page.text(case.expected_outcome)
    if case.reference_answer:
        page.heading("Reference answer")
        page.text(case.reference_answer)
    expected = case.expected_messages
    if expected and not (len(expected) == 1 and not expected[0].tool_calls and case.reference_answer):
        page.heading("Expected messages")
        messages(expected, page)


def _turn(number: int, turn: TurnRecord, page: Page) -> None:
    """The messages of a turn. Its number is in the first line, and what the answer took in the last label."""
    if number > 1:
        page.lines.append("")
    said = [*turn.input_messages, *turn.output_messages]
    stopped = f", stopped at the token limit ({turn.finish_reason})" if turn.finish_reason in CUT_OFF else ""
    cost = spent(turn.duration_ms, turn.token_usage, turn.cost_usd, cache_hit=turn.cache_hit) + stopped
    for place, message in enumerate(said):
        if place:
            page.lines.append("")
        first = f"turn {number}: " if not place else ""
        page.label(f"{first}{message.role}{f'  {cost}' if cost and place and message is said[-1] else ''}")
        _content(message, page, 2)
    if turn.unanswered:
        page.label("(no answer)")


def messages(asked: Sequence[Message], page: Page) -> None:
    """A conversation. The role is omitted if there is only a message of the user."""
    for number, message in enumerate(asked):
        alone = len(asked) == 1 and message.role == "user"
        if not alone:
            if number:
                page.lines.append("")
            page.label(f"{message.role} ({message.name})" if message.name else message.role)
        _content(message, page, 1 if alone else 2)


def _content(message: Message, page: Page, indent: int) -> None:
    content = message.content
    if isinstance(content, str):
        page.text(content, indent)
    elif isinstance(content, Sequence):
        for part in content:
            page.text(part_shown(part), indent)
    elif content is not None:
        page.text(pretty(content, page.look.width - 2 * indent), indent)
    for call in message.tool_calls:
        _tool_call(call, page, indent, page.look.mark("→ ", "-> "))


def _tool_call(call: ToolCall, page: Page, indent: int, first: str) -> None:
    room = page.look.width - 2 * indent - columns(first)
    given = "" if call.input is None else f" {pretty(call.input, room - columns(call.tool) - 1)}"
    page.text(f"{call.tool}{given}", indent, first=first)
    if call.output is not None:
        page.text(call.output if isinstance(call.output, str) else pretty(call.output, room), indent + 1, "dim")


def _trajectory(row: CaseResult, page: Page) -> None:
    """Tool calls, and messages before the answer, in the order in which they were made."""
    calls = sum(len(message.tool_calls) for message in row.output_messages)
    if row.turns or (not calls and len(row.output_messages) < 2):
        return  # the conversation contains them
    page.heading("Tool calls", plural(calls, "call") if calls else "none, but several messages")
    number = 0
    for message in row.output_messages:
        if message.text and message.text != row.candidate_answer:
            page.text(message.text, 1, first=f"{message.role}: ")
        for call in message.tool_calls:
            number += 1
            _tool_call(call, page, 1, f"{number}. ")


def _on_node(execution: Mapping[str, Any] | None) -> str:
    """The node that ran a script or a command, and the nodes that were lost before."""
    if execution is None:
        return ""
    lost = ", ".join(execution.get("lost_on") or ())
    return f", on {execution.get('node')}" + (f" after the loss of {lost}" if lost else "")


# -- evaluators


def _evaluator(result: EvaluatorResult, view: CaseView, page: Page, indent: int) -> None:
    look, record = page.look, view.evaluator(result.name)
    threshold = None if record is None else record.threshold
    own = threshold is not None and (result.required or threshold != view.threshold)
    needs = f", needs {format_threshold(threshold)}" if own and threshold is not None else ""
    required = ", required" if result.required else ""
    mark, style = outcome_mark(result, look)
    outcome = "error" if result.error is not None else f"{result.verdict.value} {format_score(result.score)}{needs}"
    facts = f"weight {result.weight:g}{required}, {_time(result.duration_ms)}{_on_node(result.execution)}"
    kind = f" ({result.type})" if result.name != result.type else ""
    room = look.width - len(INDENT * indent) - len(f"{mark}   {outcome}  {facts}{kind}")
    name = look.cut(look.text(result.name), max(10, room)) + look.style(kind, "dim")
    page.lines.append(
        f"{INDENT * indent}{look.style(mark, style)} {name}  {look.style(outcome, style)}  {look.style(facts, 'dim')}"
    )
    inner = indent + 1
    if result.error is not None:
        page.text(result.error, inner, ERROR_STYLE)
    checks = _checks(result.details)
    if result.reasoning:
        page.text(result.reasoning, inner)
    for sign, style, findings in (("+ ", "green", result.hits), ("- ", "red", result.misses)):
        for finding in () if checks else findings:
            # Those of members, such as `[name] ...`, are shown below with their member.
            if not (result.evaluator_results and finding.startswith("[")):
                page.text(finding, inner, style, first=sign)
    criteria = _criteria(record)
    for check in checks:
        _check(check, criteria, page, inner)
    for warning in result.warnings:
        page.text(f"warning: {warning}", inner, "yellow")
    rest = {name: value for name, value in (result.details or {}).items() if not (checks and name == "checks")}
    if rest:
        page.text(pretty(rest, look.width - 2 * inner - len("details: ")), inner, "dim", first="details: ")
    for member in result.evaluator_results:
        _evaluator(member, view, page, inner)


def outcome_mark(result: EvaluatorResult, look: Look) -> tuple[str, str]:
    """The mark of an evaluator's result, and its colour."""
    if result.error is not None:
        return "!", ERROR_STYLE
    mark = look.mark("✓", "+") if result.verdict is Verdict.PASS else look.mark("✗", "x")
    return mark, VERDICT_STYLE[result.verdict]


def _checks(details: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The criteria of a rubric with the judgment on each."""
    checks = (details or {}).get("checks")
    if not isinstance(checks, list) or not all(isinstance(check, dict) and "satisfied" in check for check in checks):
        return []
    return checks


def _criteria(record: EvaluatorRecord | None) -> dict[str, str]:
    """The descriptions of a rubric's criteria, by id."""
    rubrics = record.options.get("rubrics") if record is not None else None
    return {
        rubric["id"]: rubric["description"]
        for rubric in (rubrics if isinstance(rubrics, list) else ())
        if isinstance(rubric, dict) and isinstance(rubric.get("id"), str) and isinstance(rubric.get("description"), str)
    }


def _check(check: Mapping[str, Any], criteria: Mapping[str, str], page: Page, indent: int) -> None:
    satisfied = check["satisfied"] is True
    weight = check.get("weight")
    facts = [f"weight {weight:g}"] if isinstance(weight, int | float) and weight != 1 else []
    facts += ["required"] if check.get("required") is True else []
    name = str(check.get("id") or "")
    description = criteria.get(name, "")
    title = f"{name}: {description}" if description and description != name else name
    title = f"{title} ({', '.join(facts)})" if facts else title
    page.text(title, indent, "green" if satisfied else "red", first="+ " if satisfied else "- ")
    reasoning = check.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        page.text(reasoning, indent + 1)


# -- judge calls


def _calls(view: CaseView, page: Page) -> None:
    if not view.calls and not view.earlier_calls:
        return
    page.heading("Judge calls", plural(len(view.calls), "call"))
    shown: dict[str, int] = {}
    for number, call in enumerate(view.calls, 1):
        if number > 1:
            page.lines.append("")
        _call(number, call, shown, page)
    if taken := sum(ledger.get("from_record") or 0 for ledger in judge_ledgers(view.row.evaluator_results)):
        verb = "was" if taken == 1 else "were"
        page.label(f"{plural(taken, 'call')} {verb} taken from the record when the run was resumed")
    if view.earlier_calls:
        earlier = plural(len(view.earlier_calls), "call")
        page.label(f"and {earlier} of rows that were superseded (see --json)")


def _call(number: int, call: JudgeCallRecord, shown: dict[str, int], page: Page) -> None:
    look = page.look
    status = call.status if call.code is None else f"{call.status} ({call.code})"
    model = f" ({call.model})" if call.model else ""
    style = "green" if call.status == "ok" else ERROR_STYLE
    title = f"{number}. {look.text(call.evaluator)} {look.mark('→', '->')} {look.text(call.target + model)}"
    title = look.cut(title, max(20, look.width - len(INDENT) - 2 - columns(look.text(status))))
    page.lines.append(f"{INDENT}{look.style(title, 'bold')}  {look.style(look.text(status), style)}")
    page.label(", ".join(_call_facts(call)), 2)
    if call.error:
        page.text(call.error, 2, ERROR_STYLE)
    asked = call.messages or (() if call.question is None else (Message("user", call.question),))
    if not asked and call.reply is None:
        page.label(WITHOUT_IO, 2)
        return
    if call.system_prompt:
        if call.system_prompt in shown:
            page.label(f"system prompt: as in call {shown[call.system_prompt]}", 2)
        else:
            shown[call.system_prompt] = number
            page.label("system prompt", 2)
            page.text(call.system_prompt, 3)
    for message in asked:
        page.label("prompt" if message.role == "user" and len(asked) == 1 else message.role, 2)
        _content(message, page, 3)
    if call.options:
        page.label(f"options: {compact(call.options)}", 2)
    if call.dropped_options:
        page.label(f"not sent: {', '.join(f'{name} ({why})' for name, why in call.dropped_options.items())}", 2)
    if call.reply is not None:
        page.label("reply", 2)
        page.text(reply_text(call.reply, look.width - 6), 3)


def reply_text(reply: Mapping[str, Any], room: int) -> str:
    """What the judge replied: its text or, if there is none, the recorded object."""
    raw = reply.get("rawText")
    return raw if isinstance(raw, str) and raw else pretty(reply, room)


def _call_facts(call: JudgeCallRecord) -> list[str]:
    facts = [spent(call.duration_ms, call.token_usage, call.cost_usd)]
    if call.waited_ms >= 50:
        facts.append(f"waited {_time(call.waited_ms)} for a free place")
    if call.retries:
        facts.append(f"{call.retries:,} {'retry' if call.retries == 1 else 'retries'}")
    if call.asked_model is not None:
        facts.append(f"asked for {call.asked_model}")
    if call.cache_hit:
        facts.append("from the cache")
    if call.batch:
        facts.append("in a batch")
    if call.finish_reason and call.finish_reason not in ("stop", "end_turn"):
        facts.append(f"finish reason {call.finish_reason}")
    return facts


# -- values


def pretty(value: Any, room: int) -> str:
    """A JSON value on one line if it fits, otherwise indented."""
    line = compact(value)
    return line if columns(line) <= room else json.dumps(value, ensure_ascii=False, indent=2)


def compact(value: Any) -> str:
    """A JSON value on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


# -- a list of rows


def render_list(heads: Sequence[RowHead], look: Look) -> str:
    """One line for each row, in the given order."""
    targets = len({head.key.target for head in heads}) > 1
    suites = len({head.key.suite for head in heads}) > 1
    attempts = any(head.key.attempt > 1 for head in heads)
    lines = []
    for head in heads:
        outcome = f"{format_score(None if head.errored else head.score):>4}  " + (
            f"{'error' if head.errored else head.verdict.value:<10}"
        )
        style = ERROR_STYLE if head.errored else VERDICT_STYLE[head.verdict]
        where = [head.key.target] if targets else []
        where += [f"attempt {head.key.attempt}"] if attempts else []
        name = f"{head.key.suite}/{head.key.eval_id}" if suites else head.key.eval_id
        tail = f"  ({look.text(', '.join(where))})" if where else ""
        room = look.width - columns(outcome) - columns(tail) - 2
        lines.append(
            f"{look.style(outcome, style)}  {look.cut(look.text(name), max(10, room))}{look.style(tail, 'dim')}"
        )
    return "\n".join(lines)
