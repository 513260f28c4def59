"""Executes a plan and records it in a run directory. Used by the command line and by `agentv.evaluate`."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.errors import RecordError, RunChangedError, SuiteError, UsageError
from agentv.git_state import Checkout, GitState
from agentv.plan.plan import RunPlan
from agentv.record.answers import AnswerJournal
from agentv.record.cases import record_cases
from agentv.record.files import failure
from agentv.record.labels import LATEST, RunLabels
from agentv.record.mirror import check_out
from agentv.record.recovery import Recovery, recover
from agentv.record.rows import recorded_key
from agentv.record.run_dir import (
    ANOTHER,
    MANIFEST,
    RESULTS,
    RunDirectory,
    find_run,
    refuse_recorded,
)
from agentv.record.writer import RowWriter
from agentv.redact import Redactor
from agentv.report.progress import EQUAL_SHOWN, Progress, QuietProgress, Repeats
from agentv.report.summary import Summary, SummaryBuilder
from agentv.results import CaseResult, RowKey, resumable_usd, spend_of
from agentv.run.case import Ask
from agentv.run.execute import Execution
from agentv.run_manifest import (
    changes,
    config_changes,
    interpreter_changes,
    interpreters_of,
    manifest_of,
    now,
)
from agentv.suite.evaluator import JUDGED
from agentv.targets.budget import Budget
from agentv.targets.provider import Retry
from agentv.text import plural

if TYPE_CHECKING:
    from agentv.judge.recorded_replies import RecordedReplies
    from agentv.judge.recording import Recording
    from agentv.record.judge_calls import JudgeCallLog
    from agentv.record.replay_source import RunReplaySource
    from agentv.run.replay import Replay

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended."""

    run_id: str
    directory: RunDirectory
    summary: Summary
    interrupted: bool = False
    out_error: RecordError | None = None
    budget: Mapping[str, Any] = field(default_factory=dict)
    """The limits of the run, and how much of them was spent."""


