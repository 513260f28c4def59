"""Output of `agentv judge`: the payload, the script's log and judge calls as they happen, and the result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click
from pydantic import Field

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.scripted import Scripted
from agentv.evidence import JudgeCallRecord
from agentv.judge.call_error import JudgeCallError
from agentv.messages import TokenUsage
from agentv.record.judge_calls import encode_call
from agentv.redact import NO_SECRETS, Redactor
from agentv.report.format import format_cost, format_duration, format_score, format_tokens
from agentv.report.terminal import Look, can_print_unicode, clean, columns, pad, terminal_width, wants_color
from agentv.results import Score
from agentv.suite.evaluator import Need
from agentv.text import plural
from agentv.wire.payload import KEYS

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter

INDENT = "  "
STYLES = {"pass": "green", "borderline": "yellow", "fail": "red"}
LONGEST_LINE = 16 * 1024
"""Longer lines of a log are shown in pieces of this length, because a script may never end a line."""
LINES_SHOWN = 1000
"""Limit for a log that is not shown in full."""


def look_at(stream: TextIO) -> Look:
    """Color, width and character set for this stream."""
    width = terminal_width()
    return Look(color=wants_color(stream, os.environ), width=max(40, width), unicode=can_print_unicode(stream))


class Show(Protocol):
    """Displays what a script does. Secrets are already masked."""

    def payload(self, payload: dict[str, Any]) -> None: ...
    def stderr(self, line: str) -> None: ...
    def call(self, record: dict[str, Any]) -> None: ...
    def refused(self, message: str) -> None: ...


class Observer:
    """Observes a script, masks secrets, and passes everything to a `Show` as it happens."""

    def __init__(self, show: Show) -> None:
        self.redactor: Redactor = NO_SECRETS
        self._show = show
        self.payload: dict[str, Any] | None = None
        """The payload sent to the script, with secrets masked."""
        self.failure: EvaluatorError | None = None
        """Why no score was computed."""
        self._line = bytearray()
        self._cut = False

    def started(self, payload: Mapping[str, Any]) -> None:
        self.payload = self.redactor.value(dict(payload))
        self._show.payload(self.payload)

    def stderr(self, chunk: bytes) -> None:
        """Show complete lines only, so that secrets in them are recognized."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._line += line
            self._flush()
        self._line += rest
        while len(self._line) > LONGEST_LINE:
            more = self._line[LONGEST_LINE:]
            del self._line[LONGEST_LINE:]
            self._flush(continues=True)
            self._line += more

    def finish(self) -> None:
        """Show the last line if it does not end with a newline."""
        if self._line:
            self._flush()

    def _flush(self, *, continues: bool = False) -> None:
        text = self._line.decode("utf-8", "backslashreplace")
        self._line.clear()
        self._show.stderr(self.redactor.text(text, cut_start=self._cut, cut_end=continues))
        self._cut = continues

    def call(self, record: JudgeCallRecord) -> None:
        """Show a finished judge call."""
        self._show.call(json.loads(encode_call(record, self.redactor)))

    def refused(self, error: JudgeCallError) -> None:
        self._show.refused(error.message)


class ObservedJudge(Evaluator):
    """An evaluator that runs a script and reports to an observer."""

    judge: Scripted
    observer: Any = Field(exclude=True)
    payload: dict[str, Any] | None
    """Sent to the script instead of the case."""

    @classmethod
    def of(cls, judge: Scripted, observer: Observer, payload: dict[str, Any] | None = None) -> ObservedJudge:
        common = {name: getattr(judge, name) for name in Evaluator.model_fields}
        return cls.model_construct(**common, judge=judge, observer=observer, payload=payload)

    @property
    def needs(self) -> frozenset[Need]:
        return self.judge.needs

    def judge_targets(self) -> list[str | None]:
        return self.judge.judge_targets()

    def interpreters(self, directory: Path) -> list[tuple[str, Interpreter]]:
        return self.judge.interpreters(directory)

    async def evaluate(self, context: EvaluationContext) -> Score:
        payload = self.judge.payload(context) if self.payload is None else self.payload
        try:
            return await self.judge.run(payload, context, self.observer)
        except EvaluatorError as error:
            self.observer.failure = error
            raise


