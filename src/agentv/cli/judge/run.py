"""`agentv judge run`: run a judge script on one case and show what it does."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from agentv.cli.judge.imports import warnings_of
from agentv.cli.judge.selection import Selected, Selection, select
from agentv.cli.judge.view import Collected, Observer, TerminalView, look_at
from agentv.cli.program import show_error
from agentv.cli.saved_files import Stamp, stamps, until_saved
from agentv.cli.signals import EXIT_CODES, until_stopped
from agentv.errors import AgentVError, UsageError
from agentv.judge.recording import Recording
from agentv.plan.plan import RunPlan
from agentv.plan.single import answered
from agentv.redact import Redactor
from agentv.results import CaseResult
from agentv.run.execute import Execution
from agentv.run.services import protection_gaps
from agentv.scripts import ScriptError
from agentv.targets.answers import Answer, AnswerKey
from agentv.wire.payload import encode_payload, with_empty_values

COULD_NOT_JUDGE = 3


@click.command()
@click.argument("script", nargs=-1)
@click.option("--suite", metavar="FILE", help="Suite that contains the case.")
@click.option("--case", metavar="ID", help="Case id; optional if the suite has only one case.")
@click.option("--payload", metavar="FILE", help="JSON payload to judge instead of a case; `-` for stdin.")
@click.option(
    "--evaluator", metavar="NAME", help="Run this evaluator of the case (code_judge, metric, python or javascript)."
)
@click.option("--target", metavar="NAME", help="Target that answers the case.")
@click.option("--answer", metavar="TEXT", help="Answer to judge, instead of calling the target.")
@click.option("--outputs", metavar="FILE", help="Recorded answers (JSON Lines), instead of calling the target.")
@click.option("--judge-target", metavar="NAME", help="Judge target (overrides all other settings).")
@click.option("--max-calls", type=click.IntRange(0), metavar="N", help="Maximum number of judge calls.  [50]")
@click.option("--no-judge", is_flag=True, help="Run the script without judge access.")
@click.option("--config", metavar="FILE", help="Target configuration.  [found near the suite]")
@click.option("--python", metavar="PYTHON", help="Interpreter, or requirements file (`.txt`), for a Python script.")
@click.option(
    "--with",
    "packages",
    multiple=True,
    metavar="REQUIREMENT",
    help="Package to install for a Python script; repeatable.",
)
@click.option("--save-payload", metavar="FILE", help="Save the payload that the script receives on stdin.")
@click.option("--full", is_flag=True, help="Do not shorten the payload, log, questions and replies.")
@click.option("--watch", is_flag=True, help="Run again whenever a file it depends on is saved.")
@click.option("--json", "as_json", is_flag=True, help="Print only a JSON object on stdout.")
def command(*, save_payload: str | None, full: bool, watch: bool, as_json: bool, **selected: Any) -> int:
    """Run a judge script on one case, with a live judge proxy, and show everything it does.

    SCRIPT is a file (`judges/x.py`) or a command (`python judges/x.py`). If the command has options, put `--` before
    it. Without SCRIPT, the evaluator of the case that runs a script is run. With --evaluator, SCRIPT replaces the
    command of that evaluator.

    \b
    Exit codes: 0 the script returned a score, even a low one
                2 invalid options or files, nothing was run
                3 the script or the target failed    130 interrupted
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
    """One invocation of the command: a single run, or many runs with --watch."""

    selection: Selection
    full: bool
    as_json: bool
    save_payload: Path | None
    cwd: Path = field(default_factory=Path.cwd)
    stdin: bytes | None = None
    _answered: tuple[dict[Path, Stamp], Answer] | None = None
    """The target's answer and the files it depends on. The answer is reused until one of them changes."""
    _files: frozenset[Path] = frozenset()
    _shown: Mapping[str, Any] | None = None
    _printed_notes: set[str] = field(default_factory=set)

    async def once(self) -> int:
        return await self._run()

    async def watch(self) -> int:
        number, reason = 0, ""
        while True:
            number += 1
            before = stamps(self._files or self._selected_files())
            self._separate(number, reason)
            running = asyncio.ensure_future(self._run_or_show_error())
            saving = asyncio.ensure_future(self._wait_for_save(before, running))
            try:
                reason = await saving
            finally:
                saving.cancel()
                running.cancel()
                await asyncio.wait({running, saving})

    async def _wait_for_save(self, before: dict[Path, Stamp], running: asyncio.Future[Any]) -> str:
        """Wait until a file is saved; returns the reason for the next run. A run in progress is then cancelled."""
        change = asyncio.ensure_future(changed_since(before))
        await asyncio.wait({change, running}, return_when=asyncio.FIRST_COMPLETED)
        change.cancel()
        if running.done():
            # The run may have discovered more files to watch.
            before = {**stamps(self._files | self._selected_files()), **before}
            self._note(f"watching {self._file_names(list(before))}; press Ctrl-C to stop")
        changed = await changed_since(before)
        cancelled = "" if running.done() else ", the previous run was cancelled"
        return f"{self._file_names(changed)} saved{cancelled}"

    def _selected_files(self) -> frozenset[Path]:
        selection = self.selection
        names = (selection.suite, selection.payload, selection.outputs, selection.config, *selection.script)
        paths = (self.cwd / name for name in names if name and name != "-" and "\0" not in name)
        return frozenset(path.resolve() for path in paths if path.is_file())

    def _file_names(self, files: list[Path]) -> str:
        names = [str(path.relative_to(self.cwd)) if path.is_relative_to(self.cwd) else str(path) for path in files]
        return ", ".join(sorted(names)[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

    def _separate(self, number: int, reason: str) -> None:
        if self.as_json:
            return
        look = look_at(sys.stdout)
        head = f"run {number}, {datetime.now().astimezone():%H:%M:%S}" + (f", {reason}" if reason else "")
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
        if selected.plan.interpreters:
            from agentv.run.interpreters import with_interpreters  # noqa: PLC0415 - most scripts use that of agentv

            # In a thread, so that signals are handled meanwhile.
            plan = await asyncio.to_thread(with_interpreters, selected.plan, self._note_once)
            selected = replace(selected, plan=plan)
        self._files = frozenset({*selected.answer_files, *selected.script_files, *self._selected_files()})
        answer_files = stamps(selected.answer_files)
        reused = False
        if self._answered is not None and selected.plan.answers is None and self._answered[0] == answer_files:
            selected, reused = replace(selected, plan=answered(selected.plan, self._answered[1])), True
        for note in (*selected.plan.notes, *protection_gaps(selected.plan.needs)):
            self._note_once(note)
        own = (*selected.spec.variables, *selected.spec.env)
        for warning in warnings_of(selected.script_files, {*own, *selected.item.planned.environment.values}):
            self._note_once(warning)
        if isinstance(view, TerminalView):
            _print_head(view, selected, self.cwd, reused=reused)
        row = await _execute(selected.plan, observer)
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

    def _note_once(self, note: str) -> None:
        if note not in self._printed_notes:
            self._printed_notes.add(note)
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
            content = encode_payload(with_empty_values(payload)) + b"\n"
            _file(lambda: path.write_bytes(content), f"--save-payload {path}", "write")


def _file(operation: Callable[[], Any], option: str, verb: str) -> Any:
    try:
        return operation()
    except OSError as error:
        raise UsageError(f"{option}: cannot {verb} the file: {error.strerror or error}.") from None


async def _execute(plan: RunPlan, observer: Observer) -> CaseResult:
    """Execute the plan and return its only row."""
    rows: list[CaseResult] = []

    async def deliver(row: CaseResult) -> None:
        rows.append(row)

    observer.redactor = Redactor(plan.secrets.values)
    try:
        await Execution(plan, "judge", deliver, recording=Recording(observer.call), own_process=True).run()
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


def _print_head(view: TerminalView, selected: Selected, cwd: Path, *, reused: bool) -> None:
    look, item, spec = view.look, selected.item, selected.spec
    live_target = selected.plan.lanes[0].spec if selected.plan.answers is None else None
    answer_source = f", calling {item.target}" if live_target is not None else ""
    answer_source = f", reusing the answer of {item.target}" if reused else answer_source
    names = dict.fromkeys((item.planned.suite.name, item.case.id))  # a payload may contain neither
    title = f"{': '.join(names)}{answer_source}"
    view.say(look.style(look.cut(look.text(title), look.width), "bold"))
    words = selected.judge.shown or " ".join(_shown(word, spec.cwd) for word in spec.argv)
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
        error = {"stage": "target", "message": row.error.message if row.error else "no evaluator was run"}
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
    """Why no score was computed, without the stderr that was already printed; None if there is a score."""
    if isinstance(observer.failure, ScriptError):
        return observer.redactor.text(observer.failure.message)
    return None if outcome["judged"] else str(outcome["error"]["message"])


# -- watching


async def changed_since(before: Mapping[Path, Stamp]) -> list[Path]:
    """Wait until files are saved, and return them once they no longer change."""
    while True:
        now = await until_saved(before)
        if changed := sorted(path for path in now if now[path] != before[path]):
            return changed
