"""`agentv judge run`: one script on one case, with everything it does in view."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from agentv.cli.judge.selection import Selected, Selection, select
from agentv.cli.judge.view import Collected, Observer, TerminalView, look_at
from agentv.cli.program import show_error
from agentv.cli.signals import EXIT_CODES, until_stopped
from agentv.errors import AgentVError, UsageError
from agentv.plan.plan import RunPlan
from agentv.plan.single import answered
from agentv.redact import Redactor
from agentv.results import CaseResult
from agentv.run.execute import Execution
from agentv.run.services import protection_gaps
from agentv.scripts import ScriptError
from agentv.targets.answers import Answer, AnswerKey
from agentv.wire.payload import encode_payload

COULD_NOT_JUDGE = 3
POLL_SECONDS = 0.15
Stamp = tuple[int, int, int] | None
"""What changes when a file is saved, also by an editor that replaces it; None for a file that does not exist."""


@click.command()
@click.argument("script", nargs=-1)
@click.option("--suite", metavar="FILE", help="The suite of the case.")
@click.option("--case", metavar="ID", help="The case; not needed when the suite has one.")
@click.option("--payload", metavar="FILE", help="Judge what is in this file instead of a case; `-` for stdin.")
@click.option("--evaluator", metavar="NAME", help="Run this code_judge of the case, with its options.")
@click.option("--target", metavar="NAME", help="The target that answers the case.")
@click.option("--answer", metavar="TEXT", help="The answer to judge, instead of calling the target.")
@click.option("--outputs", metavar="FILE", help="Take the answer from here (JSON Lines) instead of calling.")
@click.option("--judge-target", metavar="NAME", help="Judge target (overrides all other settings).")
@click.option("--max-calls", type=click.IntRange(0), metavar="N", help="Judge calls the script may make.  [50]")
@click.option("--no-judge", is_flag=True, help="Run the script without judge access.")
@click.option("--config", metavar="FILE", help="The target configuration, instead of the one found near the suite.")
@click.option("--save-payload", metavar="FILE", help="Write what the script got on stdin to this file.")
@click.option("--full", is_flag=True, help="Show payload, log, questions and replies without shortening them.")
@click.option("--watch", is_flag=True, help="Run again whenever a file that it reads is saved.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout.")
def command(*, save_payload: str | None, full: bool, watch: bool, as_json: bool, **selected: Any) -> int:
    """Run a judge script on one case, with a live judge proxy, and show everything it does.

    SCRIPT is a command (`python judges/x.py`) or a file (`judges/x.py`); put `--` in front of one with options of its
    own. Without it the case's code_judge is run; with --evaluator it takes the place of that evaluator's command.

    \b
    Exit code: 0 it judged, whatever the score      2 nothing was run
               3 it could not judge                 130 interrupted
    """
    selection = Selection(**selected)
    selection.check()
    session = _Session(selection, full, as_json, Path(save_payload) if save_payload else None)
    if selection.payload == "-":
        session.stdin = sys.stdin.buffer.read()
    code, received = asyncio.run(until_stopped(session.watch() if watch else session.once()))
    if received is not None:
        click.echo("Stopped.", err=True)
        return 0 if watch else EXIT_CODES[received]
    return code if code is not None else COULD_NOT_JUDGE


@dataclass(slots=True)
class _Session:
    """One call of the command: a run, or with --watch many."""

    selection: Selection
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
            # The run may have discovered more files to watch.
            before = {**stamps(self._files | self._given_files()), **before}
            self._note(f"waiting for a change of {self._named(list(before))}; Ctrl-C ends")
        changed = await changed_since(before)
        given_up = "" if running.done() else ", the run before it was given up"
        return f"{self._named(changed)} saved{given_up}"

    def _given_files(self) -> frozenset[Path]:
        chosen = self.selection
        named = (chosen.suite, chosen.payload, chosen.outputs, chosen.config, *chosen.script)
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
        selected = select(self.selection, observer, self.cwd, self._payload())
        self._files = frozenset({*selected.answer_files, *selected.script_files, *self._given_files()})
        answer_files = stamps(selected.answer_files)
        reused = False
        if self._answered is not None and selected.plan.answers is None and self._answered[0] == answer_files:
            selected, reused = replace(selected, plan=answered(selected.plan, self._answered[1])), True
        for note in (*selected.plan.notes, *protection_gaps(selected.plan.needs)):
            self._tell_once(note)
        if isinstance(view, TerminalView):
            _head(view, selected, self.cwd, reused=reused)
        row = await _executed(selected.plan, observer)
        if row.error is None or row.error.stage != "target":
            self._answered = (answer_files, _answer_of(row))
        outcome = _outcome(selected, row, observer.redactor)
        if isinstance(view, TerminalView):
            view.result(outcome, _reason(outcome, observer))
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
        if self.selection.payload is None or self.stdin is not None:
            return self.stdin
        path = self.cwd / self.selection.payload
        payload: bytes = _file(path.read_bytes, f"--payload {self.selection.payload}", "read")
        return payload

    def _write_payload(self, payload: dict[str, Any] | None) -> None:
        path = self.save_payload
        if path is not None and payload is not None:
            content = encode_payload(payload) + b"\n"
            _file(lambda: path.write_bytes(content), f"--save-payload {path}", "written")


def _file(act: Callable[[], Any], named: str, done: str) -> Any:
    try:
        return act()
    except OSError as error:
        raise UsageError(f"{named}: it cannot be {done}: {error.strerror or error}.") from None


async def _executed(plan: RunPlan, observer: Observer) -> CaseResult:
    """The row that a run would write."""
    rows: list[CaseResult] = []

    async def deliver(row: CaseResult) -> None:
        rows.append(row)

    observer.redactor = Redactor(plan.secrets.values)
    try:
        await Execution(plan, "judge", deliver, on_judge_call=observer.call, own_process=True).run()
    finally:
        observer.finish()
    return rows[0]


def _answer_of(row: CaseResult) -> Answer:
    return Answer(
        AnswerKey.of_case(row.eval_id),
        1,
        row.candidate_answer,
        row.output_messages,
        token_usage=row.token_usage,
        cost_usd=row.cost_usd,
        duration_ms=row.duration_ms,
    )


def _head(view: TerminalView, selected: Selected, cwd: Path, *, reused: bool) -> None:
    look, item, spec = view.look, selected.item, selected.spec
    called = selected.plan.lanes[0].spec if selected.plan.answers is None else None
    asking = f", asking {item.target}" if called is not None else ""
    asking = f", {item.target}'s answer of an earlier run" if reused else asking
    names = dict.fromkeys((item.planned.suite.name, item.case.id))  # a payload may name neither
    title = f"{': '.join(names)}{asking}"
    view.say(look.style(look.cut(look.text(title), look.width), "bold"))
    words = " ".join(_shown(word, spec.cwd) for word in spec.argv)
    where = "" if spec.cwd == cwd else f"  (in {spec.cwd})"
    view.say("  " + look.cut(look.text(words + where), look.width - 2))
    view.say()


def _shown(word: str, home: Path) -> str:
    path = Path(word)
    short = str(path.relative_to(home)) if path.is_absolute() and path.is_relative_to(home) else word
    return f"'{short}'" if any(char.isspace() for char in short) else short


def _outcome(selected: Selected, row: CaseResult, redactor: Redactor) -> dict[str, Any]:
    result = row.evaluator_results[0] if row.evaluator_results else None
    error = None
    if result is None:
        error = {"stage": "target", "message": row.error.message if row.error else "nothing was judged"}
    elif result.error is not None:
        error = {"stage": "evaluator", "message": result.error}
    judged, spec = error is None, selected.spec
    outcome = {
        "judged": judged,
        "exit_code": 0 if judged else COULD_NOT_JUDGE,
        "suite": row.suite,
        "eval_id": row.eval_id,
        "target": row.target,
        "script": list(spec.argv),
        "cwd": str(spec.cwd),
        "error": error,
        "result": None if result is None else result.to_dict(),
    }
    return redactor.value(outcome)


def _reason(outcome: Mapping[str, Any], observer: Observer) -> str | None:
    """Why there is no score, without the stderr that was shown already; None when there is a score."""
    if isinstance(observer.failure, ScriptError):
        return observer.redactor.text(observer.failure.message)
    return None if outcome["judged"] else str(outcome["error"]["message"])


# -- watching


def stamps(files: Iterable[Path]) -> dict[Path, Stamp]:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


async def changed_since(before: Mapping[Path, Stamp]) -> list[Path]:
    """Wait until files are saved; returns them once they no longer change."""
    while (now := stamps(before)) == before:  # noqa: ASYNC110 - there is no event for a saved file
        await asyncio.sleep(POLL_SECONDS)
    while True:
        await asyncio.sleep(POLL_SECONDS)
        again = stamps(before)
        if again == now and (changed := sorted(path for path in now if now[path] != before[path])):
            return changed
        now = again