@dataclass(slots=True)
class TerminalView:
    """Prints everything as readable text while it happens. With `full`, nothing is shortened."""

    look: Look
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    full: bool = False
    headings: bool = True
    known: Mapping[str, Any] | None = None
    """The payload shown by the previous run."""
    gone: bool = False
    """The output is a closed pipe."""
    _lines: int = 0
    _ran: bool = False

    def say(self, text: str = "") -> None:
        if self.gone:
            return
        try:
            click.echo(text, file=self.stream)
        except BrokenPipeError:
            self.gone = True

    # -- as it happens

    def payload(self, payload: dict[str, Any]) -> None:
        if payload == self.known:
            self.say(self.look.style("Payload", "bold") + "  unchanged\n")
            return
        self.known = payload
        self.say(self.look.style("Payload", "bold"))
        if self.full:
            for line in json.dumps(payload, indent=2, ensure_ascii=False).split("\n"):
                self.say(INDENT + self._safe(line))
        else:
            self._short_payload(payload)
        self.say()

    def _short_payload(self, payload: dict[str, Any]) -> None:
        filled = {key: value for key, value in payload.items() if value not in (None, "", [], {})}
        width = max((columns(self.look.text(key)) for key in filled), default=0)
        for key, value in filled.items():
            label = self.look.style(pad(self.look.text(key), width), "dim")
            self.say(f"{INDENT}{label}  {self._one_line(value, self.look.width - width - 4)}")
        absent = [self.look.text(key) for key in dict.fromkeys((*KEYS, *payload)) if key not in filled]
        if absent:
            for line in self.look.wrap(f"empty or absent: {', '.join(absent)}", self.look.width - len(INDENT), most=4):
                self.say(INDENT + self.look.style(line, "dim"))

    def stderr(self, line: str) -> None:
        self._begin()
        self._lines += 1
        if self.full or self._lines <= LINES_SHOWN:
            self.say(f"{INDENT}{self.look.style('stderr ', 'cyan')}  {self._safe(line)}".rstrip())
        elif self._lines == LINES_SHOWN + 1:
            self.say(f"{INDENT}{self.look.style('stderr continues; --full shows all of it', 'dim')}")

    def call(self, record: dict[str, Any]) -> None:
        self._begin()
        self.say(INDENT + self.look.style(f"judge {record['index']}", "magenta") + f"  {call_facts(record, self.look)}")
        edge = INDENT * 2
        texts = {"asked": record.get("question"), "replied": (record.get("reply") or {}).get("rawText")}
        for label, text in texts.items():
            if text is not None:
                shown = self._first_line(str(text), self.look.width - len(edge) - 9)
                self.say(f"{edge}{self.look.style(f'{label:<7}', 'dim')}  {shown}")
        if record.get("error"):
            self._wrapped(f"{INDENT}{self.look.style('failed ', 'red')}  ", 11, record["error"])

    def refused(self, message: str) -> None:
        self._begin()
        self._wrapped(self.look.style("refused", "red") + "  ", 9, message)

    def _begin(self) -> None:
        if not self._ran and self.headings:
            self._ran = True
            self.say(self.look.style("Script", "bold"))

    # -- the end

    def result(self, outcome: Mapping[str, Any], reason: str | None) -> None:
        """Show the result, or the reason why there is no score. `outcome` is the object that `--json` prints."""
        if self._ran:
            self.say()
        result = outcome["result"]
        if reason is not None:
            self._failure(reason)
        else:
            self._score(result)
        if result is not None and result.get("judge_proxy"):
            self._entry("Judge", ledger_line(result["judge_proxy"]))

    def _failure(self, reason: str) -> None:
        mark = self.look.mark("✗", "x")
        self.say(self.look.style(f"{mark} could not judge", "red", "bold"))
        for line in reason.splitlines():
            for part in self.look.wrap(self.look.text(line), self.look.width - len(INDENT), most=12):
                self.say(INDENT + part)

    def _score(self, result: Mapping[str, Any]) -> None:
        verdict = str(result["verdict"])
        mark = {"pass": self.look.mark("✓", "v"), "borderline": "!"}.get(verdict, self.look.mark("✗", "x"))
        head = self.look.style(f"{mark} judged: {format_score(result['score'])} {verdict}", STYLES[verdict], "bold")
        self.say(f"{head}  {self.look.style(format_duration(result['duration_ms'] / 1000), 'dim')}")
        for key, sign, style in (("hits", "+", "green"), ("misses", "-", "red")):
            for text in result[key]:
                self._wrapped(self.look.style(sign, style) + " ", 2, text)
        for warning in result["warnings"]:
            self._entry("Warning", warning, style="yellow")
        if result["reasoning"]:
            self._entry("Reason", result["reasoning"])
        if result["details"] is not None:
            self._details(result["details"])

    def _details(self, details: Mapping[str, Any]) -> None:
        if not self.full:
            self._entry("Details", self._one_line(details, self.look.width - 12))
            return
        self._entry("Details", "")
        for line in json.dumps(details, indent=2, ensure_ascii=False).split("\n"):
            self.say(INDENT * 2 + self._safe(line))

    def _entry(self, label: str, text: str, *, style: str = "dim") -> None:
        self._wrapped(self.look.style(f"{label:<7}", style) + "  ", 9, text)

    def _wrapped(self, label: str, taken: int, text: str) -> None:
        room, most = self.look.width - len(INDENT) - taken, 1000 if self.full else 6
        lines = [self.look.text(line) for line in text.splitlines() if line.strip()] or [""]
        wrapped = [part for line in lines[:most] for part in self.look.wrap(line, room, most=most)]
        if len(lines) > most or len(wrapped) > most:
            wrapped = [*wrapped[: most - 1], self.look.mark("…", "...")]
        self.say((INDENT + label + wrapped[0]).rstrip())
        for line in wrapped[1:]:
            self.say(INDENT + " " * taken + line)

    # -- untrusted text

    def _safe(self, line: str) -> str:
        """A line with its indentation, without control characters and escape sequences."""
        line = line.rstrip("\r").expandtabs()
        rest = line.lstrip(" ")
        return " " * (len(line) - len(rest)) + self.look.text(rest)

    def _one_line(self, value: Any, width: int) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return self.look.cut(self.look.text(text), width)

    def _first_line(self, text: str, width: int) -> str:
        first, *others = [line for line in text.splitlines() if line.strip()] or [""]
        if self.full and others:
            return ("\n" + " " * (len(INDENT) * 2 + 9)).join(map(self._safe, [first, *others]))
        text, more = self.look.text(first), self.look.mark(" …", " ...")
        if others and columns(text) <= width - len(more):
            return text + self.look.style(more, "dim")
        return self.look.cut(text, width)