@dataclass(frozen=True, slots=True)
class RunHooks:
    """Callbacks and options of a run that are not part of its plan."""

    progress: Progress = field(default_factory=QuietProgress)
    functions: Mapping[str, Ask] = field(default_factory=dict)
    """Answer the cases if the targets are Python functions, by the name of the target."""
    on_row: Callable[[CaseResult], None] | None = None
    on_start: Callable[[], None] | None = None
    """Called before the first case, when the record contains the rows of earlier parts of the run and no others."""
    own_process: bool = False
    """Whether agentv owns the whole process, as on the command line."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    """Writes finished rows, and counts each one once it is on disk."""

    writer: RowWriter
    summary: SummaryBuilder
    hooks: RunHooks
    cancelled: list[asyncio.Future[CaseResult]] = field(default_factory=list)
    """Rows that were being written when the run was stopped."""

    async def deliver(self, row: CaseResult) -> None:
        written = self.writer.submit(row)
        try:
            recorded = await asyncio.shield(written)
        except asyncio.CancelledError:
            self.cancelled.append(written)
            raise
        self._count(recorded)

    def count_rows_written_meanwhile(self) -> None:
        for written in self.cancelled:
            if written.done() and written.exception() is None:
                self._count(written.result())

    def _count(self, row: CaseResult) -> None:
        self.summary.add(row)
        try:
            self.hooks.progress.row(row)
        except Exception as error:
            self.summary.could_not("progress", error)
        if self.hooks.on_row is not None:
            self.hooks.on_row(row)


@dataclass(slots=True)
class _SpentBefore:
    """Charges the budget for earlier parts of the run. An answer that is judged again is paid for once."""

    plan: RunPlan
    budget: Budget
    _superseded: dict[tuple[RowKey, str], float] = field(default_factory=dict)
    """What was paid for the answer, or for the first turns, of a superseded row. The call that failed is paid again."""

    def superseded(self, row: CaseResult) -> None:
        self.row(row)
        self._superseded[row.key, row.started_at] = resumable_usd(row)

    def row(self, row: CaseResult) -> None:
        usd, calls = spend_of(row, answer_paid=self.plan.pays_for(row.target))
        if self.plan.pays_for(row.target):
            usd -= self._superseded.get((row.key, row.started_at), 0.0)
        self.budget.spent_before(max(0.0, usd), calls)


@dataclass(slots=True)
class RecordedRun:
    """One run with its directory. Create it with `start_run` or `resume_run`."""

    plan: RunPlan
    directory: RunDirectory
    manifest: dict[str, Any]
    redactor: Redactor
    notes: list[str] = field(default_factory=list)
    retry_errors: bool = False
    """Whether errored rows are superseded and their cases run again."""
    inputs_changed: bool = False
    """Whether a file that the run depends on has changed since the run started."""
    targets_changed: bool = False
    """Whether the configuration of a target has changed since the run started."""
    out_is_ours: bool = False
    """Whether the file of `--out` must not contain anything but rows of this run: its name comes from run.json."""
    git: GitState | None = None
    """The commit of a new run."""
    replay: RunReplaySource | None = None
    """The run that is replayed."""

    async def run(self, hooks: RunHooks | None = None) -> RunOutcome:
        """Run the cases that have no row yet. Cancelling stops the work in flight and returns the outcome so far."""
        # Locked from reading the rows to the last write of run.json, so that two resumes cannot run the same case.
        with self.directory.lock():
            if self.git is not None:
                self.git.start()
            else:  # resumed: `agentv runs note` may have changed the note before the lock was taken
                self.manifest["note"] = self.directory.read_manifest().get("note")
            summary = SummaryBuilder.of(self.manifest)
            budget = _budget(self.plan)
            spent = _SpentBefore(self.plan, budget)

            def count_earlier(row: CaseResult) -> None:
                summary.add(row)
                spent.row(row)

            recovery = recover(
                self.directory, on_row=count_earlier, supersede=self._is_superseded(), on_superseded=spent.superseded
            )
            journal = AnswerJournal(
                self.directory,
                self.redactor,
                same_cases=not self.inputs_changed,
                same_targets=not self.targets_changed,
            )
            journal.read(recovery.done, spent.row)
            await asyncio.to_thread(self._record_cases)
            self.manifest["total"] = self._total(recovery.done)
            replies = self._replies(recovery)
            if replies is not None:
                budget.spent_before(replies.cost_usd, replies.call_count)
            budget.spent_at_least(self.manifest.get("budget") or {})
            return await self._run(hooks or RunHooks(), summary, recovery, budget, replies=replies, journal=journal)

    def _replies(self, recovery: Recovery) -> RecordedReplies | None:
        """The replies of judges for rows that were not finished when the run was interrupted."""
        path = self.directory.judge_calls
        if not os.path.lexists(path):
            return None
        from agentv.judge.recorded_replies import RecordedReplies  # noqa: PLC0415 - only resumed runs need it

        try:
            return RecordedReplies.read(
                path,
                self.redactor,
                wanted=lambda key: key not in recovery.done,
                execution=recovery.execution,
            )
        except OSError as error:
            raise failure("read", path, error) from error

    def _record_cases(self) -> None:
        """Write `cases.jsonl` before the first call. A resumed run keeps it, and adds the cases that have changed."""
        record_cases(self.directory, self.plan.case_lines(), self.redactor, add_changed=self.inputs_changed)
        if self.plan.collected is not None:
            self.plan.collected.lines.clear()

    async def _run(
        self,
        hooks: RunHooks,
        summary: SummaryBuilder,
        recovery: Recovery,
        budget: Budget,
        *,
        replies: RecordedReplies | None,
        journal: AnswerJournal,
    ) -> RunOutcome:
        started, progress = time.perf_counter(), hooks.progress
        writer = RowWriter(self.directory, redactor=self.redactor, out=self._out(), out_is_ours=self.out_is_ours)
        journal.attach(writer.appender)
        judging = self._judging(writer, recovery, replies) if self.plan.needs else None
        delivery = _Delivery(writer, summary, hooks)
        retries = _RetryNotes(progress, self.redactor)
        execution = Execution(
            self.plan,
            self.manifest["run_id"],
            delivery.deliver,
            lambda key: recorded_key(key, self.redactor) in recovery.done,
            on_retry=retries.add,
            recording=None if judging is None else judging[1],
            functions=hooks.functions,
            own_process=hooks.own_process,
            budget=budget,
            retry_command=self.directory.retry_command,
            cwd=Path(self.manifest["cwd"]),
            on_note=progress.note,
            on_waiting=progress.waiting,
            journal=journal,
            earlier=lambda key: summary.attempts_of(recorded_key(key, self.redactor).case),
            on_skipped=partial(self._skip, progress),
            replay=self._replay(),
        )
        interrupted, status = False, "failed"
        try:
            async with writer:
                progress.start(self.manifest["total"], len(recovery.done))
                if hooks.on_start is not None:
                    hooks.on_start()
                for note in [*self._recovery_notes(recovery), *self._reuse_notes(journal)]:
                    progress.note(note)
                try:
                    await execution.run()
                    status = "out of budget" if execution.not_run else "finished"
                except asyncio.CancelledError:
                    interrupted, status = True, "interrupted"
                    writer.hurry()
                except SuiteError as error:
                    error.exit_code = 3  # the suite changed during the run: not 2, because some cases have run
                    raise
        except asyncio.CancelledError:  # cancelled after the work was done, while the record was being closed
            if status == "failed":
                raise
        finally:
            delivery.count_rows_written_meanwhile()
            progress.close()
            if status == "finished":
                journal.remove()
            summary.count_not_run(execution.not_run, execution.attempts_not_run)
            summary.why_not_run = budget.exhausted
            built = summary.build(duration_seconds=time.perf_counter() - started)
            if built.worst:
                from agentv.report.questions import with_questions  # noqa: PLC0415 - only for cases that did not pass

                built = with_questions(built, self.directory.results)
            self.manifest["budget"] = budget.to_dict()
            if execution.nodes is not None:
                self.manifest["nodes"] = execution.nodes.to_dict()
            self._close_manifest(status, built)
        if judging is not None:
            await judging[0].finish(self.plan.options.judge_io == "failures", recovery.execution)
        return RunOutcome(
            self.manifest["run_id"], self.directory, built, interrupted, writer.mirror_error, budget.to_dict()
        )

    def _judging(
        self, writer: RowWriter, recovery: Recovery, replies: RecordedReplies | None
    ) -> tuple[JudgeCallLog, Recording]:
        """The log of the judge calls, and how they are recorded."""
        from agentv.judge.recording import Recording  # noqa: PLC0415 - only runs with scripts or judges need it
        from agentv.record.judge_calls import JudgeCallLog  # noqa: PLC0415

        log = JudgeCallLog(self.directory, writer.appender, self.redactor)

        def execution(key: RowKey) -> int:
            return recovery.execution(recorded_key(key, self.redactor))

        return log, Recording(log.append, self.plan.options.judge_io != "none", replies, execution)

    def _skip(self, progress: Progress, attempts: int) -> None:
        """Attempts that cannot change a verdict are not part of the run."""
        self.manifest["total"] -= attempts
        progress.shrink(attempts)

    def _replay(self) -> Replay | None:
        if self.replay is None:
            return None
        from agentv.run.replay import Replay  # noqa: PLC0415 - most runs call their targets

        return Replay.of(self.replay, self.redactor)

    def _is_superseded(self) -> Callable[[CaseResult], bool]:
        """Whether a row is run again: with `retry_errors`, an errored row whose case is still in the plan."""
        if not self.retry_errors:
            return lambda _: False
        planned = {recorded_key(key, self.redactor) for lane in self.plan.lanes for key in lane.row_keys()}
        return lambda row: row.error is not None and row.key in planned

    def _recovery_notes(self, recovery: Recovery) -> list[str]:
        notes = [
            f"results.jsonl line {bad.number} was not a valid row ({bad.reason}); its case is run again"
            for bad in recovery.corrupt
        ]
        notes += [
            f"results.jsonl line {twin.number} was a duplicate row and was set aside" for twin in recovery.duplicates
        ]
        if recovery.superseded:
            notes.append(f"running {plural(recovery.superseded, 'errored row')} again (the old: superseded.jsonl)")
        elif self.retry_errors:
            notes.append("the run has no errored rows to run again")
        elif recovery.errors:
            rows = plural(recovery.errors, "recorded row")
            notes.append(f"{rows} errored. To run errored cases again: {self.directory.retry_command}")
        return notes

    def _reuse_notes(self, journal: AnswerJournal) -> list[str]:
        notes = list(journal.notes)

        def keys() -> Iterator[RowKey]:
            return (key for lane in self.plan.lanes for key in lane.row_keys())

        first, again = journal.reused(keys(), self.plan.case_hashes)
        if first:
            cases = "1 case was" if first == 1 else f"{first:,} cases were"
            notes.append(
                f"{cases} answered before the interruption; {'it is' if first == 1 else 'they are'} only judged"
            )
        if continued := journal.continued(keys(), self.plan.case_hashes):
            conversations = (
                "1 conversation continues after its"
                if continued == 1
                else f"{continued:,} conversations continue after their"
            )
            notes.append(f"{conversations} last recorded turn")
        if again:
            answers = "1 answer of an errored row is" if again == 1 else f"{again:,} answers of errored rows are"
            notes.append(f"{answers} judged again, without calling the target")
        return notes

    def _total(self, done: set[RowKey]) -> int:
        """The number of rows of the complete run, including rows of cases that a changed suite no longer has."""
        if not done:
            return self.plan.total
        keys = (recorded_key(key, self.redactor) for lane in self.plan.lanes for key in lane.row_keys())
        return len(done) + sum(key not in done for key in keys)

    def _out(self) -> Path | None:
        return _out_file(self.plan, Path(self.manifest["cwd"]))

    def _close_manifest(self, status: str, summary: Summary) -> None:
        if self.git is not None:
            self.git.close()
            self.manifest["git"] = self.git.to_dict()
        self.manifest["status"] = status
        self.manifest["finished_at"] = now()
        self.manifest["summary"] = summary.to_dict()
        self.directory.write_manifest(self.manifest, redactor=self.redactor)


def start_run(
    plan: RunPlan,
    run_id: str,
    directory: Path,
    cwd: Path,
    labels: RunLabels | None = None,
    *,
    say: Callable[[str], None] = _log.info,
) -> RecordedRun:
    """A new run. Its directory and its `run.json` are created before any target is called.

    The packages of its scripts are installed before that; `say` reports it.
    """
    _refuse_to_overwrite(plan, cwd, directory)
    if (out := _out_file(plan, cwd)) is not None:
        check_out(out)
    plan = _with_interpreters(plan, say)
    redactor = Redactor(plan.secrets.values)
    git = GitState(Checkout.near(cwd) or Checkout.near(plan.suites[0].suite.path.absolute().parent))
    replay = _replayed(plan, cwd)
    manifest = manifest_of(plan, run_id, cwd, labels or RunLabels(), git)
    if replay is not None:
        manifest["scripted"] = replay.manifest.get("scripted") is True
        manifest["replayed"] = replay.to_dict()
        manifest["digests"] |= replay.digests()
        manifest["summary_notes"].append(replay.note)
    created = RunDirectory.create(directory, manifest, redactor=redactor)
    return RecordedRun(plan, created, manifest, redactor, git=git, replay=replay)


def _with_interpreters(plan: RunPlan, say: Callable[[str], None]) -> RunPlan:
    """The plan with every interpreter that its scripts need, ready for use."""
    if not plan.interpreters:
        return plan
    from agentv.run.interpreters import with_interpreters  # noqa: PLC0415 - most runs use the Python of agentv

    return with_interpreters(plan, say)


def replayed_run(name: str, cwd: Path) -> str:
    """The directory of the run to replay, relative to the working directory, so that it can be resumed later."""
    return os.path.relpath(find_run(name, cwd).path, cwd)


def _replayed(plan: RunPlan, cwd: Path) -> RunReplaySource | None:
    """The record of the run that is replayed. Raises UsageError if its judge replies are needed and missing."""
    if plan.options.replay is None:
        return None
    from agentv.record.replay_source import RunReplaySource  # noqa: PLC0415 - most runs call their targets

    replay = RunReplaySource(RunDirectory.open(cwd / plan.options.replay))
    if not plan.needs.isdisjoint(JUDGED):
        replay.refuse_without_judge_io()
    return replay


def outputs_file(name: str, cwd: Path) -> str:
    """The file of `--outputs`: a file as given, or the results of a run given by its id or directory."""
    path = cwd / name
    if path.is_dir():
        if os.path.lexists(path / MANIFEST):
            return os.path.relpath(RunDirectory.open(path).results, cwd)
        if (path / RESULTS).is_file() and not (path / RESULTS).is_symlink():
            return str(Path(name) / RESULTS)
        raise UsageError(
            f"--outputs {name} is a directory, but not a run: it has no {RESULTS}.",
            next_step="Specify a JSON Lines file, a run id or a run directory.",
        )
    if path.name == RESULTS and os.path.lexists(path.with_name(MANIFEST)):
        RunDirectory.open(path.parent)  # refuses pipes and devices; other pipes may be named
    if not os.path.lexists(path):
        try:
            return os.path.relpath(find_run(name, cwd).results, cwd)
        except RecordError:
            if LATEST.fullmatch(name):
                raise
    return name  # a missing file is reported when it is read


def resume_run(
    plan: RunPlan,
    directory: RunDirectory,
    manifest: dict[str, Any],
    *,
    allow_changed: bool,
    retry_errors: bool = False,
    new_out: bool = False,
    say: Callable[[str], None] = _log.info,
) -> RecordedRun:
    """A run to resume: rows on disk count as done, with `retry_errors` only those without an error.

    `new_out` is True if the user has named the file of `--out` now. Raises RunChangedError if an input of the run has
    changed, and RecordError if the recorded `--out` is not the copy of this run.
    """
    plan = _with_interpreters(plan, say)
    redactor = Redactor(plan.secrets.values)
    # A path that contains the value of a secret is masked in run.json.
    replay = _replayed(plan, Path(manifest["cwd"]))
    digests = {**plan.digests(), **(replay.digests() if replay is not None else {})}
    interpreters = interpreters_of(plan)
    changed = [
        *changes(redactor.value(digests), manifest.get("digests") or {}),
        *interpreter_changes(redactor.value(interpreters), manifest.get("interpreters") or {}),
    ]
    if changed and not allow_changed:
        raise RunChangedError(
            "the run cannot be resumed, because its inputs have changed:\n"
            + "\n".join(f"  {line}" for line in changed),
            next_step="Undo the change, start a new run, or use --allow-changed to mix old and new results.",
        )
    _refuse_to_overwrite(plan, Path(manifest["cwd"]), directory.path)
    if (out := _out_file(plan, Path(manifest["cwd"]))) is not None:
        check_out(out, None if new_out else directory)
    notes = [f"resuming despite a change: {line}" for line in changed]
    reconfigured = config_changes(plan, manifest, redactor)
    notes += [f"{line}; existing rows were made with the old version" for line in reconfigured]
    manifest["status"] = "running"
    manifest["options"] = plan.options.to_dict()
    manifest["digests"] = digests
    if interpreters:
        manifest["interpreters"] = interpreters
    manifest["total"] = plan.total
    return RecordedRun(
        plan,
        directory,
        manifest,
        redactor,
        notes,
        retry_errors,
        inputs_changed=bool(changed),
        targets_changed=bool(reconfigured),
        out_is_ours=not new_out,
        replay=replay,
    )


def _out_file(plan: RunPlan, cwd: Path) -> Path | None:
    out = plan.options.out
    return None if out is None else Path(out) if out == "-" else cwd / out


def _refuse_to_overwrite(plan: RunPlan, cwd: Path, directory: Path) -> None:
    """Raise UsageError if `--out` would overwrite a file that the run reads, or the record of a run."""
    out = _out_file(plan, cwd)
    if out is None:
        return
    refuse_recorded(out, directory)
    if str(out.resolve()) in {*plan.digests(), *(str(path.resolve()) for path in plan.configs())}:
        raise UsageError(f"--out {plan.options.out} would overwrite a file that the run reads.", next_step=ANOTHER)


def _budget(plan: RunPlan) -> Budget:
    """The limits of the run; for a shard, its part of them."""
    options, max_cost = plan.options, plan.max_cost
    shard = options.own_shard
    if shard is None:
        return Budget(max_cost, options.max_judge_calls)
    return Budget(
        None if max_cost is None else shard.share(max_cost),
        None if options.max_judge_calls is None else shard.whole_share(options.max_judge_calls),
        shard=str(shard),
    )


class _RetryNotes:
    """Shows that calls are retried; for each target and error, only the first few times."""

    def __init__(self, progress: Progress, redactor: Redactor) -> None:
        self._progress, self._redactor, self._repeats = progress, redactor, Repeats()

    def add(self, retry: Retry) -> None:
        count = self._repeats.count(retry.target, retry.error.message)
        if count > EQUAL_SHOWN + 1:
            return
        text = (
            f"{retry.request.eval_id}: attempt {retry.tries} failed, retrying in {retry.delay:.1f} s: "
            f"{retry.error.message}"
            if count <= EQUAL_SHOWN
            else f"further retries of target '{retry.target}' after this error are not shown"
        )
        self._progress.note(self._redactor.text(text))
