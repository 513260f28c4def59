"""`agentv judge run`: one script on one case, with everything it does in view."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from agentv.cli.judge.observed import Observer
from agentv.cli.judge.subject import Asked, Subject, subject_of
from agentv.cli.judge.view import Collected, TerminalView, look_at
from agentv.cli.judge.watch import Stamp, changed_since, stamps
from agentv.cli.program import show_error
from agentv.cli.signals import EXIT_CODES, until_stopped
from agentv.errors import AgentVError, UsageError
from agentv.redact import Redactor
from agentv.results import CaseResult
from agentv.run.execute import Execution
from agentv.run.services import protection_gaps
from agentv.targets.answers import Answer, AnswerKey

COULD_NOT_JUDGE = 3


@click.command()
@click.argument("script", nargs=-1)
@click.option("--suite", metavar="FILE", help="The suite of the case.")
@click.option("--case", metavar="ID", help="The case; not needed when the suite has one.")
@click.option("--payload", metavar="FILE", help="Judge what is in this file instead of a case; `-` for stdin.")
@click.option("--evaluator", metavar="NAME", help="Run this code_judge of the case, with its options.")
@click.option("--target", metavar="NAME", help="The target that answers the case.")
@click.option("--answer", metavar="TEXT", help="The answer to judge, instead of calling the target.")
@click.option("--outputs", metavar="FILE", help="Take the answer from here (JSON Lines) instead of calling.")
@click.option("--judge-target", metavar="NAME", help="Who judges, before every other setting.")
@click.option("--max-calls", type=click.IntRange(0), metavar="N", help="Judge calls the script may make.  [50]")
@click.option("--no-judge", is_flag=True, help="Run the script without judge access.")
@click.option("--config", metavar="FILE", help="The target configuration, instead of the one found near the suite.")
@click.option("--save-payload", metavar="FILE", help="Write what the script got on stdin to this file.")
@click.option("--full", is_flag=True, help="Show payload, log, questions and replies without shortening them.")
@click.option("--watch", is_flag=True, help="Run again whenever a file that it reads is saved.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout.")
def command(*, save_payload: str | None, full: bool, watch: bool, as_json: bool, **given: Any) -> int:
    """Run a judge script on one case, with a live judge proxy, and show everything it does.

    SCRIPT is a command (`python judges/x.py`) or a file (`judges/x.py`); put `--` in front of one with options of its
    own. Without it the case's code_judge is run; with --evaluator it takes the place of that evaluator's command.

    \b
    Exit code: 0 it judged, whatever the score      2 nothing was run
               3 it could not judge                 130 interrupted
    """
    asked = Asked(**given)
    asked.check()
    session = _Session(asked, full, as_json, Path(save_payload) if save_payload else None)
    if asked.payload == "-":
        session.stdin = sys.stdin.buffer.read()
    code, received = asyncio.run(until_stopped(session.watch() if watch else session.once()))
    if received is not None:
        click.echo("Stopped.", err=True)
        return 0 if watch else EXIT_CODES[received]
    return code if code is not None else COULD_NOT_JUDGE


@dataclass(slots=True)
class _Session:
    """One call of the command: a run, or with --watch many."""

    asked: Asked
    full: bool
    as_json: bool
    save_payload: Path | None
    cwd: Path = field(default_factory=Path.cwd)
    stdin: bytes | None = None
    _answered: tuple[dict[Path, Stamp], Answer] | None = None
    """The target's answer, and the files it depends on: a script is run on the same answer until those change."""
    _files: frozenset[Path] = frozenset()
    _shown: Mapping[str, Any] | None = None
    _told: set[str] = field(default_factory=set)

    async def once(self) -> int:
        return await self._run()

    async def watch(self) -> int:
        number, because = 0, ""
        while True:
            number += 1
            before = stamps(self._files or self._given_files())
            self._separate(number, because)
            running = asyncio.ensure_future(self._run_or_show_error())
            saving = asyncio.ensure_future(self._saved(before, running))
            try:
                because = await saving
            finally:
                saving.cancel()
                running.cancel()
                await asyncio.wait({running, saving})

    async def _saved(self, before: dict[Path, Stamp], running: asyncio.Future[Any]) -> str:
        """Wait until something is saved; why the next run starts. A run that is still going is then given up."""
        known = asyncio.ensure_future(changed_since(before))
        await asyncio.wait({known, running}, return_when=asyncio.FIRST_COMPLETED)
        known.cancel()
        if running.done():
            # Which files count is known better now than before it.
            before = {**stamps(self._files | self._given_files()), **before}
            self._note(f"waiting for a change of {self._named(list(before))}; Ctrl-C ends")
        changed = await changed_since(before)
        given_up = "" if running.done() else ", the run before it was given up"
        return f"{self._named(changed)} saved{given_up}"

    def _given_files(self) -> frozenset[Path]:
        named = (self.asked.suite, self.asked.payload, self.asked.outputs, self.asked.config, *self.asked.script)
        paths = (self.cwd / name for name in named if name and name != "-" and "\0" not in name)
        return frozenset(path.resolve() for path in paths if path.is_file())

    def _named(self, files: list[Path]) -> str:
        shown = [str(path.relative_to(self.cwd)) if path.is_relative_to(self.cwd) else str(path) for path in files]
        return ", ".join(sorted(shown)[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")

    def _separate(self, number: int, because: str) -> None:
        if self.as_json:
            return
        look = look_at(sys.stdout)
        head = f"run {number}, {datetime.now().astimezone():%H:%M:%S}" + (f", {because}" if because else "")
        head = look.cut(look.text(head), look.width - 8)
        bar = look.mark("─", "-")
        line = f"{bar * 3} {head} {bar * (look.width - len(head) - 5)}"
        click.echo(("\n" if number > 1 else "") + look.style(line, "bold") + "\n")

    def _note(self, text: str) -> None:
        if not self.as_json:
            look = look_at(sys.stdout)
            click.echo("\n" + look.style(look.text(text), "dim"))

    async def _run_or_show_error(self) -> None:
        try:
            await self._run(json_indent=None)
        except AgentVError as error:
            show_error(error)

    # -- one run

    async def _run(self, json_indent: int | None = 2) -> int:
        look = look_at(sys.stdout)
        view = Collected() if self.as_json else TerminalView(look, full=self.full, known=self._shown)
        observer = Observer(view)
        subject = subject_of(self.asked, observer, self.cwd, self._payload())
        self._files = frozenset({*subject.files, *subject.scripts, *self._given_files()})
        answer_files = stamps(subject.files)
        earlier = self._answered if subject.plan.answers is None else None
        kept = earlier is not None and earlier[0] == answer_files
        if kept and earlier is not None:
            subject = subject.answered(earlier[1])
        for note in (*subject.notes, *protection_gaps(subject.plan.needs)):
            self._tell_once(note)
        if isinstance(view, TerminalView):
            _head(view, subject, self.cwd, kept=kept)
        row = await _executed(subject, observer)
        if row.error is None or row.error.stage != "target":
            self._answered = (answer_files, _answer_of(row))
        outcome = _outcome(subject, row, observer.redactor)
        if isinstance(view, TerminalView):
            view.result(outcome)
            self._shown = view.known
            if view.gone:
                raise BrokenPipeError
        else:
            click.echo(json.dumps({**outcome, **view.to_dict()}, indent=json_indent, ensure_ascii=False))
        self._write_payload(observer.payload)
        return int(outcome["exit_code"])

    def _tell_once(self, note: str) -> None:
        if note not in self._told:
            self._told.add(note)
            click.echo(f"note: {note}", err=True)

    def _payload(self) -> bytes | None:
        if self.asked.payload is None or self.stdin is not None:
            return self.stdin
        path = self.cwd / self.asked.payload
        payload: bytes = _file(path.read_bytes, f"--payload {self.asked.payload}", "read")
        return payload

    def _write_payload(self, payload: bytes | None) -> None:
        path = self.save_payload
        if path is not None and payload is not None:
            _file(lambda: path.write_bytes(payload + b"\n"), f"--save-payload {path}", "written")


def _file(act: Callable[[], Any], named: str, done: str) -> Any:
    try:
        return act()
    except OSError as error:
        raise UsageError(f"{named}: it cannot be {done}: {error.strerror or error}.") from None


async def _executed(subject: Subject, observer: Observer) -> CaseResult:
    """The row that a run would write."""
    rows: list[CaseResult] = []

    async def deliver(row: CaseResult) -> None:
        rows.append(row)

    observer.redactor = Redactor(subject.plan.secrets.values)
    try:
        await Execution(subject.plan, "judge", deliver, on_judge_call=observer.call, own_process=True).run()
    finally:
        observer.finish()
    return rows[0]


def _answer_of(row: CaseResult) -> Answer:
    key = AnswerKey(None, row.eval_id, None, None)
    spent = (row.token_usage, row.cost_usd, row.duration_ms)
    return Answer(key, 1, row.candidate_answer, row.output_messages, *spent)


def _head(view: TerminalView, subject: Subject, cwd: Path, *, kept: bool) -> None:
    look, item = view.look, subject.item
    spec = subject.plan.lanes[0].spec
    asking = "" if subject.plan.answers is not None or spec is None else f", asking {item.target}"
    asking = f", {item.target}'s answer of an earlier run" if kept else asking
    names = dict.fromkeys((item.planned.suite.name, item.case.id))  # a payload may say neither
    title = f"{': '.join(names)}{asking}"
    view.say(look.style(look.cut(look.text(title), look.width), "bold"))
    words = " ".join(_shown(word, subject.home) for word in subject.evaluator.script)
    where = "" if subject.home == cwd else f"  (in {subject.home})"
    view.say("  " + look.cut(look.text(words + where), look.width - 2))
    view.say()


def _shown(word: str, home: Path) -> str:
    path = Path(word)
    short = str(path.relative_to(home)) if path.is_absolute() and path.is_relative_to(home) else word
    return f"'{short}'" if any(char.isspace() for char in short) else short


def _outcome(subject: Subject, row: CaseResult, redactor: Redactor) -> dict[str, Any]:
    result = row.evaluator_results[0] if row.evaluator_results else None
    error = None
    if result is None:
        error = {"stage": "target", "message": row.error.message if row.error else "nothing was judged"}
    elif result.error is not None:
        error = {"stage": "evaluator", "message": result.error}
    judged = error is None
    outcome = {
        "judged": judged,
        "exit_code": 0 if judged else COULD_NOT_JUDGE,
        "suite": row.suite,
        "eval_id": row.eval_id,
        "target": row.target,
        "script": list(subject.evaluator.script),
        "cwd": str(subject.home),
        "error": error,
        "result": None if result is None else result.to_dict(),
    }
    return redactor.value(outcome)