@dataclass(slots=True)
class Collected:
    """Collects everything for `--json`."""

    full: bool = True
    sent: dict[str, Any] | None = None
    log: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def payload(self, payload: dict[str, Any]) -> None:
        self.sent = payload

    def stderr(self, line: str) -> None:
        if len(self.log) < 100 * LINES_SHOWN:
            self.log.append(line)

    def call(self, record: dict[str, Any]) -> None:
        self.calls.append(record)

    def refused(self, message: str) -> None:
        self.refusals.append(message)

    def to_dict(self) -> dict[str, Any]:
        return {"payload": self.sent, "stderr": self.log, "calls": self.calls, "refused": self.refusals}


def call_facts(record: Mapping[str, Any], look: Look) -> str:
    """Target, status, duration and tokens of a judge call."""
    usage = record.get("token_usage")
    facts = [
        look.text(str(record["target"])),
        "" if record["status"] == "ok" else look.style(f"{record['status']} ({record['code']})", "red"),
        f"{record['duration_ms']:,.0f} ms",
        format_tokens(TokenUsage.from_dict(usage)) if usage else "",
        plural(record["retries"], "retry").replace("retrys", "retries") if record["retries"] else "",
        "in a batch" if record["batch"] else "",
        f"asked for {look.text(str(record['asked_model']))}" if record.get("asked_model") else "",
    ]
    return ", ".join(fact for fact in facts if fact)


def ledger_line(ledger: Mapping[str, Any]) -> str:
    """The `judge_proxy` object of a result in one line."""
    counts = [f"{ledger['call_count']} of {plural(ledger['max_calls'], 'call')}"]
    counts += [
        f"{ledger[key]} {word}"
        for key, word in (("refused_calls", "refused"), ("failed_calls", "failed"))
        if ledger[key]
    ]
    counts += [plural(ledger["retries"], "retry").replace("retrys", "retries")] if ledger["retries"] else []
    others = {name: calls for name, calls in ledger["targets"].items() if name != ledger["target"]}
    counts += [f"{calls} of them to {clean(name)}" for name, calls in others.items()]
    if ledger["token_usage"]:
        counts.append(format_tokens(TokenUsage.from_dict(ledger["token_usage"])))
    if ledger["cost_usd"] is not None and ledger["call_count"]:
        counts.append(format_cost(ledger["cost_usd"]))
    line = f"{clean(str(ledger['target']))}: {', '.join(counts)}"
    embeddings = ledger.get("embeddings")
    return line if embeddings is None else f"{line}; embeddings by {ledger_line(embeddings)}"
